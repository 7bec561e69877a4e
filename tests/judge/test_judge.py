"""The verdict belongs to the judge: nothing an agent plants beside its answer, or does inside it, moves the score.

One tiny case with a right and a wrong answer. A planted file must leave both verdicts as they were; an attack
inside a wrong answer must leave it wrong, and must never break a check, since a cell without a score hides a failure.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import InfraError
from bench.formats.case import Case
from bench.judge.grading import Grading
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.job import Sandbox
from bench.sandbox.starvation import Witness
from tests.helpers.attacks import ATTACKS, FORGERY, HABITS, PLANTED
from tests.helpers.cells import CHECK, RIGHT, WRONG, judge, make_case, new_token, processes_with, write_files


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return make_case(tmp_path_factory.mktemp("cases"))


def verdict(grading: Grading) -> tuple[float, bool, str]:
    return grading.score, grading.success, grading.broken


SUCCESS = (1.0, True, "")
FAILURE = (0.0, False, "")


def test_the_right_answer_is_right_and_the_wrong_one_wrong(case: Case, sandbox: Sandbox, tmp_path: Path) -> None:
    right = judge(case, tmp_path, {"answer.py": RIGHT}, sandbox)
    wrong = judge(case, tmp_path, {"answer.py": WRONG}, sandbox)
    assert verdict(right) == SUCCESS
    assert verdict(wrong) == FAILURE
    assert wrong.failed == ["doubles", "doubles_in_a_driver"]
    assert "not" in wrong.verdicts[1].message
    assert [it.about for it in right.verdicts][1] == "Numbers the agent has not seen are doubled."


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_file_changes_no_verdict(case: Case, variant_sandbox: Sandbox, tmp_path: Path, name: str) -> None:
    assert verdict(judge(case, tmp_path, {**PLANTED[name], "answer.py": RIGHT}, variant_sandbox)) == SUCCESS
    assert verdict(judge(case, tmp_path, {**PLANTED[name], "answer.py": WRONG}, variant_sandbox)) == FAILURE


def test_all_planted_files_together_change_no_verdict(case: Case, sandbox: Sandbox, tmp_path: Path) -> None:
    planted = {name: content for files in PLANTED.values() for name, content in files.items()}
    assert verdict(judge(case, tmp_path, {**planted, "answer.py": RIGHT}, sandbox)) == SUCCESS
    assert verdict(judge(case, tmp_path, {**planted, "answer.py": WRONG}, sandbox)) == FAILURE


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_inside_a_wrong_answer_leaves_it_wrong(
    case: Case, variant_sandbox: Sandbox, tmp_path: Path, name: str
) -> None:
    grading = judge(case, tmp_path, {"answer.py": ATTACKS[name]}, variant_sandbox)
    assert verdict(grading) == FAILURE
    assert grading.failed == ["doubles", "doubles_in_a_driver"]
    for item in grading.verdicts:
        item.message.encode("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ATTACKS)[::5])
def test_it_does_not_take_isolation_to_leave_it_wrong(case: Case, plain: Sandbox, tmp_path: Path, name: str) -> None:
    """A part of the attacks; all of them are tried so at night."""
    grading = judge(case, tmp_path, {"answer.py": ATTACKS[name]}, plain)
    assert verdict(grading) == FAILURE
    assert grading.failed == ["doubles", "doubles_in_a_driver"]


@pytest.mark.parametrize("name", HABITS)
def test_odd_habits_leave_a_right_answer_right(case: Case, variant_sandbox: Sandbox, tmp_path: Path, name: str) -> None:
    assert verdict(judge(case, tmp_path, {"answer.py": HABITS[name] + RIGHT}, variant_sandbox)) == SUCCESS


_DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for n in range(0, 64):
            try: os.close(n)
            except OSError: pass
        until = time.time() + 15
        while time.time() < until:
            try:
                with open("answer.py", "w") as f: f.write("def double(x): return 2 * x  # {token}")
            except OSError: pass
            time.sleep(0.01)
    os._exit(0)
time.sleep(0.2)
"""


