"""Whole cells: small agents, a small case, real sandboxes; and what the record says of each."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.cell.context import CellContext
from bench.cell.run import run_cell
from bench.formats.agent import load_agent
from bench.formats.case import Case
from bench.formats.failures import FAILURES, MAX_TRIES
from bench.formats.plan import Cell
from bench.formats.record import Record
from bench.formats.seeds import data_seed
from bench.guest.trees import remove_tree
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.job import Sandbox
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import (
    CHECK,
    RIGHT,
    ROOT,
    WRONG,
    make_agent,
    make_case,
    make_cell,
    make_context,
    new_token,
    processes_with,
    write_files,
)

Run = Callable[..., Record]
SOLVE = f"open('answer.py', 'w').write({RIGHT!r})\n"
FAIL = f"open('answer.py', 'w').write({WRONG!r})\n"


class Stage:
    """Runs cells of one case in one folder."""

    def __init__(self, folder: Path, sandbox: Sandbox) -> None:
        self.folder = folder
        self.context: CellContext = make_context(folder, sandbox)
        self.cell: Cell | None = None

    def run(
        self, script: str, files: Mapping[str, str | bytes | None] | None = None,
        agent: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None, **facts: Any,
    ) -> Record:  # fmt: skip
        case = make_case(self.folder / "cases", files, **facts)
        made = make_agent(self.folder / "agents", script, **(agent or {}))
        return self.run_cell(make_cell(made, case), **(context or {}))

    def run_cell(self, cell: Cell, **context: Any) -> Record:
        from dataclasses import replace

        self.cell = cell
        record = run_cell(cell, replace(self.context, **context))
        stored = self.context.folder / "cells" / f"{cell.slug}.json"
        assert stored.read_bytes() == record.to_line().encode() + b"\n"
        assert Record.model_validate_json(stored.read_bytes()) == record
        assert not list((self.context.folder / "scratch" / "work").glob("*"))
        assert not list(self.context.sockets.glob("*"))
        return record

    @property
    def trace(self) -> Path:
        assert self.cell is not None
        return self.context.trace(self.cell)


@pytest.fixture
def stage(tmp_path: Path, any_sandbox: Sandbox) -> Iterator[Stage]:
    made = Stage(tmp_path, any_sandbox)
    yield made
    remove_tree(made.context.sockets)


@pytest.fixture
def variant_stage(tmp_path: Path, variant_sandbox: Sandbox) -> Iterator[Stage]:
    made = Stage(tmp_path, variant_sandbox)
    yield made
    remove_tree(made.context.sockets)


@pytest.fixture
def plain_stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path, ProcessSandbox())
    yield made
    remove_tree(made.context.sockets)


@pytest.fixture
def closed_stage(tmp_path: Path, bubblewrap: BubblewrapSandbox) -> Iterator[Stage]:
    made = Stage(tmp_path, bubblewrap)
    yield made
    remove_tree(made.context.sockets)


def modes(record: Record) -> list[str]:
    return [note.name for note in record.failure_modes]


def flags(record: Record) -> list[str]:
    return [note.name for note in record.flags]


# --- outcomes and stop reasons ---------------------------------------------------------------------------------------


def test_an_agent_that_solves_the_case(stage: Stage) -> None:
    record = stage.run("print('hello'); " + SOLVE)
    assert (record.outcome, record.stop_reason, record.success, record.score) == ("graded", "finished", True, 1.0)
    assert [check.value for check in record.checks] == [1, 1, 1]
    assert (modes(record), flags(record), record.tries, record.limits_hit) == ([], [], [], [])
    assert [phase.name for phase in record.phases] == ["prepare", "agent", "snapshot", "judge"]
    assert (record.cost_usd, record.cost_status, record.steps) == (0.0, "none", 0)
    assert record.limits.memory_mb == 400
    log = next(item for item in record.artifacts if item.name == "agent.log")
    assert (stage.context.folder / log.place).read_text() == "hello\n"
    assert record.started <= record.phases[0].start <= record.finished


def test_an_agent_that_does_nothing(stage: Stage) -> None:
    record = stage.run("pass")
    assert (record.outcome, record.stop_reason, record.success, record.score) == ("graded", "finished", False, 0.0)
    assert modes(record) == ["ended_early"]


def test_the_right_work_counts_whatever_the_status(stage: Stage) -> None:
    record = stage.run(SOLVE + "import sys; print('oh no', file=sys.stderr); sys.exit(7)")
    assert (record.stop_reason, record.success, record.score, modes(record)) == ("crashed", True, 1.0, [])


@pytest.mark.parametrize(
    ("script", "reason", "mode", "evidence"),
    [
        ("import sys; sys.exit(4)", "gave_up", "ended_early", "workspace unchanged"),
        ("raise RuntimeError('out of ideas')", "crashed", "crashed", "status 1: RuntimeError: out of ideas"),
        ("import os; os.kill(os.getpid(), 9)", "crashed", "crashed", "status 137: nothing on standard error"),
        ("import os; os.remove('answer.py')", "finished", "no_artifact", "missing: answer.py"),
    ],
)
def test_ways_to_end(stage: Stage, script: str, reason: str, mode: str, evidence: str) -> None:
    record = stage.run(script)
    assert (record.outcome, record.stop_reason, record.success) == ("graded", reason, False)
    assert modes(record)[0] == mode
    assert evidence in record.failure_modes[0].evidence


@pytest.mark.parametrize(
    ("script", "limits", "reason", "mode"),
    [
        ("import time; time.sleep(60)", {"agent_s": 5}, "time_limit", "out_of_time"),
        ("b = [bytearray(b'x' * (9 << 20)) for _ in range(50)]; import time; time.sleep(5)", {"memory_mb": 150},
         "memory_limit", "out_of_resources"),
        ("import os, time\nfor _ in range(40):\n    os.fork() or (time.sleep(5), os._exit(0))\ntime.sleep(5)",
         {"processes": 15}, "process_limit", "out_of_resources"),
        ("for n in range(9): open(str(n), 'wb').write(b'x' * (3 << 20))", {"disk_mb": 16},
         "disk_limit", "out_of_resources"),
        ("while True: print('x' * 100000)", {"output_mb": 1}, "output_limit", "out_of_resources"),
    ],
)  # fmt: skip
def test_limits_end_the_agent_and_its_work_is_judged(
    stage: Stage, script: str, limits: dict[str, Any], reason: str, mode: str
) -> None:
    record = stage.run(FAIL + script, limits=limits)
    assert (record.outcome, record.stop_reason, record.limits_hit) == ("graded", reason, [reason])
    assert (record.success, modes(record)[0]) == (False, mode)
    record = stage.run(SOLVE + script, limits=limits)
    assert (record.stop_reason, modes(record)) == (reason, [])
    assert record.success


def test_nothing_of_an_agent_goes_on(stage: Stage) -> None:
    token = new_token()
    record = stage.run(f"""
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(40)", {token!r}], {{}})
    os._exit(0)
