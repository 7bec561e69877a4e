"""Where the machine has no memory left, the kernel ends a process of a job's, and none of the runner's."""

from __future__ import annotations

from pathlib import Path

from bench.judge.deadline import Deadline
from bench.judge.subject import Subject
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.first_to_go import OOM_SCORE_ADJ
from tests.helpers.cells import make_limits, run_code, write_files

_OWN = Path("/proc/self/oom_score_adj")
_READ = """
import contextlib


def marks():
    with contextlib.suppress(OSError):
        open("/proc/self/oom_score_adj", "w").write("0")
    return [int(open(f"/proc/{who}/oom_score_adj").read()) for who in ("self", 1)]
"""


def test_a_job_goes_before_the_runner(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    before = _OWN.read_text()
    ended = run_code(bubblewrap, tmp_path, f"{_READ}\nprint(marks())")
    assert ended.stdout.decode() == f"{[OOM_SCORE_ADJ] * 2}\n", ended.stderr
    assert _OWN.read_text() == before


def test_a_call_goes_before_what_watches_it(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    snapshot = write_files(tmp_path / "arena" / "snapshot", {"answer.py": _READ})
    subject = Subject(bubblewrap, snapshot, [], make_limits(wall_s=30), Deadline(30.0))
    try:
        for _ in range(2):
            found = subject.call("answer:marks", (), {}, timeout=10.0, driver=None)
            assert found == [OOM_SCORE_ADJ, int(_OWN.read_text())]
    finally:
        subject.close()
