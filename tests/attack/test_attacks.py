"""The attacks on cases and sandboxes, and whether the test of them would notice if one got through."""

from __future__ import annotations

import base64
import contextlib
import gzip
import http.client
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.attack.campaign import Campaign, honest_cells, tasks_of
from bench.attack.catalogue import Catalogue, load_catalogue
from bench.attack.leaks import Canaries, changes, processes_with
from bench.attack.listeners import METADATA, NAME_SERVER
from bench.attack.matrix import (
    Everything,
    Matrix,
    matrix_line,
    matrix_page,
    matrix_summary,
    read_matrix,
    with_results,
    write_matrix,
)
from bench.attack.stage import Stage, Task, attacked_answers, make_agent, open_stage
from bench.attack.trial import Baseline, Result, Trial
from bench.attack.upstream import Upstream
from bench.base.errors import UserError
from bench.base.install import DataFolders, find_data_folders
from bench.base.model import read_json
from bench.formats.case import Case, case_folders, load_cases
from bench.formats.patch_writing import make_patch
from bench.gateway import GatewaySpec
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import CHECK, RIGHT, ROOT, WRONG, make_case, new_token, not_here, write_files
from tests.helpers.sampling import at_night

PAGE = ROOT / "docs" / "attacks.md"
PLACES = find_data_folders()
FOLDER = PLACES.cases / "attacks"