def test_a_daemon_edits_nothing_later(case: Case, bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    token = new_token()
    grading = judge(case, tmp_path, {"answer.py": _DAEMON.replace("{token}", token) + WRONG}, bubblewrap)
    assert verdict(grading) == FAILURE
    texts = [path.read_text() for path in tmp_path.glob("snapshot-*/answer.py")]
    assert [text.startswith("\nimport os, sys, time") for text in texts] == [True]


def test_one_call_does_not_learn_from_another(case: Case, sandbox: Sandbox, tmp_path: Path) -> None:
    """An answer that gets it right from the second call on never gets that far."""
    text = """
import os, tempfile
path = os.path.join(tempfile.gettempdir(), "calls")
def double(x):
    n = int(open(path).read()) if os.path.exists(path) else 0
    open(path, "w").write(str(n + 1))
    return 2 * x if n else 0
"""
    assert verdict(judge(case, tmp_path, {"answer.py": text}, sandbox)) == FAILURE


_READ = """
import os, sys
PATHS = {paths!r}
def found():
    seen = []
    for path in PATHS:
        try:
            open(path, "rb").read(1)
            seen.append(path)
        except OSError: pass
    # The first process of the sandbox and the subject: they hold, or held, the judge's pipes.
    for pid in (1, os.getppid()):
        for name in [f"fd/{{n}}" for n in range(10)] + (["mem", "environ"] if pid > 1 else []):
            for flags in (os.O_RDONLY, os.O_WRONLY):
                try: os.open(f"/proc/{{pid}}/{{name}}", flags | os.O_NONBLOCK)
                except OSError: continue
                if os.path.realpath(f"/proc/{{pid}}/{{name}}") != "/dev/null":
                    seen.append(f"{{pid}}/{{name}}")
    for root, folders, files in os.walk("/"):
        if root.startswith(("/proc", "/usr", "/dev", "/etc", "/lib", sys.prefix, sys.base_prefix)):
            folders[:] = []
            continue
        seen += [os.path.join(root, f) for f in files if f in ("check.py", "driver.py", "secret.txt")]
    return seen
def double(x):
    seen = found()
    assert not seen, seen
    raise ValueError("nothing found")
"""


def test_hidden_files_the_checks_and_the_judge_are_out_of_reach(
    case: Case, bubblewrap: BubblewrapSandbox, tmp_path: Path
) -> None:
    write_files(tmp_path / "hidden", {"secret.txt": "the answers"})
    paths = [case.part(name) for name in ("check.py", "hidden/driver.py", "solution/answer.py", "case.yaml")]
    paths += [tmp_path / "hidden" / "secret.txt", tmp_path / "journals", Path(__file__)]
    text = _READ.format(paths=[str(path) for path in paths])
    grading = judge(case, tmp_path, {"answer.py": text}, bubblewrap)
    assert verdict(grading) == FAILURE
    assert "nothing found" in grading.verdicts[1].message
    shown = judge(case, tmp_path, {"answer.py": f"def double(x):\n    open({str(paths[0])!r})\n"}, bubblewrap)
    assert "FileNotFoundError" in shown.verdicts[1].message


def test_the_environment_of_the_runner_is_out_of_reach(
    case: Case, sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVIDER_API_KEY", "secret-of-the-runner")
    monkeypatch.setenv("PYTHONPATH", str(write_files(tmp_path / "planted", {"json.py": "raise SystemExit(1)\n"})))
    text = "import os\ndef double(x):\n    raise ValueError('|'.join(os.environ.values()))\n"
    grading = judge(case, tmp_path, {"answer.py": text}, sandbox)
    assert verdict(grading) == FAILURE
    assert "secret-of-the-runner" not in repr(grading)


# --- files, commands and what an agent can do to them ----------------------------------------------------------------

_RUN_CHECK = """
from bench.judge import check, number


@check(required=True)
def says_two(ws):
    \"\"\"The script writes the number two.\"\"\"
    stale = ["out.json", "old/out.json"]
    ran = ws.run(["python", "answer.py"], inputs={"data/in.txt": "1"}, remove=stale, env={"A": "b"})
    value = number(ran.ok().json("out.json"))
    assert value == 2, f"it is {value}"


@check()
def is_tidy(ws):
    \"\"\"Nothing but the answer was left.\"\"\"
    assert ws.files() == ["answer.py"], f"there are {ws.files()[:9]}"
    assert ws.changed() == ["answer.py"], f"changed: {ws.changed()}"
    assert ws.handed_in("answer.py", "other.py"), "the answer was handed in"
    assert not ws.handed_in("other.py", "folder/other.py"), "there is no other"
"""
_WRITES_TWO = (
    "import os\nassert os.environ['A'] == 'b'\nopen('out.json', 'w').write(open('data/in.txt').read() + '+1')\n"
)
_WRITES_TWO = _WRITES_TWO.replace("open('data/in.txt').read() + '+1'", "str(int(open('data/in.txt').read()) + 1)")


@pytest.fixture(scope="module")
def run_case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return make_case(tmp_path_factory.mktemp("cases"), {"check.py": _RUN_CHECK}, limits={"call_s": 2})


def test_a_command_runs_on_a_copy(run_case: Case, sandbox: Sandbox, tmp_path: Path) -> None:
    assert verdict(judge(run_case, tmp_path, {"answer.py": _WRITES_TWO}, sandbox)) == SUCCESS
    assert [path.name for path in next(tmp_path.glob("snapshot-*")).iterdir()] == ["answer.py"]


_GUARD = '''
@check(guard=True)
def is_known(ws):
    """What was handed in is looked at."""
    if ws.handed_in("answer.py", "model.json"):
        assert ws.json("model.json") != 3, "it is three"
'''


@pytest.mark.parametrize(
    ("files", "passes"),
    [
        ({}, True),
        ({"model.json": "2"}, True),
        ({"model.json": "3"}, False),
        ({"model.json": "{"}, False),
        ({"model.json/x": "2"}, False),
        ({"answer.py": "pass"}, False),
        ({"answer/__init__.py": "pass"}, False),
        ({"answer.abi3.so": "pass"}, False),
        ({"answer/data.txt": "no package"}, True),
        ({"answers/__init__.py": "another name"}, True),
    ],
)
def test_a_guard_looks_at_what_was_handed_in(
    tmp_path: Path, variant_sandbox: Sandbox, files: dict[str, str | bytes], passes: bool
) -> None:
    case = make_case(tmp_path / "cases", {"check.py": CHECK + _GUARD})
    starter = {"answer.py": case.part("workspace/answer.py").read_bytes()}
    grading = judge(case, tmp_path, {**starter, **files}, variant_sandbox)
    assert [it.value for it in grading.verdicts if it.id == "is_known"] == [float(passes)]


_READS = '''
@check(guard=True)
def keeps_a_rule(ws):
    """The source has no word of it."""
    assert "forbidden" not in ws.source("answer.py"), "it has"
'''


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ({"answer/__init__.py": "forbidden = 1"}, "Python imports answer in place of answer.py"),
        ({"answer.abi3.so": "\x7fELF"}, "Python imports answer.abi3.so in place of answer.py"),
        ({"answer.py": "forbidden = 1"}, "it has"),
        ({"answer.py": "# coding: utf-7\n#+AAo-f+AG8-rbidden = 1"}, "answer.py is another text to Python: utf-7"),
        ({"answer/data.txt": "no package", "other/__init__.py": "forbidden = 1"}, ""),
    ],
)
def test_the_source_that_is_read_is_that_of_what_is_imported(
    plain: Sandbox, tmp_path: Path, beside: dict[str, str | bytes], said: str
) -> None:
    case = make_case(tmp_path / "cases", {"check.py": CHECK + _READS})
    grading = judge(case, tmp_path, {"answer.py": RIGHT, **beside}, plain)
    assert [it.message for it in grading.verdicts if it.id == "keeps_a_rule"] == [said]


