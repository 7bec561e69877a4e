"""Ranks, intervals and coverage: one rule for the terminal and the pages, and no interval leaves its range."""

from __future__ import annotations

import random
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from bench.formats.record import Profile, Record
from bench.pages.board import CaseInfo, make_board, suite_of
from bench.pages.build import build_site
from bench.report import leaderboard
from bench.stats import RecordResults
from bench.stats.intervals import (
    Interval,
    between,
    clustered,
    contrast,
    correlation,
    difference_intervals,
    mean_intervals,
    wilson,
)
from bench.stats.ranking import rank_bands
from tests.helpers.records import GPT, SONNET, make_check, make_record
from tests.helpers.store import ROOT

PROFILES: tuple[Profile, ...] = ("mini", "full")


def some_records(rng: random.Random) -> tuple[list[Record], list[CaseInfo]]:
    """A random field: agents that missed cases, both profiles, losses, and cases that are in one profile alone."""
    infos = [
        CaseInfo(f"case_{n}", "debugging", f"Case {n}", profiles=rng.choice([PROFILES, PROFILES[:1], PROFILES[1:]]))
        for n in range(rng.randint(1, 7))
    ]
    records = [
        make_record(
            agent=agent,
            model=rng.choice([SONNET, GPT]) if agent == "react" else SONNET,
            case=info.id,
            profile=profile,
            trial=trial,
            ranked=agent != "oracle",
            outcome="infra" if rng.random() < 0.1 else "graded",
            checks=[make_check("only", rng.choice([0.0, 0.5, 1.0]))],
        )
        for agent in ("react", "aide", "mini", "oracle")
        for info in infos
        for profile in PROFILES
        for trial in range(1, rng.randint(1, 4))
        if rng.random() < 0.9
    ]
    return records, infos


@pytest.mark.parametrize("seed", range(12))
def test_the_terminal_says_what_the_pages_say(seed: int, tmp_path: Path) -> None:
    records, infos = some_records(random.Random(seed))
    results = RecordResults(records, suite_of(infos))
    lines = leaderboard(results).splitlines()
    board = make_board(results, infos, "title")
    rows = [row for section in board.sections for row in section.everyone]
    assert len(rows) == len(lines) - 2
    for row, line in zip(rows, lines[1:-1], strict=True):
        standing = row.standing
        assert standing.entrant.agent in line and standing.entrant.model in line
        assert f" {standing.covered}/{standing.suite_size} " in f"{line} "
        assert line.startswith(
            "-" if row.place.rank is None else f"{row.place.rank}. ({row.place.best}-{row.place.worst})"
        )
        if standing.success is not None:
            it = standing.success
            span = f" [{it.interval.low:.2f}, {it.interval.high:.2f}]" if it.interval else ""
            assert f"{it.mean:.2f}{span} n={it.n}" in line
    if seed < 2:
        build_site(records, infos, tmp_path / "site", ROOT / "site")
        page = (tmp_path / "site" / "index.html").read_text()
        found = re.findall(r'data-label="Cases" data-v="\d+">(\d+)<span class="muted">/(\d+)</span>', unescape(page))
        assert found == [(str(row.standing.covered), str(row.standing.suite_size)) for row in rows]
        ranks = re.findall(r'class="rank" data-label="Rank" data-v="\d+"><b>(\d+)</b>', page)
        assert ranks == [str(row.place.rank) for row in rows if row.place.rank is not None]


def test_profiles_are_never_in_one_ranking() -> None:
    goods: dict[Profile, float] = {"mini": 1.0, "full": 0.0}
    records = [
        make_record(agent=agent, profile=profile, case=f"case_{n}", checks=[make_check("only", value)])
        for profile, good in goods.items()
        for agent, value in (("react", good), ("aide", 0.0))
        for n in range(3)
    ]
    lines = leaderboard(RecordResults(records)).splitlines()
    assert "profile" in lines[0]
    # In `full` no agent succeeds, and both are first; in one ranking with `mini` they would be second.
    assert [line.split("(")[0].strip() for line in lines[1:-1]] == ["1.", "2.", "1.", "1."]


def test_a_case_of_one_profile_is_not_missing_in_the_other() -> None:
    records = [make_record(case="here"), make_record(case="there", profile="full")]
    covered = {it.entrant.profile: (it.covered, it.suite_size) for it in RecordResults(records).standings()}
    assert covered == {"mini": (1, 1), "full": (1, 1)}


def inside(it: Interval | None, low: float, high: float) -> bool:
    return it is None or low <= it.low <= it.high <= high


@pytest.mark.parametrize("seed", range(60))
def test_no_interval_leaves_its_range(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    # Many values at the ends and many that are equal: there intervals go astray.
    shares = np.round(rng.beta(0.3, 0.3, n), int(rng.integers(0, 3)))
    other = np.round(rng.beta(0.3, 0.3, n), int(rng.integers(0, 3)))
    levels = (0.5, 0.95, 0.999)
    assert inside(clustered(shares.tolist()), 0, 1)
    assert all(inside(it, 0, 1) for it in mean_intervals(shares, levels))
    assert all(inside(it, -1, 1) for it in difference_intervals(other - shares, levels))
    assert all(inside(wilson(value, n), 0, 1) for value in (0.0, float(shares.mean()), 1.0))
    one, two = wilson(float(shares.mean()), n), wilson(float(other.mean()), n)
    assert inside(between(float(shares.mean()), one, float(other.mean()), two), -1, 1)
    related = correlation(shares, other)
    assert related is None or (-1 <= related.r <= 1 and inside(related.interval, -1, 1))
    difference = contrast(other - shares, shares - other)
    assert difference is None or inside(difference.interval, -2, 2)
    rates = np.round(rng.random((int(rng.integers(1, 6)), n)), 1)
    assert all(1 <= best <= worst <= len(rates) for best, worst in rank_bands(rates))
