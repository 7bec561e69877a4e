"""Losses that are not alike on both sides are said, with what they could hide."""

from __future__ import annotations

import random
import re
from datetime import timedelta

from bench.formats.record import Outcome, Record
from bench.stats.compare import compare_records
from bench.stats.uneven_losses import uneven_losses
from tests.helpers.records import START, make_check, make_record

FAIL = [make_check(value=0.0)]


def arm(run: str, version: int, *, of_failures: float, of_all: float = 0.0, seed: int = 1) -> list[Record]:
    """30 cases of three trials, half of which succeed; a share of the failures, or of all cells, is lost."""
    rng, found = random.Random(seed), []
    for case in range(30):
        for trial in range(1, 4):
            good = rng.random() < 0.5
            lost = rng.random() < (of_all if good else max(of_all, of_failures))
            outcome: Outcome = "infra" if lost else "graded"
            found.append(
                make_record(
                    case=f"case_{case:02}",
                    trial=trial,
                    run=run,
                    agent_version=version,
                    outcome=outcome,
                    checks=None if good else FAIL,
                    started=START + timedelta(minutes=case),
                )
            )
    return found


def losses(notes: list[str]) -> list[str]:
    return [note for note in notes if note.startswith("losses:")]


def test_a_side_that_loses_its_failures_is_named_with_what_it_may_hide() -> None:
    base, head = arm("b", 1, of_failures=0.0), arm("h", 2, of_failures=0.5, seed=2)
    answer = compare_records(base, head)
    (note,) = losses([*answer.notes])
    seen = re.search(r"would be ([+-]\d+\.\d) points, not ([+-]\d+\.\d)$", note)
    assert seen is not None
    assert float(seen[1]) < 5 < float(seen[2]), "equal agents, one of which seems better by what it lost"
    assert "What head lost" in note
    (turned,) = losses([*compare_records(head, base).notes])
    assert "What base lost" in turned


def test_sides_that_lose_alike_are_not_named() -> None:
    named = 0
    for seed in range(20):
        one = arm("b", 1, of_failures=0.0, of_all=0.1, seed=seed)
        named += bool(uneven_losses(one, arm("h", 2, of_failures=0.0, of_all=0.1, seed=seed + 100)))
    assert named <= 4, "one in twenty by chance"
    assert not uneven_losses(arm("b", 1, of_failures=0.0), arm("h", 2, of_failures=0.0))
    assert not uneven_losses([], [])