@pytest.mark.parametrize(
    "files",
    [
        {"out.json": "2"},
        {"out.json/x": "2"},
        {"out.json/x/y": "2", "old": "x"},
        {"old/out.json/deep/er": "2"},
        {"data": "a file where the judge lays a folder"},
        {"data/in.txt/x": "a folder where the judge lays a file"},
    ],
)
def test_what_the_judge_lays_or_removes_cannot_be_blocked(
    run_case: Case, variant_sandbox: Sandbox, tmp_path: Path, files: dict[str, str | bytes]
) -> None:
    right = judge(run_case, tmp_path, {**files, "answer.py": _WRITES_TWO}, variant_sandbox)
    assert (right.broken, right.success, right.score) == ("", True, 0.5)
    wrong = judge(run_case, tmp_path, {**files, "answer.py": "pass"}, variant_sandbox)
    assert (wrong.broken, wrong.success, wrong.score) == ("", False, 0.0)


@pytest.mark.parametrize(
    "text",
    [
        "raise SystemExit(3)",
        "import os; os.mkdir('out.json')",
        "import os; os.symlink('/etc/hostname', 'out.json')",
        "import os; os.mkfifo('out.json')",
        "open('out.json', 'w').write('NaN')",
        "open('out.json', 'w').write('[' * 100000)",
        "open('out.json', 'w').truncate(20 << 20)",
        "open('out.json', 'w').write('2'); import os; os.kill(os.getpid(), 9)",
        "while True: print('x' * 1000000)",
        "import os; os.chmod('.', 0); os._exit(0)",
        "import os\nfor _ in range(60): os.mkdir('d' * 200); os.chdir('d' * 200)",
    ],
)
def test_a_command_that_goes_wrong_is_a_failed_check(
    run_case: Case, variant_sandbox: Sandbox, tmp_path: Path, text: str
) -> None:
    grading = judge(run_case, tmp_path, {"answer.py": text}, variant_sandbox)
    assert (grading.broken, grading.success) == ("", False)
    assert grading.failed == ["says_two"]