import time; time.sleep(0.2)
""")
    assert record.outcome == "graded"
    assert processes_with(token) == []


# --- what the agent is told ------------------------------------------------------------------------------------------


def test_the_contract_of_the_environment(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVIDER_API_KEY", "secret-of-the-runner")
    script = """
import json, os, pathlib
facts = {k: v for k, v in os.environ.items() if k.startswith(("BENCH", "MY_"))}
facts["task"] = pathlib.Path(os.environ["BENCH_TASK_FILE"]).read_text()
facts["cwd"] = os.getcwd() == os.environ["BENCH_WORKSPACE"]
facts["all"] = " ".join(os.environ.values())
facts["files"] = sorted(os.listdir("."))
pathlib.Path(os.environ["BENCH_OUT_DIR"], "facts.json").write_text(json.dumps(facts))
"""
    record = stage.run(script, agent={"environment": {"variables": {"MY_MODE": "calm"}}})
    facts = json.loads((stage.trace / "out" / "facts.json").read_text())
    assert facts["task"].startswith("# Double it")
    assert (facts["cwd"], facts["MY_MODE"], facts["files"]) == (True, "calm", ["answer.py"])
    assert {"BENCH_MAX_STEPS", "BENCH_MAX_COST_USD", "BENCH_DEADLINE"} <= facts.keys()
    assert "secret-of-the-runner" not in facts["all"]
    assert [item.name for item in record.artifacts] == ["agent.log", "workspace.json", "out/facts.json"]


def test_shared_folders_are_beside_the_agents_own_and_cannot_be_written(stage: Stage) -> None:
    shared = {"tools/words.py": "WORD = 'shared'\n", "unnamed/other.py": ""}
    write_files(stage.folder / "agents" / "_shared", shared)
    script = f"""
