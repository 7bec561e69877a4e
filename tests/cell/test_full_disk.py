"""An agent that fills the runner's disk: its cell is graded, and not lost, since it is the agent that has chosen it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.sandbox.bubblewrap import BubblewrapSandbox
from tests.helpers.sampling import at_night

_REPOSITORY = Path(__file__).resolve().parents[2]
_MOUNT = 'mount -t tmpfs -o size=200m,nr_inodes=$5 tmpfs "$1" && exec "$2" -c "$3" "$1" "$4"'
_RUN = """
import json, sys
from pathlib import Path
from bench.cell.machine import DiskSpace
from bench.cell.run import run_cell
from bench.sandbox.bubblewrap import BubblewrapSandbox
from tests.helpers.cells import make_agent, make_case, make_cell, make_context
folder = Path(sys.argv[1])
limits = {"agent_s": 60, "grade_s": 20, "call_s": 5, "disk_mb": 60, "memory_mb": 1024}
cell = make_cell(make_agent(folder / "agents", sys.argv[2]), make_case(folder / "cases", limits=limits))
context = make_context(folder, BubblewrapSandbox(), space=DiskSpace((folder,)))
record = run_cell(cell, context)
print(json.dumps([record.outcome, record.cause, record.stop_reason]))
"""
_BYTES = """
for number in range(1000):
    with open(f"{os.environ['PLACE']}/{number}", "wb") as file:
        try:
            file.write(bytes(20 << 20))
        except OSError:
            break
time.sleep(30)
"""
_FILES = """
for number in range(100_000):
    try:
        os.close(os.open(f"{os.environ['PLACE']}/{number}", os.O_CREAT))
    except OSError:
        break
time.sleep(30)
"""


@pytest.mark.parametrize("place", ["BENCH_WORKSPACE", "BENCH_OUT_DIR"])
@pytest.mark.parametrize(
    ("fills", "inodes"),
    # So few files are there before the first look at the disk: nothing is left for what the runner writes.
    [(_BYTES, 30_000), (_FILES, 30_000), (_FILES, 3_000)],
    ids=["bytes", "files", "files at once"],
)
def test_who_fills_the_disk_has_met_its_limit(
    tmp_path: Path, bubblewrap: BubblewrapSandbox, fills: str, inodes: int, place: str
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    unshare = shutil.which("unshare")
    assert unshare is not None
    script = f"import os, time\nos.environ['PLACE'] = os.environ[{place!r}]\n{fills}"
    argv = [unshare, "-rm", "sh", "-c", _MOUNT, "sh", str(disk), sys.executable, _RUN, script, str(inodes)]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=_REPOSITORY, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["graded", "", "disk_limit"]


_JUDGED = """
import json, sys
from dataclasses import replace
from pathlib import Path
from bench.cell.machine import DiskSpace
from bench.cell.run import run_cell
from bench.sandbox.bubblewrap import BubblewrapSandbox
from tests.helpers.cells import make_agent, make_case, make_cell, make_context
folder = Path(sys.argv[1])
limits = {"agent_s": 60, "grade_s": 20, "call_s": 5, "disk_mb": 60, "memory_mb": 1024}
check = '''
from bench.judge import check

@check(required=True)
def runs(ws):
    \"\"\"It can be run eight times.\"\"\"
    for _ in range(8):
        ws.run(["python", "answer.py"])
    raise AssertionError("it never ends well")
'''
wrong = {"same": {"about": "the same", "fails": ["runs"]}}
case = make_case(folder / "cases", {"check.py": check}, limits=limits, wrong=wrong)
agent = make_agent(folder / "agents", "open('answer.py', 'w').write(" + repr(sys.argv[2]) + ")")
context = make_context(folder, BubblewrapSandbox(), space=DiskSpace((folder,)))
# Copies for programs that are run lie there.
record = run_cell(make_cell(agent, case), replace(context, sockets=folder / "s"))
print(json.dumps([record.outcome, record.cause, record.success, record.error]))
"""


_COPIED = """
import json, sys, threading, time
from dataclasses import replace
from pathlib import Path
from bench.cell.machine import DiskSpace
from bench.cell.run import run_cell
from bench.sandbox.bubblewrap import BubblewrapSandbox
from tests.helpers.cells import make_agent, make_case, make_cell, make_context
folder = Path(sys.argv[1])
limits = {"agent_s": 60, "grade_s": 20, "call_s": 5, "disk_mb": int(sys.argv[3]), "memory_mb": 1024}
check = '''
from bench.judge import check

@check(required=True)
def runs(ws):
    \"\"\"It can be run four times.\"\"\"
    for _ in range(4):
        ws.run(["python", "answer.py"])
    raise AssertionError("it never ends well")
'''
wrong = {"same": {"about": "the same", "fails": ["runs"]}}
case = make_case(folder / "cases", {"check.py": check}, limits=limits, wrong=wrong)
answer = '''
import os, time
free = os.statvfs(".").f_bavail * os.statvfs(".").f_frsize >> 20
open("more", "wb").write(bytes(max(0, min(70, free * 3 // 4 - 8)) << 20))
time.sleep(0.5)
'''
agent = make_agent(folder / "agents", f"open('answer.py', 'w').write({answer!r})\\n{sys.argv[2]}")
space = DiskSpace((folder,))