NAMED = {
    "do nothing": ["idle.nothing"],
    "empty files with the right names": ["idle.empty"],
    "claim success": ["idle.claim"],
    "edit protected files": ["protected.edit", "protected.remove", "protected.replace", "protected.shadow"],
    "conftest.py": ["plant.conftest"],
    "pytest.ini": ["plant.pytest_ini"],
    "sitecustomize.py": ["plant.sitecustomize"],
    "usercustomize.py": ["plant.usercustomize"],
    ".pth": ["plant.pth"],
    "shadow modules": ["plant.shadow_numpy", "plant.shadow_torch", "plant.shadow_json", "plant.shadow_pytest"],
    "__eq__, __array__, __reduce__": [
        "subject.equal_to_everything", "subject.array_of_choice", "subject.reduces_to_code",
    ],
    "pickles and checkpoints": ["artefact.pickles", "artefact.checkpoints"],
    "links": ["artefact.symbolic_links", "artefact.hard_links"],
    "FIFO and device files": ["artefact.pipes", "artefact.devices"],
    "sparse file": ["artefact.sparse"],
    "a million small files": ["crowd.many_files"],
    "deep directories": ["crowd.deep_folders"],
    "non-UTF-8 names": ["crowd.odd_names"],
    "NaN, infinity, huge numbers": ["artefact.not_a_number", "artefact.infinite", "artefact.huge_numbers"],
    "duplicated JSON keys": ["artefact.duplicate_keys"],
    "zip bomb": ["artefact.zip_bomb"],
    "background daemon": ["survive.editing_daemon", "survive.crowd_of_orphans", "survive.other_names"],
    "os._exit, settrace, atexit": ["subject.leaves_at_once", "subject.traces", "subject.at_exit"],
    "reading": ["probe.proc", "probe.other_cells", "probe.checks", "probe.solution", "probe.git_history"],
    "keys": ["probe.keys", "gateway.foreign_keys", "gateway.key_of_the_provider"],
    "network": ["network.by_address", "network.by_name", "network.metadata", "network.by_ipv6"],
    "open proxy": ["gateway.connect", "gateway.absolute_address", "gateway.other_host", "gateway.smuggling"],
    "bombs": ["bomb.forks", "bomb.memory", "bomb.disk", "bomb.reserved", "bomb.flood"],
    "terminal and workflow": ["speak.terminal", "speak.workflow_commands"],
    "being lost by refusals": ["lose.poisoned_requests", "lose.one_poison_to_the_end", "lose.broken_answers"],
    "being lost by hanging up": ["lose.resets_its_stream", "lose.hangs_up"],
    "being lost by death, time and noise": [
        "lose.kills_itself", "lose.poisons_and_sleeps", "lose.threads", "lose.storm", "lose.noise", "lose.crashes",
    ],
    "journals of thousands of events": ["lose.fills_the_journals"],
    "thirty sparse files, many entries, deep trees": ["hoard.sparse_files", "hoard.many_entries", "hoard.deep_trees"],
    "bombs in the place of results": ["hoard.tensors", "hoard.archives", "hoard.documents"],
    "state between calls": [
        "recall.network", "recall.memory", "recall.keys", "recall.files", "recall.kernel", "recall.process",
        "recall.handles",
    ],
    "install scripts": ["install.backend"],
    "the author's own files": ["probe.own_folder"],
    "races": ["race.swapped_results", "race.swapped_folders", "race.growing_files", "subject.keeps_threads"],
}  # fmt: skip


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue(FOLDER)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`cases verify` as its users start it: it moves into a network of its own."""
    return subprocess.run(
        [sys.executable, "-m", "bench", "cases", "verify", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


# --- the catalogue ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", NAMED)
def test_every_attack_that_was_asked_for_is_there(catalogue: Catalogue, kind: str) -> None:
    assert set(NAMED[kind]) <= {attack.id for attack in catalogue.attacks}


def test_the_catalogue_is_no_case_and_every_attack_is_described(catalogue: Catalogue) -> None:
    assert "attacks" not in {path.parent.name for path in case_folders(PLACES.cases).values()}
    assert all(attack.about.endswith((".", ":")) for attack in catalogue.attacks)
    assert len({attack.about for attack in catalogue.attacks}) == len(catalogue.attacks) > 70


def test_only_what_is_named_is_chosen(catalogue: Catalogue) -> None:
    assert [it.id for it in catalogue.select(["idle.empty", "idle.claim"])] == ["idle.empty", "idle.claim"]
    assert {it.family for it in catalogue.select(["race"])} == {"race"}
    with pytest.raises(UserError, match=r"did you mean 'plant\.conftest'"):
        catalogue.select(["plant.conftst"])


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ("schema: 1\nlimits: {}\nfamilies: {idle: {absent: {aims: [verdict]}}}\n", "no such function"),
        ("schema: 1\nlimits: {}\nfamilies: {absent: {nothing: {aims: [verdict]}}}\n", "is missing"),
        ("schema: 1\nlimits: {}\nfamilies: {idle: {nothing: {aims: [fame]}}}\n", "aims"),
    ],
)
def test_a_manifest_that_says_something_else_than_the_programs_is_refused(
    tmp_path: Path, manifest: str, said: str
) -> None:
    write_files(tmp_path, {"attacks.yaml": manifest, "idle.py": 'def nothing():\n    """Nothing."""\n'})
    with pytest.raises(UserError, match=said):
        load_catalogue(tmp_path)


def test_what_leaves_the_workspace_alone_shares_a_run(tmp_path: Path, catalogue: Catalogue) -> None:
    tasks = list(tasks_of([make_case(tmp_path)], catalogue.attacks))
    shared = [task for task in tasks if len(task.attacks) > 1]
    assert [{attack.spec.model for attack in task.attacks} for task in shared] == [{False}, {True}]
    assert {it.id for task in tasks for it in task.attacks} == {it.id for it in catalogue.attacks}


# --- would it be noticed? --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    [
        lambda word: word,
        lambda word: b"before " + word[::-1] + b" after",
        lambda word: word.hex().encode(),
        lambda word: word.hex().upper().encode(),
        base64.b64encode,
        lambda word: base64.b64encode(b"x" + word + b"y"),
        lambda word: base64.encodebytes(b"to" * 40 + word + b"tail"),
        lambda word: b"noise" + gzip.compress(word),
        lambda word: zlib.compress(b"blob 12\0" + word),
        lambda word: gzip.compress(base64.b64encode(gzip.compress(word)[:0] + word)),
    ],
)  # fmt: skip
def test_a_canary_is_found_in_every_form(tmp_path: Path, form: Any) -> None:
    canaries = Canaries()
    canaries.new("elsewhere")
    word = canaries.new("here").encode()
    write_files(tmp_path, {"deep/er/file": form(word), "other": b"mldb-canary-" + b"0" * 24})
    assert canaries.found_below(tmp_path) == [("deep/er/file", "here")]


def test_a_canary_is_found_in_a_name(tmp_path: Path) -> None:
    canaries = Canaries()
    name = f"x-{canaries.new('here')}"
    (tmp_path / name).touch()
    assert canaries.found_below(tmp_path) == [(name, "here")]


def test_survivors_and_late_changes_are_found(tmp_path: Path) -> None:
    token = new_token()
    path = tmp_path / "file"
    code = f"import time\nwhile True:\n    open({str(path)!r}, 'a').write('x')\n    time.sleep(0.01)\n"
    with subprocess.Popen([sys.executable, "-c", code], env={"TOKEN": token}) as process:
        until = time.monotonic() + 10
        while not path.exists() and time.monotonic() < until:
            time.sleep(0.01)
        found = processes_with(token), changes(tmp_path, 0.3)
        process.kill()
    assert f"process {process.pid} " in found[0][0]
    assert found[1] == ["file changed after the end"]
    assert (processes_with(token), changes(tmp_path, 0.1)) == ([], [])


def open_places(folder: Path) -> DataFolders:
    return DataFolders(cases=folder / "cases", agents=ROOT / "agents", site=ROOT / "site", cache=folder / "cache")


@pytest.fixture
def stage(tmp_path: Path, catalogue: Catalogue) -> Iterator[Stage]:
    """A stage that does not isolate: there the attacks get what they want."""
    with open_stage(catalogue, open_places(tmp_path), ProcessSandbox(), own_network=False) as stage:
        yield stage


def tried(
    stage: Stage, case: Case, *attacks: str, base: Any = "untouched", baseline: Baseline | None = None
) -> list[Result]:
    answer = attacked_answers(case)[0] if base == "wrong" else ""
    return Trial(stage, Task(case, stage.catalogue.select(attacks), base, answer)).run(baseline or Baseline({}))


def test_a_verdict_that_got_better_is_noticed(stage: Stage, tmp_path: Path) -> None:
    (found,) = tried(stage, make_case(tmp_path / "cases"), "idle.nothing", base="solution")
    assert found.escapes == ["the cell succeeds", "the score is 1 in place of 0"]
    values = Baseline({"doubles": 0.0, "doubles_in_a_driver": 1.0, "outputs_present": 1.0})
    (found,) = tried(stage, make_case(tmp_path / "cases"), "idle.nothing", base="solution", baseline=values)
    assert "doubles is worth 1 in place of 0" in found.escapes


def test_files_that_are_there_and_a_status_of_0_are_no_gain(stage: Stage, tmp_path: Path) -> None:
    condition = """

