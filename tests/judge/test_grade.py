"""What uses a judge up on the agent's files is a failed check, the other checks are judged, and only we lose a cell."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import InfraError
from bench.casekit.services import MOST_EVENTS, Service
from bench.formats.case import Case
from bench.guest.first_process import children, descendants
from bench.judge import fork_watch, grade
from bench.judge.fork_watch import Envelope
from bench.judge.forks import ForkServer, run_fork
from bench.judge.grading import Grading
from bench.sandbox import Witness, base_environment
from bench.sandbox.job import Sandbox
from bench.sandbox.starvation import Processors
from tests.helpers.cells import judge, make_case, new_token, processes_with, wait_until_gone, write_files

_CHECKS = """
from bench.judge import check


@check()
def first(ws):
    \"\"\"Reads nothing.\"\"\"


@check(required=True)
def second(ws):
    \"\"\"Does what the file says.\"\"\"
    exec(ws.text("answer.py"))


@check()
def third(ws):
    \"\"\"Draws from the judge's generator.\"\"\"
    ws.metric("drawn", ws.rng.random())
"""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grade, "_MEMORY_MB", 200)


def case_of(folder: Path, checks: str = _CHECKS, **limits: float) -> Case:
    return make_case(folder / "cases", {"check.py": checks}, outputs={"files": []}, limits={"grade_s": 20, **limits})


EATERS = {
    "pieces": "x = []\nwhile True: x.append(bytearray(1 << 20))",
    "at once": "import numpy; numpy.ones(1 << 30)",
    "more than there is": "import numpy; numpy.zeros(1 << 45)",
    "text": "x = 'x' * (1 << 28)\nx += 'y'",
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", EATERS)
def test_a_judge_out_of_memory_fails_the_check_and_judges_the_others(plain: Sandbox, tmp_path: Path, name: str) -> None:
    grading = judge(case_of(tmp_path), tmp_path, {"answer.py": EATERS[name]}, plain)
    assert [it.value for it in grading.verdicts] == [1, 0, 1]
    assert "took more memory than a judge has" in grading.verdicts[1].message
    assert (grading.broken, grading.raised, grading.success) == ("", {}, False)
    assert [it["name"] for it in grading.metrics] == ["drawn"]


def test_without_control_groups_memory_is_looked_at(
    plain: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grade, "_MEMORY_MB", 200)
    monkeypatch.setattr("bench.judge.forks.new_group", lambda limits: None)
    grading = judge(case_of(tmp_path), tmp_path, {"answer.py": EATERS["pieces"]}, plain)
    assert [it.value for it in grading.verdicts] == [1, 0, 1]


def test_a_judge_out_of_time_fails_this_check_and_those_after_it(plain: Sandbox, tmp_path: Path) -> None:
    grading = judge(case_of(tmp_path, grade_s=1), tmp_path, {"answer.py": "while True: pass"}, plain)
    assert [it.value for it in grading.verdicts] == [1, 0, 0]
    assert "reading the workspace's files took over 1 s" in grading.verdicts[1].message
    assert grading.verdicts[2].message == "the judging time was used up by second"
    assert (grading.broken, grading.success) == ("", False)


@pytest.mark.parametrize("left_s", [0.1, 1.9])
def test_wall_time_is_the_answers_fault_unless_other_work_held_the_machine(
    plain: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_s: float
) -> None:
    """The rest of the machine's time goes to processes that are not ours."""
    monkeypatch.setattr(grade, "_GRACE_S", 3.0)
    monkeypatch.setattr(grade, "wall_backstop", lambda seconds: 0.0)
    monkeypatch.setattr(fork_watch, "_WITNESS_S", 0.2)
    monkeypatch.setattr(fork_watch, "Witness", lambda cpus: _witness(cpus, left_s))
    case = case_of(tmp_path)
    if left_s < 1:
        with pytest.raises(InfraError, match="too busy with other work to run the judge of") as caught:
            judge(case, tmp_path, {"answer.py": "import time; time.sleep(60)"}, plain)
        assert caught.value.cause == "starved"
        return
    grading = judge(case, tmp_path, {"answer.py": "import time; time.sleep(60)"}, plain)
    assert [it.value for it in grading.verdicts] == [1, 0, 0]


def _witness(cpus: int, left_s: float) -> Witness:
    """Of two processors that leave so much of each second: a second a look, however busy this machine is."""
    seconds = itertools.count(1)
    now = [0]

    def clock() -> float:
        now[0] = next(seconds)
        return now[0]

    def processors() -> Processors:
        return Processors(idle_s=left_s * now[0], busy_s=(2 - left_s) * now[0], stolen_s=0.0, count=2)

    return Witness(cpus, processors, lambda containers: {}, clock)