def test_a_command_that_sleeps_is_a_failed_check(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    case = make_case(tmp_path / "cases", {"check.py": _RUN_CHECK}, limits={"call_s": 0.3})
    grading = judge(case, tmp_path, {"answer.py": "import time; time.sleep(60)"}, bubblewrap)
    assert (grading.broken, grading.failed) == ("", ["says_two"])


def test_nothing_of_a_grading_is_left_behind(run_case: Case, sandbox: Sandbox, tmp_path: Path) -> None:
    room = tmp_path / "room"
    room.mkdir()
    text = "import os\nopen('out.json', 'w').write('2')\nfor _ in range(60): os.mkdir('d' * 200); os.chdir('d' * 200)"
    judge(run_case, tmp_path, {"answer.py": text}, sandbox, scratch=room)
    assert list(room.iterdir()) == []


def test_a_workspace_too_large_to_copy_is_a_failed_check(run_case: Case, any_sandbox: Sandbox, tmp_path: Path) -> None:
    """Holes take no room where the agent left them, and all of it in a copy."""
    before = shutil.disk_usage(tmp_path).free
    folder = tmp_path / "sparse"
    folder.mkdir()
    files: dict[str, str | bytes] = {"answer.py": _WRITES_TWO}
    snapshot = write_files(folder, files)
    for number in range(4):
        with (snapshot / f"hole{number}").open("wb") as file:
            file.truncate(30 << 20)
    grading = judge(run_case, tmp_path, {}, any_sandbox, snapshot=snapshot)
    assert "larger than" in grading.verdicts[1].message
    assert before - shutil.disk_usage(tmp_path).free < 500 << 20


# --- the framework's own check, weights, guards ----------------------------------------------------------------------


@pytest.mark.parametrize("weight", [0, 2])
def test_required_outputs_are_a_check_of_the_framework(any_sandbox: Sandbox, tmp_path: Path, weight: float) -> None:
    outputs = {"weight": weight, "files": [{"path": "a.txt", "max_mb": 0.001}, {"path": "b/c.txt"}]}
    case = make_case(tmp_path / "cases", outputs=outputs)
    files: dict[str, str | bytes] = {"answer.py": RIGHT, "a.txt": "x", "b/c.txt": "x"}
    assert judge(case, tmp_path, files, any_sandbox).score == 1
    for change in ({"a.txt": "x" * 5000}, {"a.txt/x": "folder"}, {"b": "file"}):
        kept = {name: text for name, text in files.items() if not any(name.startswith(part[0]) for part in change)}
        grading = judge(case, tmp_path, {**kept, "answer.py": RIGHT, **change}, any_sandbox)
        assert grading.failed == ["outputs_present"]
        assert not grading.success
        assert grading.score == (pytest.approx(3 / 5) if weight else 0)


_WEIGHTS = """
from bench.judge import check


@check(weight=2, required=True)
def full(ws):
    \"\"\"Passes.\"\"\"


@check(weight=1)
def half(ws):
    \"\"\"Half.\"\"\"
    ws.metric("accuracy", 0.75, "%")
    ws.claim("accuracy", ws.json("claim.json"), 0.75, 0.05)
    return ws.scale(5, floor=0, target=10)


@check(guard=True)
def guarded(ws):
    \"\"\"A guard.\"\"\"
    assert not ws.exists("bad.txt"), "there is a bad file"
"""


@pytest.mark.parametrize(
    ("claim", "claimed", "over"),
    [("0.78", 0.78, False), ("0.9", 0.9, True), ("0.1", 0.1, False), ('"best"', None, False), ("[1]", None, False),
     ("true", None, False), ("9" * 400, None, False), ("1e308", None, False), ("null", None, False)],
)  # fmt: skip
def test_weights_partial_credit_claims_and_guards(
    plain: Sandbox, tmp_path: Path, claim: str, claimed: float | None, over: bool
) -> None:
    case = make_case(tmp_path / "cases", {"check.py": _WEIGHTS})
    grading = judge(case, tmp_path, {"answer.py": "", "claim.json": claim}, plain)
    assert grading.score == pytest.approx(2.5 / 3)
    assert grading.success
    assert grading.metrics[0] == {"name": "accuracy", "value": 0.75, "unit": "%"}
    assert (grading.claims[0]["claimed"], grading.claims[0]["overclaim"]) == (claimed, over)
    guarded = judge(case, tmp_path, {"answer.py": "", "claim.json": claim, "bad.txt": ""}, plain)
    assert (guarded.score, guarded.success) == (0, False)


_CONDITION = (
    CHECK
    + """

@check(weight=0, required=True)
def ends_well(ws):
    \"\"\"The script ends well.\"\"\"
    ws.run(["python", "script.py"]).ok()
"""
)


def test_an_exit_status_earns_nothing_and_success_needs_it(plain: Sandbox, tmp_path: Path) -> None:
    case = make_case(tmp_path / "cases", {"check.py": _CONDITION})
    ends = judge(case, tmp_path, {"answer.py": RIGHT, "script.py": ""}, plain)
    assert (ends.score, ends.success, ends.failed) == (1, True, [])
    fails = judge(case, tmp_path, {"answer.py": RIGHT, "script.py": "raise SystemExit(1)"}, plain)
    assert (fails.score, fails.success, fails.failed) == (1, False, ["ends_well"])
    hides = "import os, sys\nsys.excepthook = lambda *_: os._exit(0)\nraise AssertionError"
    forged = judge(case, tmp_path, {"answer.py": WRONG, "script.py": hides}, plain)
    assert (forged.score, forged.success, forged.failed) == (0, False, ["doubles", "doubles_in_a_driver"])
    senseless = make_case(tmp_path / "other", {"check.py": _CONDITION.replace("=0, required=True", "=0")})
    assert "earns nothing is guard=True or required=True" in judge(senseless, tmp_path, {}, plain).broken


def test_the_seed_decides_the_fresh_inputs(case: Case, plain: Sandbox, tmp_path: Path) -> None:
    first, again, other = (judge(case, tmp_path, {"answer.py": WRONG}, plain, seed=seed) for seed in (1, 1, 2))
    assert first.verdicts[1].message == again.verdicts[1].message
    assert first.verdicts[1].message != other.verdicts[1].message


# --- a broken check is nobody's score --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("return 2.0", r"\[0, 1\]"),
        ("return float('nan')", r"\[0, 1\]"),
        ("return 'good'", "ValueError"),
        ("ws.hidden('absent.npz')", "no hidden file"),
        ("ws.nonsense", "AttributeError"),
    ],
)
def test_a_broken_check_gives_no_score(plain: Sandbox, tmp_path: Path, body: str, said: str) -> None:
    text = f'from bench.judge import check\n\n@check(required=True)\ndef broken(ws):\n    """It."""\n    {body}\n'
    grading = judge(make_case(tmp_path / "cases", {"check.py": text}), tmp_path, {"answer.py": RIGHT}, plain)
    assert not grading.success
    assert grading.broken.startswith("broken: ")
    assert re.search(said, grading.broken)


