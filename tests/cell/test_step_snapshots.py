"""When snapshots are taken, which of many stay, and what a copy beside an agent at work does at its bounds."""

from __future__ import annotations

import io
import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import UserError
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
        "root": str(tmp_path / "work"), "store": str(tmp_path / "store"), "stored": 1 << 20, "keep": [],
        "prune": False, "size": 1 << 20, "entries": 100,
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