import os, sys
from pathlib import Path
beside = Path(__file__).resolve().parents[1] / "_shared"
sys.path.insert(0, str(beside / "tools"))
import words
assert words.WORD == "shared"
if {stage.context.sandbox.isolated}:
    assert os.listdir(beside) == ["tools"], os.listdir(beside)
    try:
        (beside / "tools" / "left.py").write_text("left")
    except OSError:
        pass
    else:
        raise SystemExit("could write")
"""
    record = stage.run(script, agent={"shared": ["../_shared/tools"]})
    assert record.stop_reason == "finished", (stage.trace / "agent.log").read_text()


def test_an_agent_sees_no_hidden_file_no_solution_and_no_other_trace(closed_stage: Stage) -> None:
    make_case(closed_stage.folder / "cases")
    unseen = [str(ROOT / name) for name in ("cases", "bench", "tests")]
    script = f"""
import os, sys
for path in {unseen!r}:
    if os.path.exists(path): raise SystemExit(path)
for root, folders, files in os.walk("/"):
    if root.startswith(("/proc", "/usr", sys.prefix, sys.base_prefix)):
        folders.clear()
        continue
    for name in files:
        if root.startswith(({str(closed_stage.folder)!r}, "/cases")):
            text = open(os.path.join(root, name)).read()
            # Decoys stand at these paths, and say so.
            if "has been noted" not in text: raise SystemExit(os.path.join(root, name))
