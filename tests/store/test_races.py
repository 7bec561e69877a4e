"""Many writers at once, and writers killed on their way; the full size is `python -m tests.benchmarks.store_races`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.store_races import killed_pushes, race, writers
from tests.helpers.sampling import at_night


@pytest.mark.slow
@pytest.mark.parametrize("count", [5, at_night(32)])
def test_all_writers_land_once_whatever_the_hook_turns_away(tmp_path: Path, count: int) -> None:
    refused = 0
    with writers(count) as processes:
        for repetition in range(2):
            folder = tmp_path / str(repetition)
            folder.mkdir()
            result = race(folder, processes, reject=0.25)
            assert result.faults == []
            assert result.landed == count
            refused += result.turned_away
    assert refused > 0, "the hook had its say"


@pytest.mark.slow
def test_writers_killed_on_their_way_lose_nothing(tmp_path: Path) -> None:
    kills, faults = killed_pushes(tmp_path, count=10, side_by_side=4, reject=0.25, seed=7)
    assert faults == []
    assert kills > 0, "some were really killed"