def test_no_time_to_load_the_checks_again_is_no_lost_cell(plain: Sandbox, tmp_path: Path) -> None:
    """Each check ends its judge, and the time goes into loading check.py anew."""
    slow = "import time\nuntil = time.process_time() + 0.8\nwhile time.process_time() < until: pass\n"
    more = '\n@check()\ndef number_{}(ws):\n    """Ends its judge."""\n    exec(ws.text("answer.py"))\n'
    ending = "".join(more.format(number) for number in range(6))
    case = case_of(tmp_path, slow + _CHECKS + ending, grade_s=2)
    grading = judge(case, tmp_path, {"answer.py": "import os; os._exit(0)"}, plain)
    assert len(grading.verdicts) == 9
    assert "took over 2 s" in " ".join(it.message for it in grading.verdicts)
    assert grading.verdicts[-1].message.startswith("the judging time was used up by")


def test_what_is_drawn_does_not_depend_on_the_checks_before(plain: Sandbox, tmp_path: Path) -> None:
    case = case_of(tmp_path)
    answers = ("pass", "ws.rng.random()", "import os; os._exit(3)", "import ctypes; ctypes.string_at(0)")
    gradings = [judge(case, tmp_path, {"answer.py": text}, plain, seed=5) for text in answers]
    assert len({it.metrics[0]["value"] for it in gradings}) == 1
    other = judge(case, tmp_path, {"answer.py": "pass"}, plain, seed=6)
    assert other.metrics[0]["value"] != gradings[0].metrics[0]["value"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 / 0", "the check raised ZeroDivisionError: division by zero"),
        ("raise KeyError('x' * 10**6)", "the check raised KeyError: 'xxx"),
        ("import ctypes; ctypes.string_at(0)", "the judge crashed by SIGSEGV in this check"),
        ("import os; os.abort()", "the judge crashed by SIGABRT in this check"),
        ("raise SystemExit", "the judge ended (0) in this check"),
        ("for n in range(300): ws.metric(f'{n}', n)", "at most 200 metrics and claims"),
    ],
)
def test_a_check_that_gives_no_verdict_is_told_and_the_others_are_judged(
    plain: Sandbox, tmp_path: Path, text: str, said: str
) -> None:
    grading = judge(case_of(tmp_path), tmp_path, {"answer.py": text}, plain)
    assert [it.value for it in grading.verdicts] == [1, 0, 1]
    assert said in grading.verdicts[1].message
    assert list(grading.raised) == ["second"]
    assert grading.broken.startswith("second: ")
    assert not grading.success


def test_a_flood_on_standard_error_is_bounded(plain: Sandbox, tmp_path: Path) -> None:
    text = "import sys\nfor _ in range(3000): print('x' * 10000, file=sys.stderr)"
    grading = judge(case_of(tmp_path), tmp_path, {"answer.py": text}, plain)
    assert grading.success
    assert len(grading.log) <= 8000