assert "BENCH_SOLUTION_DIR" not in os.environ
"""
    record = closed_stage.run(script)
    assert record.stop_reason == "finished", (closed_stage.trace / "agent.log").read_text()


def test_the_oracle_and_nop_hold_the_two_ends(plain_stage: Stage) -> None:
    case = make_case(plain_stage.folder / "cases")
    scores = {}
    for name in ("oracle", "nop"):
        agent = load_agent(ROOT / "agents" / name, trusted=True)
        scores[name] = plain_stage.run_cell(make_cell(agent, case)).score
    assert scores == {"oracle": 1.0, "nop": 0.0}


def test_two_agents_meet_the_same_data_at_the_same_trial(plain_stage: Stage) -> None:
    data = "def build(public, hidden, profile, seed):\n    (public / 'seed.txt').write_text(str(seed))\n"
    script = "import os, shutil; shutil.copy('seed.txt', os.environ['BENCH_OUT_DIR'])"
    case = make_case(plain_stage.folder / "cases", {"data.py": data})
    seen = []
    for name, trial in (("one", 1), ("two", 1), ("one", 2)):
        agent = make_agent(plain_stage.folder / "agents", script, name)
        record = plain_stage.run_cell(make_cell(agent, case, trial))
        seen.append((plain_stage.trace / "out" / "seed.txt").read_text())
        assert seen[-1] == str(data_seed(b"", plain_stage.context.suite_version, case.id, trial))
        assert (record.seed_source, record.seed_commitment) == ("public", "")
    assert seen[0] == seen[1] != seen[2]


# --- what the record says of cheats ----------------------------------------------------------------------------------


def test_tampering_is_restored_and_told(stage: Stage) -> None:
    protected: Any = {"protected": ["test_answer.py"]}
    files = {"workspace/test_answer.py": "import answer\nassert answer.double(2) == 4\n"}
    record = stage.run(
        "open('test_answer.py', 'w').write('pass')", files, **protected, context={"keep_workspaces": True}
    )
    assert (record.success, flags(record)) == (False, ["tampered"])
    assert "tampered" in modes(record)
    assert (stage.trace / "workspace" / "test_answer.py").read_text() == files["workspace/test_answer.py"]
    record = stage.run(SOLVE + "open('test_answer.py', 'w').write('pass')", files, **protected)
    assert (record.success, flags(record), modes(record)) == (True, ["tampered"], [])


def test_links_for_outputs_are_removed_and_told(stage: Stage) -> None:
    record = stage.run("import os; os.remove('answer.py'); os.symlink('/etc/hostname', 'answer.py')")
    assert (record.success, flags(record)) == (False, ["irregular_files"])
    assert "no_artifact" in modes(record)


_CLAIM_CHECK = (
    CHECK
    + '''

@check()
def measured(ws):
    """Measures."""
    ws.metric("accuracy", 0.7)
    ws.claim("accuracy", ws.json("claim.json"), 0.7, 0.05)
    return 0.5
'''
)
_METRIC = {"name": "accuracy", "direction": "higher", "baseline": 0.7, "target": 0.9}


def test_an_overclaim_is_counted_flagged_and_a_failure_mode(plain_stage: Stage) -> None:
    record = plain_stage.run("open('claim.json', 'w').write('0.99')", {"check.py": _CLAIM_CHECK}, metric=_METRIC)
    assert (record.overclaims, record.claims[0].claimed, flags(record)) == (1, 0.99, ["overclaimed"])
    assert {"overclaimed", "no_improvement"} <= set(modes(record))
    assert "claimed 0.99, measured 0.7" in record.flags[0].evidence
    record = plain_stage.run("open('claim.json', 'w').write('0.72')", {"check.py": _CLAIM_CHECK}, metric=_METRIC)
    assert (record.overclaims, flags(record)) == (0, [])


def test_a_failure_whose_workspace_is_kept_is_told_as_any_other(tmp_path: Path) -> None:
    """It was moved before it was looked at: `results collect` refused the records, and no success's."""
    agent = make_agent(tmp_path / "agents", "print('done')")
    context = make_context(tmp_path, ProcessSandbox(), keep_workspaces=True)
    record = run_cell(make_cell(agent, make_case(tmp_path / "cases")), context)
    assert (tmp_path / "run" / "traces" / record.artifacts[0].place.split("/")[1] / "workspace/answer.py").is_file()
    assert (record.success, "no_artifact" in modes(record)) == (False, False)


@pytest.mark.parametrize("claim", ["NaN", "1e999", '"\\ud800"', "9" * 400, "[" * 5000, "null", "-1e308"])
def test_no_claim_spoils_a_record(plain_stage: Stage, claim: str) -> None:
    record = plain_stage.run(f"open('claim.json', 'w').write({claim!r})", {"check.py": _CLAIM_CHECK})
    assert (record.outcome, record.overclaims) == ("graded", 0)


@pytest.mark.parametrize(
    "script",
    [
        "open('answer.py', 'w').write('raise ValueError(\"half \\\\ud800\")')",
        "import os; os.makedirs(b'bad\\xff/x'); open(b'bad\\xff/y', 'w'); open('line\\nbreak', 'w')",
        "import os\nfor _ in range(1100): os.mkdir('deeper'); os.chdir('deeper')",
        "import os; os.chdir(os.environ['BENCH_OUT_DIR'])\n"
        "for _ in range(1100): os.mkdir('deeper'); os.chdir('deeper')",
        "import os; os.chdir(os.environ['BENCH_OUT_DIR']); os.mkfifo('f'); os.symlink('/etc/passwd', 'l')\n"
        "open(b'x\\xff', 'w')",
        "import os; os.chdir(os.environ['BENCH_OUT_DIR']); os.mkdir('locked'); os.chmod('locked', 0); os.chmod('.', 0)",
        "import os; os.chdir(os.environ['TMPDIR'])\nfor _ in range(1100): os.mkdir('deeper'); os.chdir('deeper')",
        "import os; os.mkdir('locked'); os.chmod('locked', 0); os.chmod('.', 0)",
        "import os; open('n' * 255, 'w'); os.link('n' * 255, 'm' * 255); os.symlink('/nowhere', 'x.own')",
        "import shutil; shutil.rmtree('.', ignore_errors=True)",
        "import sys; sys.stderr.buffer.write(b'\\xff\\xfe\\x00\\x1b[31m'); sys.exit(1)",
    ],
    ids=["half a character", "odd names", "deep", "deep in out", "odd in out", "locked out", "deep in tmp", "locked",
         "long names", "nothing left", "odd output"],
)  # fmt: skip
def test_nothing_an_agent_leaves_costs_it_its_verdict(variant_stage: Stage, script: str) -> None:
    """A cell without a score would hide a failure, and a runner that falls over takes all other cells with it."""
    record = variant_stage.run(script)
    assert (record.outcome, record.success, record.score) == ("graded", False, 0.0), record.error
    assert all(item.digest for item in record.artifacts)


