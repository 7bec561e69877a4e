"""Programs as forks of a warm process: what a fresh interpreter would have done, and nothing that outlives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.sandbox import JobLimits, Preparation, ProcessSandbox, Sandbox, WarmProcess, start_warm
from bench.sandbox.running import Running
from tests.helpers.cells import write_files

LIMITS = JobLimits(wall_s=60, disk_mb=8)
Run = Callable[..., tuple[int, str, Path]]


@pytest.fixture
def run(warm: WarmProcess, tmp_path: Path) -> Run:
    """Runs `main.py` of the files that it is given, in a workspace of their own."""

    def run(source: str, *arguments: str, limits: JobLimits = LIMITS, **files: str) -> tuple[int, str, Path]:
        workspace = tmp_path / "arena" / f"w{len(list((tmp_path / 'arena').iterdir()))}"
        write_files(workspace, {"main.py": source, **{f"{name}.py": text for name, text in files.items()}})
        status, printed = warm.run(workspace, ["main.py", *arguments], limits, {})
        return status, printed, workspace

    return run


@pytest.fixture(params=["bubblewrap", "process"])
def forking(request: pytest.FixtureRequest) -> Sandbox:
    """Where no container is needed: in one, each such program is a job of its own."""
    return ProcessSandbox() if request.param == "process" else request.getfixturevalue("bubblewrap")


@pytest.fixture
def warm(forking: Sandbox, tmp_path: Path) -> Iterator[WarmProcess]:
    (tmp_path / "arena").mkdir()
    with start_warm(forking, Preparation(("json",), tmp_path / "arena", LIMITS, programs=True)) as warm:
        yield warm


def test_it_is_the_main_program_of_its_folder(run: Run) -> None:
    source = """
import sys
from pathlib import Path

from beside import word

if __name__ == "__main__":
    Path("out.txt").write_text(" ".join([word, *sys.argv, Path(__file__).name]))
"""
    status, printed, workspace = run(source, "--epochs", "3", beside="word = 'hello'")
    assert (status, printed) == (0, "")
    assert (workspace / "out.txt").read_text() == "hello main.py --epochs 3 main.py"


@pytest.mark.parametrize(
    ("source", "status", "said"),
    [
        ("import sys; sys.exit(7)", 7, ""),
        ("raise SystemExit('no data')", 1, "no data\n"),
        ("raise SystemExit", 0, ""),
        ("print('begun', flush=True); 1 / 0", 1, "ZeroDivisionError"),
        ("import os; os.kill(os.getpid(), 9)", 137, ""),
    ],
)
def test_it_ends_as_an_interpreter_does(run: Run, source: str, status: int, said: str) -> None:
    found, printed, _ = run(source)
    assert found == status
    assert said in printed


def test_threads_and_handlers_come_to_their_end(run: Run) -> None:
    source = """
import atexit, threading, time
from pathlib import Path

atexit.register(lambda: Path("handler.txt").write_text("left"))
threading.Thread(target=lambda: (time.sleep(0.3), Path("thread.txt").write_text("done"))).start()
"""
    status, _, workspace = run(source)
    assert status == 0
    assert {(workspace / f"{name}.txt").read_text() for name in ("handler", "thread")} == {"left", "done"}


def test_a_class_of_the_program_can_be_pickled(run: Run) -> None:
    source = """
import pickle

class Net:
    pass

assert type(pickle.loads(pickle.dumps(Net()))) is Net
"""
    assert run(source)[:2] == (0, "")


def test_nothing_of_one_is_there_for_the_next(run: Run) -> None:
    run("import json, sys; json.dumps = None; sys.path.append('/left')")
    status, printed, _ = run("import json, sys; assert json.dumps(1) == '1' and '/left' not in sys.path")
    assert (status, printed) == (0, "")


def test_what_it_starts_ends_with_it(run: Run) -> None:
    source = "import subprocess; print(subprocess.Popen(['sleep', '1000']).pid)"
    status, printed, _ = run(source)
    assert status == 0 and printed.strip().isdigit()


def test_what_it_prints_while_nothing_is_read_is_not_lost(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    # As on a busy machine, on which watching takes long.
    monkeypatch.setattr(Running, "watch", lambda running: running.popen.wait() is not None)
    assert run("import time; time.sleep(0.5); print('x' * 60_000)")[:2] == (0, "x" * 60_000 + "\n")


def test_it_is_ended_at_its_limit(run: Run) -> None:
    status, printed, _ = run("print('on', flush=True)\nwhile True: pass", limits=JobLimits(wall_s=1.5))
    assert status == 137
    assert printed == "on\n"


@pytest.mark.parametrize("forking", ["bubblewrap"], indirect=True)
def test_it_sees_its_own_workspace_alone(run: Run) -> None:
    run("open('mine.txt', 'w').write('x')")
    source = """
import os
assert sorted(os.listdir("/workspace")) == ["main.py"], os.listdir("/workspace")
assert not os.listdir("/run/bench/arena")
for place in ("/usr/x", "/run/bench/arena/x", "/etc/x"):
    try:
        open(place, "w")
    except OSError:
        continue
    raise SystemExit(f"{place} was written")
"""
    assert run(source)[:2] == (0, "")