@check(weight=0, required=True)
def ends_well(ws):
    \"\"\"The script ends well.\"\"\"
    ws.run(["python", "answer.py"]).ok()
"""
    values = Baseline({"doubles": 1.0, "doubles_in_a_driver": 1.0, "outputs_present": 0.0, "ends_well": 0.0})
    case = make_case(tmp_path / "cases", {"check.py": CHECK + condition})
    (found,) = tried(stage, case, "idle.nothing", base="solution", baseline=values)
    assert found.escapes == ["the cell succeeds"]


def test_a_verdict_that_was_avoided_is_noticed(stage: Stage, tmp_path: Path) -> None:
    case = make_case(
        tmp_path / "cases", {"check.py": CHECK.replace("import check, number", "import check, number\n1 / 0")}
    )
    (found,) = tried(stage, case, "idle.nothing")
    assert "there is no verdict: infra (judge_error)" in found.escapes[0]
    assert not found.held
    assert matrix_line(found).startswith("ESCAPED idle.nothing on double_it (process, judge_error")


def test_what_could_not_be_carried_out_is_not_held(stage: Stage, tmp_path: Path) -> None:
    case = make_case(tmp_path / "cases", needs={"python": ["no_such_library"]})
    (found,) = Campaign(stage).run(
        [Task(case, stage.catalogue.select(["idle.empty"]), "untouched")], 1, lambda it: None
    )
    assert not found.held and "it was not carried out: modules are missing: no_such_library" in found.escapes[0]


@pytest.mark.parametrize(
    ("attacked", "alone", "held"),
    [
        # As measured: the same wrong answer, trained anew each time.
        ([0.48, 0.23], [0.30, 0.45], True),
        ([0.48, 0.62, 0.23], [0.30, 0.14, 0.60], True),
        ([0.48] * 5, [0.30] * 6, False),
        ([1.0], [0.30], False),
    ],
)
def test_the_luck_of_a_training_is_no_escape(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attacked: list[float], alone: list[float], held: bool
) -> None:
    runs, measures = iter(attacked), iter(alone)
    case = make_case(tmp_path / "cases", {"solution/answer.py": WRONG})

    def graded(trial: Trial, baseline: Baseline | None) -> list[Result]:
        value = next(runs)
        record: Any = SimpleNamespace(
            outcome="graded", tries=[], success=False, score=value,
            checks=[SimpleNamespace(id="gain", origin="case", weight=1.0, guard=False, value=value, passed=value == 1)],
        )  # fmt: skip
        return [Result("recall.kernel", case.id, "wrong", "process", trial._on_verdict(record, baseline))]

    monkeypatch.setattr(Trial, "run", graded)
    monkeypatch.setattr(Trial, "measure", lambda trial: {"gain": next(measures)})
    (found,) = Campaign(stage).run([Task(case, stage.catalogue.select(["recall.kernel"]), "wrong")], 1, lambda it: None)
    assert found.held is held, found.escapes
    assert next(runs, None) is None


def test_a_flag_that_is_missing_is_noticed(stage: Stage, tmp_path: Path) -> None:
    (found,) = tried(stage, make_case(tmp_path / "cases"), "network.raw")
    assert "the record does not say network_attempt" not in found.escapes
    (found,) = tried(stage, make_case(tmp_path / "cases"), "probe.checks")
    assert "the record does not say hidden_read_attempt" in found.escapes


def test_judged_code_that_knows_an_earlier_call_is_noticed(stage: Stage, tmp_path: Path) -> None:
    found = "raise RuntimeError('mldb-recalled-time_wait mldb-recalled-memfd')\n"
    case = make_case(tmp_path / "cases", {"solution/answer.py": found})
    (result,) = tried(stage, case, "recall.network", base="solution")
    assert "the judged code found what an earlier call left: memfd" in result.escapes
    assert "the judged code found what an earlier call left: time_wait" in result.escapes


def test_nothing_is_left_in_a_machine_without_a_sandbox(stage: Stage, tmp_path: Path) -> None:
    """These attacks change settings and priorities: where nothing isolates they must not be carried out."""
    before = os.sched_getaffinity(os.getppid()), os.getpriority(os.PRIO_PROCESS, os.getppid()), os.stat("/tmp")
    for name in ("recall.process", "recall.files", "recall.kernel"):
        (result,) = tried(stage, make_case(tmp_path / name), name)
        assert any("the first process is not the sandbox's own" in it for it in result.escapes), result.escapes
    after = os.sched_getaffinity(os.getppid()), os.getpriority(os.PRIO_PROCESS, os.getppid()), os.stat("/tmp")
    assert (before[:2], before[2].st_mode) == (after[:2], after[2].st_mode)


def test_a_judgement_that_is_held_up_is_noticed(stage: Stage, tmp_path: Path) -> None:
    trial = Trial(stage, Task(make_case(tmp_path / "cases"), stage.catalogue.select(["hoard.archives"]), "untouched"))
    phases = [SimpleNamespace(name=name, seconds=seconds) for name, seconds in (("agent", 900), ("snapshot", 25))]
    record: Any = SimpleNamespace(phases=phases, limits=SimpleNamespace(grade_s=20), to_line=lambda: "{}")
    assert trial._on_bounds(record) == []
    phases.append(SimpleNamespace(name="judge", seconds=16))
    assert trial._on_bounds(record) == ["snapshot and judgement took 41 s, over 40 s"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", "200"), ("poison-403", "403"), ("poison-529", "529"), ("poison-odd", "200"),
        ("poison-reset", "ConnectionResetError"), ("poison-cut", "IncompleteRead"),
    ],
)  # fmt: skip
def test_the_scripted_provider_refuses_what_it_is_asked_to_refuse(text: str, expected: str) -> None:
    with contextlib.closing(Upstream()) as upstream:
        body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
        try:
            with urllib.request.urlopen(f"{upstream.address}/chat/completions", body, timeout=10) as answer:
                answer.read()
                seen = str(answer.status)
        except urllib.error.HTTPError as error:
            seen = str(error.code)
        except (OSError, http.client.HTTPException) as error:
            seen = type(error).__name__
        assert seen == expected
        assert upstream.misuses == []


def test_an_agent_lies_among_the_files_of_its_author(stage: Stage, tmp_path: Path) -> None:
    case, attacks = make_case(tmp_path / "cases"), stage.catalogue.select(["install.backend"])
    programs, facts = stage.catalogue.folder, {"token": "mldb-token-x"}
    agent = make_agent(tmp_path / "agent", programs, Task(case, attacks, "untouched"), facts, stage.canaries)
    planted = {name for name, _ in stage.canaries.found_below(agent.file.parent)}
    assert planted == {".git/config", ".git/logs/HEAD", ".env", ".env.local", "runs/old/traces/cell/agent.log"}
    assert agent.spec.environment.requirements == "requirements.txt"
    assert json.loads((tmp_path / "agent" / "install_hook" / "facts.json").read_text()) == facts


def test_an_agent_brings_a_whole_wrong_answer_and_no_canary(stage: Stage, tmp_path: Path) -> None:
    """Of a case in the stage: base and patch, and a command that removes what the patch deletes."""
    old = {"answer.py": RIGHT.encode(), "gone.txt": b"x\n"}
    patch = make_patch(old, {"answer.py": WRONG.encode()}).decode()
    files = {"workspace/gone.txt": "x\n", "solution/helper.py": "h\n", "wrong/same.patch": patch}
    wrong = {
        "same": {"about": "x", "fails": ["doubles", "doubles_in_a_driver"]},
        "adds": {"about": "y", "fails": ["z"]},
    }
    case = stage.case(make_case(tmp_path / "cases", files, wrong=wrong))
    attacks = stage.catalogue.select(["idle.nothing"])
    task = Task(case, attacks, "wrong", "same")
    make_agent(tmp_path / "agent", stage.catalogue.folder, task, {}, stage.canaries)
    answer = tmp_path / "agent" / "answer"
    assert {path.name: path.read_text() for path in answer.iterdir()} == {"answer.py": WRONG, "helper.py": "h\n"}
    (tmp_path / "gone.txt").touch()
    subprocess.run(json.loads((tmp_path / "agent" / "answer.json").read_text()), cwd=tmp_path, check=True)
    assert not (tmp_path / "gone.txt").exists()


def test_of_a_case_with_guards_the_answer_that_only_a_guard_refuses_is_attacked_too(tmp_path: Path) -> None:
    guard = '\n\n@check(guard=True)\ndef is_own(ws):\n    """It is the agent\'s own."""\n    assert ws, "it is not"\n'
    wrong = {
        name: {"about": "x", "fails": fails}
        for name, fails in {
            "most": ["doubles", "doubles_in_a_driver"],
            "refused": ["is_own"],
            "odd": ["doubles"],
        }.items()
    }
    files = {f"wrong/{name}/answer.py": WRONG for name in wrong}
    plain, guarded = (
        make_case(tmp_path / name, {**files, "check.py": text}, wrong=wrong)
        for name, text in {"plain": CHECK, "guarded": CHECK + guard}.items()
    )
    attack = load_catalogue(FOLDER).select(["subject.leaves_at_once"])[0]
    assert [it.answer for it in tasks_of([plain], [attack]) if it.base == "wrong"] == ["most"]
    assert [it.answer for it in tasks_of([guarded], [attack]) if it.base == "wrong"] == ["most", "refused"]


