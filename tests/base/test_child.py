"""A child gets its orders, answers apart from what it prints, and does not outlive the runner."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from bench.base.child import load_module, log_tail, python_child

_MODULE = """
import subprocess, sys, time
from bench.base.child import receive_orders

def main():
    orders, answers = receive_orders()
    print("printed", flush=True)
    if orders["child"]:
        other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        answers.write(str(other.pid).encode())
        answers.close()
        time.sleep(60)
    time.sleep(orders["sleep"])
    answers.write(repr(orders).encode())
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "obedient.py").write_text(_MODULE)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_orders_go_in_answers_come_out_and_prints_go_to_the_log(env: dict[str, str]) -> None:
    orders = {"child": False, "sleep": 0, "text": "é\n"}
    with python_child("obedient", orders, env=env, isolated=False) as child:
        assert child.answer(60) == repr(orders).encode()
        assert child.popen.wait(30) == 0
        assert (log_tail(child.log), log_tail(child.log, 4)) == ("printed", "ted")


def test_an_answer_that_comes_too_late_is_none_and_the_child_is_dead(env: dict[str, str]) -> None:
    with python_child("obedient", {"child": False, "sleep": 60}, env=env, isolated=False) as child:
        assert child.answer(0.5) is None
        assert child.popen.wait(30) < 0


def test_the_end_of_the_runner_ends_what_the_child_has_started(env: dict[str, str]) -> None:
    with python_child("obedient", {"child": True}, env=env, isolated=False) as child:
        pid = int(child.answer(60) or b"0")
        assert not _gone(pid)
        assert child.popen.stdin is not None
        child.popen.stdin.close()
        assert child.popen.wait(30) < 0
        until = time.monotonic() + 20
        while not _gone(pid):
            assert time.monotonic() < until
            time.sleep(0.02)


def test_a_module_is_loaded_by_its_path_and_known_by_its_name(tmp_path: Path) -> None:
    name = "a_module_of_a_test"
    (tmp_path / "x.py").write_text("import dataclasses\n@dataclasses.dataclass\nclass Fact:\n    value: int = 3\n")
    module = load_module(name, tmp_path / "x.py")
    assert sys.modules.pop(name) is module
    assert module.Fact().value == 3