def test_a_judge_killed_from_outside_is_an_infra_error(plain: Sandbox, tmp_path: Path) -> None:
    token = new_token()
    text = f"import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)', {token!r}])"

    def kill() -> None:
        while not (found := processes_with(token)):
            time.sleep(0.01)
        parent = int(Path(f"/proc/{found[0]}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(parent, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(InfraError, match="was ended by signal 9") as caught:
        judge(case_of(tmp_path), tmp_path, {"answer.py": text}, plain)
    killer.join()
    assert caught.value.cause == "judge_killed"
    assert wait_until_gone(token) == []


def _server_of_judges() -> int:
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in descendants(os.getpid())}
    return next(pid for pid, command in commands.items() if b"bench.judge.server" in command)


def test_a_server_that_was_killed_is_started_again(plain: Sandbox, tmp_path: Path) -> None:
    case = case_of(tmp_path)
    token = new_token()
    text = f"import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)', {token!r}])"

    def kill() -> None:
        while not processes_with(token):
            time.sleep(0.01)
        os.kill(_server_of_judges(), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(InfraError) as caught:
        judge(case, tmp_path, {"answer.py": text}, plain)
    killer.join()
    assert caught.value.cause == "judge_killed"
    assert judge(case, tmp_path, {"answer.py": "pass"}, plain).success


def test_a_request_that_was_lost_with_its_server_is_made_again(
    plain: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may have been killed before a request is sent, and be found dead only after it."""
    case, send = case_of(tmp_path), ForkServer.send
    lost: list[int] = []

    def send_to_the_dying(server: ForkServer, *request: Any) -> None:
        pid = None if lost else _server_of_judges()
        if pid is not None:
            os.kill(pid, signal.SIGSTOP)
        send(server, *request)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            lost.append(pid)

    assert judge(case, tmp_path, {"answer.py": "pass"}, plain).success
    monkeypatch.setattr(ForkServer, "send", send_to_the_dying)
    assert judge(case, tmp_path, {"answer.py": "pass"}, plain).success
    assert lost


def test_gradings_side_by_side_know_nothing_of_each_other(plain: Sandbox, tmp_path: Path) -> None:
    """Descriptors, environment, folders and modules are each fork's own; what one is told, no other is."""
    checks = """
import os, random, sys, tempfile
from bench.judge import check
sys.modules["left_behind"] = sys
os.environ["LEFT_BEHIND"] = "x"
BEFORE = len([n for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")])

@check(required=True)
def alone(ws):
    \"\"\"Sees itself alone.\"\"\"
    ws.metric("descriptors", BEFORE)
    ws.metric("random", random.random())
    ws.metric("seen", "checks_of_" in " ".join(sys.modules))
    assert tempfile.gettempdir() == os.environ["TMPDIR"], tempfile.gettempdir()
    assert os.getcwd() == "/" and os.getsid(0) == os.getpid() and os.getpgid(0) == os.getpid()
    ws.call("answer:double", 1)
"""
    case = make_case(tmp_path / "cases", {"check.py": checks}, outputs={"files": []})
    gradings: list[Grading] = []

    def work(number: int) -> None:
        gradings.append(judge(case, tmp_path / str(number), {"answer.py": "def double(x): return 2 * x"}, plain))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for number, thread in enumerate(threads):
        (tmp_path / str(number)).mkdir()
        thread.start()
    for thread in threads:
        thread.join()
    assert [it.success for it in gradings] == [True] * 4
    measured = [{it["name"]: it["value"] for it in grading.metrics} for grading in gradings]
    assert {it["descriptors"] for it in measured} == {measured[0]["descriptors"]}
    assert len({it["random"] for it in measured}) == 4


def test_the_server_has_one_thread(plain: Sandbox, tmp_path: Path) -> None:
    """Others would be missing in a fork, with whatever they held."""
    assert judge(
        case_of(tmp_path), tmp_path, {"answer.py": "import numpy; numpy.eye(500) @ numpy.eye(500)"}, plain
    ).success
    lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children(os.getpid())}
    servers = [pid for pid, line in lines.items() if b"bench.judge.server" in line]
    assert servers
    assert [len(os.listdir(f"/proc/{pid}/task")) for pid in servers] == [1] * len(servers)


def test_a_long_journal_is_read_once(plain: Sandbox, tmp_path: Path) -> None:
    """Checks ask for it again and again; reading it each time would take all the judging time."""
    service = Service("hub", tmp_path, 1, tmp_path / "journals" / "hub.jsonl")
    (tmp_path / "journals").mkdir()
    for number in range(MOST_EVENTS):
        service.journal({"n": number, "values": dict.fromkeys("abcdefghijklmnopqr", number)})
    text = (
        "for _ in range(300): assert len(ws.journal('hub')) == 20_000\nws.journal('hub').clear(); ws.journal('hub')[0]"
    )
    assert judge(case_of(tmp_path, grade_s=15), tmp_path, {"answer.py": text}, plain).success


def test_an_order_for_another_package_is_refused(tmp_path: Path) -> None:
    environment = base_environment(home="/", tmp=str(tmp_path), python=Path("/usr/bin/python3"), cpus=1)
    with pytest.raises(InfraError, match="not a module of bench"):
        run_fork("json.tool", {}, Envelope(1, 2, 100), environment=environment)


def test_the_server_and_its_forks_end_with_the_runner(tmp_path: Path) -> None:
    """Also when the runner is killed and can end nothing itself."""
    import subprocess

    from tests.helpers.cells import ROOT, python

    token = new_token()
    case = case_of(tmp_path)
    text = f"import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)', {token!r}])"
    write_files(tmp_path, {"text": text})
    code = f"""
from pathlib import Path
from typing import Any
from bench.formats.case import load_case
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import judge
room = Path({str(tmp_path)!r})
judge(load_case(Path({str(case.folder)!r})), room, {{"answer.py": (room / "text").read_text()}}, ProcessSandbox())
"""
    runner = subprocess.Popen(python("-c", code), cwd=ROOT)
    try:
        until = time.monotonic() + 60
        while not processes_with(token) and time.monotonic() < until:
            time.sleep(0.02)
        below = descendants(runner.pid)
        assert len(below) >= 3
    finally:
        runner.kill()
        runner.wait()
    assert wait_until_gone(token) == []
    until = time.monotonic() + 10
    while (left := [pid for pid in below if Path(f"/proc/{pid}").exists()]) and time.monotonic() < until:
        time.sleep(0.02)
    assert left == []


def test_the_grade_of_a_closed_check_is_what_it_was(plain: Sandbox, tmp_path: Path) -> None:
    """A check that was done when the judge was ended keeps its verdict."""
    checks = _CHECKS.replace("@check(required=True)", "@check(required=True, weight=3)")
    case = case_of(tmp_path, checks, grade_s=1)
    done = judge(case, tmp_path, {"answer.py": "pass"}, plain)
    cut = judge(case, tmp_path, {"answer.py": "while True: pass"}, plain)
    assert replace(done.verdicts[0], seconds=0) == replace(cut.verdicts[0], seconds=0)
    assert done.score == 1.0
    assert cut.score == pytest.approx(1 / 5)