def look():
    # As the pool of a run does, more often.
    while True:
        space.look()
        time.sleep(0.02)

threading.Thread(target=look, daemon=True).start()
context = make_context(folder, BubblewrapSandbox(), space=space)
record = run_cell(make_cell(agent, case), replace(context, sockets=folder / "s"))
print(json.dumps([record.outcome, record.cause, record.success, record.error]))
"""


@pytest.mark.parametrize(
    ("limit", "left"), [(145, 135), (80, 5)], ids=["no room for a copy", "no room after two programs"]
)
def test_who_leaves_no_room_to_be_judged_in_fails(
    bubblewrap: BubblewrapSandbox, short_path: Path, limit: int, left: int
) -> None:
    """What it has left, and what its programs leave, is within the limit of each: to lose the cell was its choice."""
    unshare = shutil.which("unshare")
    assert unshare is not None
    script = f"with open('left', 'wb') as file:\n    for _ in range({left}): file.write(bytes(1 << 20))"
    told = [str(short_path), sys.executable, _COPIED, script, "30000", str(limit)]
    argv = [unshare, "-rm", "sh", "-c", _MOUNT.replace('"$4"', '"$4" "$6"'), "sh", *told]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=_REPOSITORY, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    outcome, cause, success, error = json.loads(done.stdout)
    assert (outcome, cause, success) == ("graded", "", False), error


@pytest.fixture
def short_path() -> Iterator[Path]:
    """The name of a Unix socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="mldb-", dir="/tmp") as name:
        yield Path(name)


_DEEP = """
import os
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
"""


@pytest.mark.parametrize(
    ("megabytes", "after"),
    [(50, ""), (200, ""), at_night(50, _DEEP), (50, "import os; os.mkdir('locked', 0)")],
    ids=["within its limit", "over its limit", "deeper than a path", "behind a closed folder"],
)
def test_programs_that_fill_the_disk_while_they_are_judged_fail(
    bubblewrap: BubblewrapSandbox, short_path: Path, megabytes: int, after: str
) -> None:
    disk = short_path
    unshare = shutil.which("unshare")
    assert unshare is not None
    script = f"for number in range({megabytes}): open(f'{{number}}', 'wb').write(bytes(1 << 20))\n{after}"
    argv = [unshare, "-rm", "sh", "-c", _MOUNT, "sh", str(disk), sys.executable, _JUDGED, script, "30000"]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=_REPOSITORY, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    outcome, cause, success, error = json.loads(done.stdout)
    assert (outcome, cause, success) == ("graded", "", False), error
