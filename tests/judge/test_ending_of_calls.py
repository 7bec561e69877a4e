"""Calls that do not let themselves be ended: how they end is no choice of the agent's code."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.judge.deadline import Deadline
from bench.judge.subject import Subject, SubjectError
from bench.sandbox.bubblewrap import BubblewrapSandbox
from tests.helpers.cells import judge, make_case, make_limits, write_files

_HARE = """
import ctypes, os, signal, time

def double(x):
    libc = ctypes.PyDLL(None)
    # This process takes its descendants over when their parents end, and does not keep them: no limit is met.
    libc.prctl(36, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.close(3)
    if libc.fork() == 0:
        os.setsid()
        # Whoever looks for this process finds the number of one that has ended.
        while libc.fork() == 0 or libc._exit(0):
            pass
    time.sleep(60)
"""
_NOISE = """
import os, time

def double(x):
    for descriptor in range(3, 20):
        try:
            os.write(descriptor, b"\\xff" * 64)
        except OSError:
            continue
    time.sleep(60)
"""


def test_a_process_that_always_forks_away_is_ended(tmp_path: Path, bubblewrap: BubblewrapSandbox) -> None:
    grading = judge(make_case(tmp_path / "cases"), tmp_path, {"answer.py": _HARE}, bubblewrap)
    assert (grading.broken, grading.success) == ("", False)
    failed = [verdict.message for verdict in grading.verdicts if not verdict.value]
    assert failed and all("ended without an answer" in message for message in failed), failed


@pytest.mark.parametrize("forks", [True, False], ids=["forks", "sandboxes"])
def test_a_call_that_we_end_after_a_broken_answer_is_not_lost(
    tmp_path: Path, bubblewrap: BubblewrapSandbox, forks: bool
) -> None:
    """Where each call is a sandbox, its first process is then killed by us: that is no kill from outside."""
    workspace = write_files(tmp_path / "workspace", {"answer.py": _NOISE})
    subject = Subject(bubblewrap, workspace, (), make_limits(), Deadline(60))
    subject._forks = forks
    try:
        with pytest.raises(SubjectError, match="cannot be read"):
            subject.call("answer:double", (1,), {}, timeout=20, driver=None)
    finally:
        subject.close()
