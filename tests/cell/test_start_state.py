"""The start of a trial: the same for the same seed, built once, and built anew when it was damaged."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.base.errors import InfraError
from bench.base.files import digest_folder
from bench.cell.start_state import StartState, prepare_start
from bench.formats.case import Case
from tests.helpers.cells import ROOT, make_case, python
from tests.helpers.fault_places import cut, flip

DATA = """
from pathlib import Path
def build(public, hidden, profile, seed):
    with open(Path(__file__).with_name("README.md"), "a") as file:
        file.write("built\\n")
    (public / "seed.txt").write_text(str(seed))
    (hidden / "sub").mkdir()
    (hidden / "sub" / "half.txt").write_text("x" * 1000)
"""


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return make_case(tmp_path / "cases", {"data.py": DATA, "README.md": ""})


def build(case: Case, tmp_path: Path, seed: int = 7) -> StartState:
    return prepare_start(case, "mini", seed, tmp_path / "cache")


def times_built(case: Case) -> int:
    """The README is the one file that does not count as the case's content."""
    return (case.folder / "README.md").read_text().count("built")


def a_file_more(place: Path) -> None:
    (place / "hidden" / "more.txt").write_text("x")


def a_mode_more(place: Path) -> None:
    (place / "workspace" / "seed.txt").chmod(0o755)


def another_content(place: Path) -> None:
    (place / "hidden" / "sub" / "half.txt").write_text("y" * 1000)


DAMAGES: list[Callable[[Path], object]] = [
    lambda place: cut(place / "hidden" / "sub" / "half.txt"),
    lambda place: flip(place / "workspace" / "seed.txt", 0),
    lambda place: (place / "complete").unlink(),
    lambda place: (place / "complete").write_bytes(b""),
    lambda place: flip(place / "complete", -3),
    lambda place: (place / "workspace" / "seed.txt").unlink(),
    lambda place: shutil.rmtree(place / "workspace"),
    a_file_more, a_mode_more, another_content,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_built_anew(case: Case, tmp_path: Path, damage: Callable[[Path], object]) -> None:
    place = build(case, tmp_path).workspace.parent
    before = digest_folder(place)
    build(case, tmp_path)
    assert times_built(case) == 1
    damage(place)
    assert build(case, tmp_path).workspace.parent == place
    assert (times_built(case), digest_folder(place)) == (2, before)


def test_many_at_once_build_once(case: Case, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: build(case, tmp_path), range(16)))
    assert (len(found), times_built(case)) == (1, 1)


def test_what_does_not_build_leaves_nothing(tmp_path: Path) -> None:
    text = (
        "def build(public, hidden, profile, seed):\n    (public / 'x').write_text('x')\n    raise RuntimeError('no')\n"
    )
    case = make_case(tmp_path / "cases", {"data.py": text})
    with pytest.raises(InfraError, match="RuntimeError: no") as caught:
        build(case, tmp_path)
    assert caught.value.cause == "data_error"
    assert [path.name[-5:] for path in (tmp_path / "cache" / "starts").iterdir()] == [".lock"]


def test_the_builder_ends_with_the_runner(tmp_path: Path) -> None:
    text = "import time\ndef build(public, hidden, profile, seed):\n    time.sleep(60)\n"
    case = make_case(tmp_path / "cases", {"data.py": text})
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from bench.formats.case import load_case\nfrom bench.cell.start_state import prepare_start\n"
        "prepare_start(load_case(Path(sys.argv[1])), 'mini', 7, Path(sys.argv[2]))\n"
    )
    runner = subprocess.Popen(python("-c", script, str(case.folder), str(tmp_path / "cache")), cwd=ROOT)
    children = Path(f"/proc/{runner.pid}/task/{runner.pid}/children")
    while not (pids := children.read_text().split()):
        assert runner.poll() is None
    runner.kill()
    runner.wait()
    until = time.monotonic() + 20
    while Path("/proc", pids[0]).exists():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_the_path_of_a_start_does_not_tell_its_seed(case: Case, tmp_path: Path) -> None:
    """Paths of hidden files get into messages of checks, and with them into records."""
    seed = 2**127 + 12345678901234567890
    place = str(build(case, tmp_path, seed).hidden)
    assert (build(case, tmp_path, seed).workspace / "seed.txt").read_text() == str(seed)
    assert str(seed) not in place and f"{seed:x}" not in place
    assert str(build(case, tmp_path, seed + 1).hidden) != place
