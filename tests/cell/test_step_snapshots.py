"""When snapshots are taken, which of many stay, and what a copy beside an agent at work does at its bounds."""

from __future__ import annotations

import io
import json
import os
import stat
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import UserError
from bench.cell import live_copy
from bench.cell.live_copy import serve
from bench.cell.step_snapshots import thinned
from bench.formats.step_snapshots import SnapshotRule, StepSnapshot, Tree
from tests.helpers.cells import write_files


def snapshot(seconds: float) -> StepSnapshot:
    return StepSnapshot(
        kind="step", step=int(seconds), seconds=seconds, usd=None, tree=f"sha256:{'0' * 64}", files=0, size=0
    )


@pytest.mark.parametrize("count", [3, 50, 51, 500])
def test_of_many_snapshots_those_stay_that_are_spread_over_the_time(count: int) -> None:
    kept: list[StepSnapshot] = []
    gone = 0
    for number in range(count):
        kept, more = thinned([*kept, snapshot(number)])
        gone += more
    assert (len(kept), gone) == (min(count, 50), max(count - 50, 0))
    times = [it.seconds for it in kept]
    assert (times[0], times[-1], times) == (0, count - 1, sorted(times))
    gaps = [after - before for before, after in pairwise(times)]
    assert max(gaps) <= 4 * count / 50 + 1


def test_a_burst_of_milestones_leaves_the_others() -> None:
    kept: list[StepSnapshot] = [snapshot(0), snapshot(1000)]
    for number in range(200):
        kept, _ = thinned([*kept, snapshot(1001 + number)])
    assert [it.seconds for it in kept][:2] == [0, 1000]
    assert kept[-1].seconds == 1200


def test_a_rule_is_read_and_said_again() -> None:
    assert not SnapshotRule.parse("")
    for text in ("every=5", "milestones", "every=5,milestones"):
        assert str(SnapshotRule.parse(text)) == text
    for text in ("every=0", "every", "often", "every=-1"):
        with pytest.raises(UserError, match=r"is not a rule.*write every=5"):
            SnapshotRule.parse(text)


def copied(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    orders = {
        "root": str(tmp_path / "work"), "store": str(tmp_path / "store"), "stored": 1 << 20, "objects": 1000,
        "keep": [], "prune": False, "size": 1 << 20, "entries": 100,
    }  # fmt: skip
    answers = io.BytesIO()
    serve({**orders, **changes}, answers)
    found: dict[str, Any] = json.loads(answers.getvalue())
    return found


@pytest.fixture(autouse=True)
def _same_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork lowers its own priority; here it would be that of all tests."""
    monkeypatch.setattr(os, "nice", lambda by: by)


def test_a_copy_holds_regular_files_alone_and_stores_a_content_once(tmp_path: Path) -> None:
    work = write_files(tmp_path / "work", {"a.txt": "one", "deep/b.txt": "one", "__pycache__/c.pyc": "no"})
    (work / "outside").symlink_to(tmp_path)
    (work / "empty").mkdir()
    os.mkfifo(work / "pipe")
    os.chmod(work / "a.txt", 0o755)
    facts = copied(tmp_path)
    assert (facts["files"], facts["dropped"], facts["unsteady"]) == (2, 2, 0)
    tree = Tree.model_validate_json((tmp_path / "store" / facts["tree"]).read_bytes())
    assert {path: executable for path, (_, _, executable) in tree.files.items()} == {"a.txt": True, "deep/b.txt": False}
    assert tree.folders == ["deep", "empty"]
    assert len(list((tmp_path / "store").iterdir())) == 2
    assert copied(tmp_path) == facts
    # What no tree names goes, and what one names stays.
    (work / "a.txt").write_text("other")
    other = copied(tmp_path)["tree"]
    copied(tmp_path, keep=[other], prune=True, root="")
    assert len(list((tmp_path / "store").iterdir())) == 3
    assert copied(tmp_path, keep=[], prune=True, root="") == {}
    assert list((tmp_path / "store").iterdir()) == []


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        ({"size": 5000}, "bytes of the workspace"),
        ({"stored": 15}, "bytes of all snapshots"),
        ({"stored": 4 * 4096 - 1}, "bytes of all snapshots"),
        ({"objects": 3}, "files of all snapshots"),
        ({"entries": 2}, "files and folders"),
    ],
)
def test_a_copy_beyond_a_bound_is_not_made_and_leaves_nothing(tmp_path: Path, bound: dict[str, int], said: str) -> None:
    work = write_files(tmp_path / "work", {"a.txt": "0123456789", "b.txt": "9876543210", "c/d.txt": "x"})
    assert copied(tmp_path, **bound) == {"left_out": said}
    assert list((tmp_path / "store").iterdir()) == []
    with (work / "sparse.bin").open("wb") as file:
        file.truncate(1 << 40)
    # Its holes are never read.
    assert copied(tmp_path) == {"left_out": "bytes of the workspace"}


def test_a_list_of_files_that_is_too_long_to_be_read_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names outside of ASCII take up to three times their bytes in it."""
    monkeypatch.setattr(live_copy, "_LONGEST_LIST", 4000)
    write_files(tmp_path / "work", {"\N{GRINNING FACE}" * 50 + str(number): "x" for number in range(6)})
    assert copied(tmp_path) == {"left_out": "list of the files"}


def test_a_name_that_becomes_another_thing_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that lists while its entries are removed and made anew can tell a name twice."""
    work = write_files(tmp_path / "work", {"a/b.txt": "x", "c.txt": "y"})
    file = (work / "c.txt").stat()
    real = live_copy._Copy._listed

    def twice(self: Any, here: int) -> Iterator[tuple[str, os.stat_result]]:
        found = list(real(self, here))
        yield from found
        yield from ((name, file) for name, info in found if not stat.S_ISREG(info.st_mode))

    monkeypatch.setattr(live_copy._Copy, "_listed", twice)
    facts = copied(tmp_path)
    tree = Tree.model_validate_json((tmp_path / "store" / facts["tree"]).read_bytes())
    assert (sorted(tree.files), tree.folders, facts["unsteady"]) == (["a/b.txt", "c.txt"], ["a"], 1)