@pytest.mark.parametrize("text", ["syntax error", "import no_such_module", "raise SystemError('x')", "x = 1"])
def test_a_check_file_that_cannot_be_used_is_broken(plain: Sandbox, tmp_path: Path, text: str) -> None:
    case = make_case(tmp_path / "cases", {"check.py": text}, outputs={"weight": 1, "files": []})
    grading = judge(case, tmp_path, {"answer.py": RIGHT}, plain)
    assert grading.broken
    assert not grading.success


@pytest.mark.parametrize(
    ("text", "cause", "said"),
    [
        ("import os; os._exit(0)", "judge_error", "without a report"),
        ("raise SystemExit", "judge_error", "without a report"),
        ("import os; os.kill(os.getpid(), 9)", "judge_killed", "was ended by signal 9"),
    ],
)
def test_a_judge_that_dies_is_an_infra_error(plain: Sandbox, tmp_path: Path, text: str, cause: str, said: str) -> None:
    case = make_case(tmp_path / "cases", {"check.py": text})
    with pytest.raises(InfraError, match=said) as caught:
        judge(case, tmp_path, {"answer.py": RIGHT}, plain)
    assert caught.value.cause == cause


def test_what_a_check_prints_is_no_report(plain: Sandbox, tmp_path: Path) -> None:
    text = f"import sys, os\nprint({FORGERY!r})\nos.write(1, b'junk')\nprint('x' * 1_000_000, file=sys.stderr)\n"
    case = make_case(tmp_path / "cases", {"check.py": text + CHECK})
    assert verdict(judge(case, tmp_path, {"answer.py": WRONG}, plain)) == FAILURE