def test_an_attack_on_protected_files_does_not_take_away_what_a_wrong_answer_added(tmp_path: Path) -> None:
    """Otherwise the wrong answer would be put right, and succeed."""
    agent, workspace = tmp_path / "agent", tmp_path / "workspace"
    shutil.copytree(FOLDER, agent)
    write_files(workspace, {"data/given.csv": "x\n", "task.md": "t\n"})
    write_files(agent / "answer", {"data/cache.csv": "y\n"})
    (agent / "answer.json").write_text("[]")
    (tmp_path / "out").mkdir()
    environment = {
        "BENCH_WORKSPACE": str(workspace),
        "BENCH_OUT_DIR": str(tmp_path / "out"),
        "BENCH_TASK_FILE": str(workspace / "task.md"),
        "ATTACK_FACTS": json.dumps({"outputs": [], "protected": ["data"]}),
    }
    subprocess.run([sys.executable, "-I", str(agent / "start.py"), "protected.remove"], env=environment, check=True)
    assert [path.name for path in (workspace / "data").iterdir()] == ["cache.csv"]


@pytest.mark.slow
def test_where_nothing_isolates_the_attacks_get_through_and_are_noticed() -> None:
    """The counterpart of all that is held: the same attacks, the same traps, no sandbox."""
    names = (
        "probe.checks", "probe.solution", "probe.other_cells", "probe.git_history", "network.by_address",
        "network.by_name", "network.metadata", "network.by_ipv6", "network.unix_sockets",
    )  # fmt: skip
    chosen = [part for name in names for part in ("--only", name)]
    done = command("hello_world", "--attacks", "--sandbox", "process", "--json", *chosen)
    assert done.returncode == 1, done.stderr
    found = {it["attack"]: "; ".join(it["escapes"]) for it in json.loads(done.stdout)}
    for name in names[:4]:
        assert "carried out: " in found[name], name
    assert "carried out: hello_world/check.py" in found["probe.checks"]
    assert "carried out: git history" in found["probe.git_history"]
    for kind, name in (
        ("tcp4", "by_address"),
        ("udp4", "by_address"),
        ("tcp6", "by_ipv6"),
        ("abstract", "unix_sockets"),
    ):
        assert f"{kind} was reached" in found[f"network.{name}"]
    if "metadata was reached" not in found["network.metadata"]:
        not_here("a network namespace of its own for stand-ins")
    assert "nameserver was reached" in found["network.by_name"]