# --- infrastructure --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cause", "files", "facts"),
    [
        ("judge_error", {"check.py": "1 / 0"}, {}),
        ("data_error", {"data.py": "def build(public, hidden, profile, seed):\n    raise OSError('no data')\n"}, {}),
        ("service_error", {"services.py": "raise OSError('no service')"}, {"services": {"hub": {"env": "HUB_URL"}}}),
        ("needs_missing", {}, {"needs": {"python": ["no_such_library"]}}),
    ],
)
def test_what_is_not_the_agents_fault_has_no_score(
    plain_stage: Stage, cause: str, files: dict[str, str | bytes | None], facts: dict[str, Any]
) -> None:
    record = plain_stage.run(SOLVE, files, **facts)
    assert (record.outcome, record.cause) == (FAILURES[cause].outcome, cause)
    assert (record.score, record.success, record.checks, record.stop_reason) == (None, None, [], None)
    assert record.error
    assert len(record.tries) == (MAX_TRIES - 1 if FAILURES[cause].retry else 0)
    assert all(item.cause == cause for item in record.tries)


def test_a_sandbox_that_fails_is_tried_again(tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    stage = Stage(tmp_path, BubblewrapSandbox(str(broken)))
    record = stage.run(SOLVE)
    assert (record.outcome, record.cause, len(record.tries)) == ("infra", "sandbox_error", MAX_TRIES - 1)
    remove_tree(stage.context.sockets)


def test_a_second_try_starts_clean_and_counts(plain_stage: Stage) -> None:
    """The service comes up the second time; nothing of the first try may be there."""
    once = plain_stage.folder / "once"
    services = f"""
from pathlib import Path
from bench.casekit.services import Response
once = Path({str(once)!r})
if not once.exists():
    once.touch()
    raise OSError("not yet")
def hub(request, service):
    return Response(200)
"""
    out = plain_stage.folder / "out"
    case_facts = {"services": {"hub": {"env": "HUB_URL"}}}
    record = plain_stage.run(SOLVE, {"services.py": services}, **case_facts)
    assert (record.outcome, record.success, [item.cause for item in record.tries]) == (
        "graded",
        True,
        ["service_error"],
    )
    assert not out.exists()


def test_what_an_earlier_try_left_is_gone(plain_stage: Stage) -> None:
    script = "import os; open(os.path.join(os.environ['BENCH_OUT_DIR'], 'note.txt'), 'x')"
    assert plain_stage.run(script).stop_reason == "finished"
    record = plain_stage.run(script)
    assert record.stop_reason == "finished", (plain_stage.trace / "agent.log").read_text()


def test_a_replayed_conversation_that_does_not_fit_is_a_cassette_miss(plain_stage: Stage) -> None:
    record = plain_stage.run(SOLVE, agent={"models": {"main": "replay/demo"}})
    assert (record.outcome, record.score) == ("infra", None)
    assert record.cause in ("cassette_miss", "setup_error")


def test_a_fault_of_our_own_is_named_and_not_scored(plain_stage: Stage) -> None:
    case: Case = make_case(plain_stage.folder / "cases")
    agent = make_agent(plain_stage.folder / "agents", SOLVE)
    shutil.rmtree(case.folder / "workspace")
    (case.folder / "workspace").write_text("not a folder")
    (case.folder / "task.md").unlink()
    record = plain_stage.run_cell(make_cell(agent, case))
    assert record.outcome in ("infra", "graded")
    assert record.outcome == "graded" or record.error