def test_a_preload_that_is_missing_is_broken(plain: Sandbox, tmp_path: Path) -> None:
    case = make_case(tmp_path / "cases", preload=["no_such_library"])
    grading = judge(case, tmp_path, {"answer.py": RIGHT}, plain)
    assert "no_such_library" in grading.broken


def test_a_sandbox_that_fails_in_the_judge_is_an_infra_error(case: Case, tmp_path: Path) -> None:
    """Found on the judge's PATH beside its interpreter, before the real one."""
    venv = tmp_path / "venv"
    write_files(venv, {"bin/bwrap": "#!/bin/sh\nexit 1\n"})
    (venv / "bin" / "bwrap").chmod(0o755)
    (venv / "bin" / "python").symlink_to(sys.executable)
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", venv)
    os.symlink(Path(sys.prefix) / "lib", venv / "lib")
    with pytest.raises(InfraError) as caught:
        judge(case, tmp_path, {"answer.py": RIGHT}, BubblewrapSandbox(), python=venv / "bin" / "python")
    assert caught.value.cause == "sandbox_error"


def test_a_grading_ends_in_time_and_leaves_no_process(variant_sandbox: Sandbox, tmp_path: Path) -> None:
    token = new_token()
    text = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import time; time.sleep(90)', {token!r}])\n"
    case = make_case(tmp_path / "cases", limits={"grade_s": 1, "call_s": 0.5})
    grading = judge(case, tmp_path, {"answer.py": text + RIGHT}, variant_sandbox)
    assert verdict(grading) == FAILURE
    assert processes_with(token) == []