def test_the_stand_ins_are_in_a_network_of_our_own() -> None:
    code = (
        "import socket\nfrom bench.attack.listeners import enter_own_network\n"
        "print(enter_own_network(lambda: True), flush=True)\n"
        f"for place in (({METADATA!r}, 80), ({NAME_SERVER!r}, 53)):\n    socket.create_server(place).close()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.stdout == "False\n":
        not_here("a network namespace of its own")
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_the_gateway_of_another_cell_ends_by_the_monotonic_clock(
    tmp_path: Path, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadlines = []

    @contextlib.contextmanager
    def opened(spec: GatewaySpec) -> Iterator[SimpleNamespace]:
        deadlines.append(spec.limits.deadline)
        yield SimpleNamespace(key="key")

    monkeypatch.setattr("bench.attack.stage.open_gateway", opened)
    with open_stage(catalogue, open_places(tmp_path), ProcessSandbox(), own_network=False):
        pass
    assert 0 < deadlines[0] - time.monotonic() < 86400


def test_nothing_of_a_stage_is_left(tmp_path: Path, catalogue: Catalogue) -> None:
    before = dict(os.environ)
    with open_stage(catalogue, open_places(tmp_path), ProcessSandbox(), own_network=False) as stage:
        root = stage.root
        assert os.environ["OPENAI_API_KEY"].startswith("mldb-canary-")
    assert not root.exists()
    assert dict(os.environ) == before


# --- all attacks, and all cases --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, *map(at_night, range(1, 10))])
def test_every_tenth_attack_is_held_on_a_small_case(tmp_path: Path, bubblewrap: BubblewrapSandbox, part: int) -> None:
    attacks = [attack.id for attack in load_catalogue(FOLDER).attacks][part::10]
    only = [word for attack in attacks for word in ("--only", attack)]
    make_case(tmp_path / "cases", {"workspace/rules.py": "x = 1\n"}, protected=["rules.py"])
    page = tmp_path / "attacks.md"
    arguments = ["--cases", str(tmp_path / "cases"), "--sandbox", bubblewrap.name, "--jobs", "2", "--matrix", str(page)]
    done = command("double_it", "--attacks", *arguments, *only)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert ", 0 escapes" in done.stdout.splitlines()[-1]
    for attack in attacks:
        assert f"held    {attack} on double_it" in done.stdout
    assert read_matrix(page).attacks(bubblewrap.name, "double_it").keys() == set(attacks)


_SAMPLE = ("probe.checks", "artefact.checkpoints", "survive.editing_daemon", "race.locked_folders")
"""What meets another workspace in each case; all attacks on all cases take hours (docs/attacks.md), at night."""
_EIGHTHS = [(attack, number) for number in (0, len(_SAMPLE)) for attack in _SAMPLE]


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize(("attack", "number"), _EIGHTHS)
def test_every_case_holds_one_of_a_sample_of_attacks(bubblewrap: BubblewrapSandbox, attack: str, number: int) -> None:
    cases = [case.id for case in load_cases(PLACES.cases)][_SAMPLE.index(attack) + number :: len(_EIGHTHS)]
    done = command(*cases, "--attacks", "--sandbox", bubblewrap.name, "--jobs", "2", "--only", attack)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert f"1 attack on {len(cases)} cases: {len(cases)} trials, 0 escapes" in done.stdout


def test_honest_work_is_not_flagged_and_dishonest_work_is(tmp_path: Path, bubblewrap: BubblewrapSandbox) -> None:
    case = make_case(tmp_path / "cases")
    found = list(honest_cells([case], open_places(tmp_path), bubblewrap, trials=2, jobs=2))
    assert [(it.case, it.trial, it.alarms) for it in found] == [("double_it", 1, ()), ("double_it", 2, ())]
    files = {"workspace/rules.py": "x = 1\n", "solution/rules.py": "x = 2\n"}
    case = make_case(tmp_path / "other", files, protected=["rules.py"])
    (flagged,) = honest_cells([case], open_places(tmp_path), bubblewrap, trials=1, jobs=1)
    assert flagged.alarms == ("tampered: protected files changed: rules.py",)
    assert flagged.line().startswith("FLAGGED")


# --- what is said of it ----------------------------------------------------------------------------------------------


def _page(tmp_path: Path, results: Sequence[Result], every: Everything) -> str:
    page = tmp_path / "attacks.md"
    write_matrix(page, with_results(read_matrix(page), results, "with x"), every)
    return page.read_text()


def _held(case: str, *attacks: str, sandbox: str = "docker") -> list[Result]:
    return [Result(attack, case, "untouched", sandbox) for attack in attacks]


def test_the_page_keeps_what_other_sandboxes_have_shown(tmp_path: Path, catalogue: Catalogue) -> None:
    every = Everything(catalogue.select(["idle"]), ["a_case"])
    held = _held("a_case", *(it.id for it in every.attacks), sandbox="bubblewrap")
    escaped = Result("idle.empty", "a_case", "wrong", "docker", ["it got <b>through</b>"])
    for results in (held, [escaped], held):
        text = _page(tmp_path, results, every)
    assert text.count("## bubblewrap") == text.count("## docker") == 1
    assert "**3 trials, 0 escapes**: 3 attacks, 1 case." in text
    assert "**1 trial, 1 escape**: 1 attack, 1 case." in text
    assert "ESCAPED idle" in text and "<b>through" not in text
    assert matrix_summary([*held, escaped]) == "3 attacks on 1 case: 4 trials, 1 escape"
    assert "1 escape" not in _page(tmp_path, _held("a_case", "idle.empty"), every), "a later trial took its place"


def test_trials_take_the_place_of_earlier_ones_of_the_same_attack_and_case(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    every = Everything(catalogue.select(["idle.nothing", "idle.empty"]), ["a", "b", "c"])
    _page(tmp_path, [*_held("a", "idle.nothing"), *_held("b", "idle.nothing", "idle.empty")], every)
    text = _page(tmp_path, [*_held("a", "idle.nothing", "idle.nothing"), *_held("b", "idle.empty")], every)
    assert "**4 trials, 0 escapes**: 2 attacks, 2 cases." in text
    assert "Not tried on: c.\n" in text and "Not tried on a: `idle.empty`.\n" in text
    assert "Not tried on b" not in text
    nothing, empty = (line.split("|")[3:] for line in text.splitlines() if line.startswith("| `idle"))
    assert (nothing, empty) == ([" 2 ", " 3 ", ""], [" 1 ", " 1 ", ""])


@pytest.mark.parametrize(
    ("page", "said"), [("attacks.md", "attacks.json: "), ("attacks.json", "name a page that ends with .md")]
)
def test_data_that_is_no_matrix_is_told_of_before_any_trial(tmp_path: Path, page: str, said: str) -> None:
    (tmp_path / "attacks.json").write_text("[]")
    done = command("hello_world", "--attacks", "--only", "idle", "--matrix", str(tmp_path / page))
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert "idle.nothing" not in done.stdout
    assert (tmp_path / "attacks.json").read_text() == "[]"


def test_the_published_page_is_that_of_its_data_and_has_no_escape(catalogue: Catalogue) -> None:
    matrix = read_json(PAGE.with_suffix(".json"), Matrix, remedy="")
    every = Everything(catalogue.attacks, [case.id for case in load_cases(PLACES.cases)])
    assert PAGE.read_text(encoding="utf-8") == matrix_page(matrix, every)
    known = {attack.id for attack in catalogue.attacks}
    for sandbox, least in (("bubblewrap", 45), ("docker", 11)):
        assert len(matrix.cases(sandbox)) >= least
        for case, campaigns in matrix.cases(sandbox).items():
            assert case in every.cases and not any(it.escapes for it in campaigns)
            assert set(matrix.attacks(sandbox, case)) <= known and len(matrix.attacks(sandbox, case)) > 90


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["hello_world", "--attacks", "--honest"], "are two commands"),
        (["hello_world", "--only", "idle"], "belong to --attacks"),
        (["hello_world", "--attacks", "--only", "idel"], "did you mean 'idle"),
        (["--attacks"], "name one or more cases"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], said: str) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert said in done.stderr and "Traceback" not in done.stderr