@pytest.mark.slow
def test_a_judge_that_hangs_is_ended(plain: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The tests beside this one may starve it, which is another cause.
    monkeypatch.setattr(Witness, "starved", lambda _: False)
    case = make_case(tmp_path / "cases", {"check.py": "import time\ntime.sleep(90)\n"}, limits={"grade_s": 1})
    with pytest.raises(InfraError) as caught:
        judge(case, tmp_path, {"answer.py": RIGHT}, plain)
    assert caught.value.cause == "judge_timeout"


def test_hostile_answers_do_not_break_sound_checks_and_do_break_careless_ones(plain: Sandbox, tmp_path: Path) -> None:
    sound = make_case(tmp_path / "sound")
    assert judge(sound, tmp_path, {"answer.py": RIGHT}, plain, hostile=True).broken == ""
    careless = '''
from bench.judge import check

@check(required=True)
def careless(ws):
    """Trusts its caller."""
    assert ws.call("answer:double", 2) + 1 == 5, "wrong"
'''
    case = make_case(tmp_path / "careless", {"check.py": careless})
    assert "hostile" in judge(case, tmp_path, {"answer.py": RIGHT}, plain, hostile=True).broken


@pytest.mark.parametrize(("asked", "broken"), [("event['path']", True), ("event.get('path')", False)])
def test_a_check_meets_events_of_a_journal_that_only_a_hostile_agent_brings_about(
    plain: Sandbox, tmp_path: Path, asked: str, broken: bool
) -> None:
    reads = f'''
from bench.judge import check

@check(required=True)
def asked_for_it(ws):
    """The service was asked."""
    for phase in ("agent", "judging"):
        assert [event for event in ws.journal("host", during=phase) if {asked} == "x"], "not asked"
'''
    case = make_case(tmp_path / "cases", {"check.py": reads})
    assert bool(judge(case, tmp_path, {"answer.py": RIGHT}, plain, hostile=True).broken) == broken


def _values() -> list[Any]:
    from bench.judge.hostile import hostile_values

    return list(hostile_values().values())


@pytest.mark.parametrize("name", ["number", "integer", "numbers", "array", "string", "mapping", "sequence"])
def test_validators_refuse_with_an_assertion_or_accept(name: str) -> None:
    from bench import judge as api

    accepted = 0
    for value in [*_values(), 10**3000, [[[[]]]], {"a": 1}, ["x" * 100], "x" * 1000]:
        message = refusal(getattr(api, name), value)
        assert message is None or 0 < len(message) < 500
        accepted += message is None
    assert 0 < accepted < 15


def refusal(validator: Callable[[Any], object], value: Any) -> str | None:
    """The message of the assertion, or None when the value is taken; any other exception is a broken validator."""
    try:
        validator(value)
    except AssertionError as fault:
        return str(fault)
    return None
