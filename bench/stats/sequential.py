"""Looks at an experiment of two arms while it runs, by boundaries that keep the chance of a false alarm.

A round is one trial of every case for both arms. After round k of at most K, each case's difference is the mean over
its k pairs of trials, head minus base, and Student's t over the cases is looked at (the cases are the sample: with
equal weights that is the cluster-robust test CR2 of `bench.stats.intervals.clustered`), freed of skewness as in
`bench.stats.sign_flips`, where a change is to be called. The last look has the test of `compare` itself, whose signs
are not fine enough for the p-values of the looks before:

- *regression* or *improvement*: the one-sided p is below the look's boundary, and the mean differs by the margin. The
  boundaries spend alpha as O'Brien and Fleming's do (Lan and DeMets, Biometrika 70, 1983): 2 - 2 Phi(z / sqrt(t)) at
  the share t = k / K, z being the normal quantile of 1 - alpha / 2;
- *no drop*: the p of a loss as large as `DROP` is below the look's exclusion. The exclusions spend `EXCLUDED` as
  Pocock's do: EXCLUDED log(1 + (e - 1) t). They are not binding: alpha holds for who goes on all the same;
- *undecided* after the last round; *go on* before.

Looks are correlated as those of independent increments are when every case has the same true difference, and more where
the cases differ, which spends less. What that comes to is measured: `python -m tests.benchmarks.sequential`.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field

from bench.base.model import Model
from bench.base.text import counted
from bench.formats.amounts import Fraction
from bench.formats.names import Digest
from bench.formats.provenance import Sequential
from bench.formats.record import Record
from bench.stats.boundaries import obrien_fleming, pocock, spending_boundaries
from bench.stats.comparable import MOST_LOST
from bench.stats.entrants import unique_cells
from bench.stats.intervals import Floats
from bench.stats.sign_flips import freed_ratio, sign_flip

Decision = Literal["go on", "regression", "improvement", "no drop", "undecided"]
ALPHA = 0.05
"""The chance, over all looks, of a regression where nothing has changed; the same for an improvement."""
MARGIN = 0.05
DROP = 0.10
EXCLUDED = 0.08
"""The chance, over all looks, of excluding a drop of `DROP` where there is one."""
ROUNDS = 5
"""At most, where the user does not say."""
# Imagined differences without skewness.
_UNSKEWED = 10
Booleans: TypeAlias = npt.NDArray[np.bool_]


class Look(Model):
    """What was seen after a round, and what followed: one line of the ledger of looks."""

    schema_: Literal[1] = Field(1, alias="schema")
    round: int = Field(ge=1)
    cases: int = Field(ge=2)
    """With a graded pair of trials; each is one difference."""
    difference: float
    """Mean success of head minus base."""
    p_worse: Fraction
    p_better: Fraction
    boundary: Fraction
    """Below which either of them decides."""
    p_drop: Fraction
    """Of a loss as large as the drop."""
    exclusion: Fraction
    """Below which it is excluded."""
    decision: Decision
    seen: Digest
    """Of the verdicts that were looked at."""


@dataclass(frozen=True)
class SequentialState:
    """How far a sequential experiment is, worked out from its records."""

    design: Sequential
    looks: Sequence[Look]
    waits_for: str
    """Why there is no verdict yet; empty where there is one."""

    @property
    def verdict(self) -> Decision | None:
        """None: it is not finished."""
        decision = self.looks[-1].decision if self.looks else "go on"
        return None if decision == "go on" else decision

    @property
    def saved(self) -> int:
        """Trials, of both arms together, that the verdict made needless."""
        return 2 * self.design.cases * (self.design.rounds - len(self.looks)) if self.verdict else 0


def make_sequential(cases: int, rounds: int) -> Sequential:
    """The boundaries of an experiment with so many cases and at most so many rounds, both at least 2."""
    fractions = [(number + 1) / rounds for number in range(rounds)]
    return Sequential(
        cases=cases,
        boundaries=_rounded(spending_boundaries(fractions, obrien_fleming(fractions, ALPHA))),
        exclusions=_rounded(spending_boundaries(fractions, pocock(fractions, EXCLUDED))),
        margin=MARGIN,
        drop=DROP,
    )


def _rounded(quantiles: Sequence[float]) -> list[float]:
    from scipy.special import ndtr

    return [float(f"{ndtr(-quantile):.6g}") for quantile in quantiles]


@dataclass(frozen=True)
class Seen:
    """The statistics of one look, or of one look at each of many simulated experiments."""

    mean: Floats
    p_worse: Floats
    p_better: Floats
    p_drop: Floats


def statistics(differences: Floats, drop: float) -> Seen:
    """Of case differences with shape (..., cases), head minus base; one number for each experiment.

    Student's t over the cases, freed of skewness but for the p of the drop. Of the skewness so much counts as if
    `_UNSKEWED` cases more had moved without any: few cases tell little of it. No p is below what flipping the signs of
    the differences could give, 2^-n for n that are not 0; and none of the drop below the chance that so many cases show
    nothing of a loss which takes a share of all cases from success to failure (Clopper and Pearson, 1934).
    """
    from scipy.special import stdtr

    n = differences.shape[-1]
    mean = differences.mean(axis=-1)
    spread = differences.std(axis=-1, ddof=1)
    equal = np.ptp(differences, axis=-1) == 0
    moved = (differences != 0).sum(axis=-1)
    scale = np.where(equal, 1.0, spread)
    skewness = ((differences - mean[..., None]) ** 3).mean(axis=-1) / scale**3 * moved / (moved + _UNSKEWED)
    student = math.sqrt(n) * freed_ratio(mean / scale, skewness, n)
    lower = np.where(equal, np.where(mean < 0, 0.0, 1.0), stdtr(n - 1, student))
    upper = np.where(equal, np.where(mean > 0, 0.0, 1.0), stdtr(n - 1, -student))
    # A case that was not drawn may have fallen from 1 to 0, whatever those that were drawn did.
    unseen = ((1 - drop) / np.maximum(1 + mean, 1 - drop)) ** n
    p_drop = np.where(equal, 0.0, stdtr(n - 1, -math.sqrt(n) * (mean + drop) / scale))
    floor = 0.5**moved
    return Seen(mean, np.maximum(lower, floor), np.maximum(upper, floor), np.maximum(p_drop, unseen))


def last_statistics(differences: Floats, drop: float) -> Seen:
    """The same of the last look at one experiment, shape (cases,), which can afford the test of `compare`."""
    tails = sign_flip(differences)
    return replace(statistics(differences, drop), p_worse=np.asarray(tails.lower), p_better=np.asarray(tails.upper))


def decisions(seen: Seen, design: Sequential, number: int) -> Mapping[Decision, Booleans]:
    """Which experiments are decided by look `number`, counted from 1, and how; in the order of precedence."""
    boundary, exclusion = design.boundaries[number - 1], design.exclusions[number - 1]
    # A difference of exactly the margin counts, even where it was rounded to a little less.
    slack = 1e-9
    return {
        "regression": (seen.p_worse < boundary) & (seen.mean <= slack - design.margin),
        "improvement": (seen.p_better < boundary) & (seen.mean >= design.margin - slack),
        "no drop": seen.p_drop < exclusion,
    }


def sequential_state(records: Iterable[Record]) -> SequentialState | None:
    """How far the experiment of these records is; None where they are not those of exactly one sequential experiment.

    Rounds are looked at in their order, up to the verdict or to the first round that is not complete. The same records
    give the same looks, whoever collects them.
    """
    cells = unique_cells(records)
    design = cells[0].provenance.sequential if cells else None
    run = {it.provenance.run for it in cells}
    if design is None or len(run) > 1 or not all(it.arm and it.provenance.sequential == design for it in cells):
        return None
    looks: list[Look] = []
    for number in range(1, design.rounds + 1):
        if fault := round_fault(design, cells, number):
            return SequentialState(design, looks, fault)
        looks.append(look_at(design, cells, number))
        if looks[-1].decision != "go on":
            break
    return SequentialState(design, looks, "")


def round_fault(design: Sequential, records: Iterable[Record], number: int) -> str:
    """Why round `number` cannot be looked at; empty where it can."""
    pairs = [pair for pair in _pairs(records, number, number) if "interrupted" not in {it.outcome for it in pair}]
    if len(pairs) < design.cases:
        have = f"{len(pairs)} of {counted(design.cases, 'case')}"
        return f"round {number} of at most {design.rounds} has {have} for both arms"
    able = [pair for pair in pairs if {it.outcome for it in pair} != {"skipped"}]
    graded = [pair for pair in able if {it.outcome for it in pair} == {"graded"}]
    if len(able) - len(graded) > MOST_LOST * len(able):
        return f"round {number} lost {len(able) - len(graded)} of {counted(len(able), 'case')} to infrastructure"
    if len(graded) < 2:
        return f"round {number} has a verdict for both arms on {counted(len(graded), 'case')}; two are the least"
    return ""


def look_at(design: Sequential, records: Iterable[Record], number: int) -> Look:
    """The look after round `number`, for which `round_fault` finds nothing. Trials without a verdict have no part."""
    cells = list(records)
    trials: dict[str, list[float]] = defaultdict(list)
    for base, head in _pairs(cells, 1, number):
        if base.outcome == head.outcome == "graded":
            trials[base.case.id].append(float(bool(head.success)) - float(bool(base.success)))
    differences = np.array([math.fsum(it) / len(it) for _, it in sorted(trials.items())])
    seen = (last_statistics if number == design.rounds else statistics)(differences, design.drop)
    found = next((name for name, are in decisions(seen, design, number).items() if are), None)
    return Look(
        round=number,
        cases=len(trials),
        difference=float(seen.mean),
        p_worse=float(seen.p_worse),
        p_better=float(seen.p_better),
        boundary=design.boundaries[number - 1],
        p_drop=float(seen.p_drop),
        exclusion=design.exclusions[number - 1],
        decision=found or ("go on" if number < design.rounds else "undecided"),
        seen=_digest(it for it in cells if it.trial <= number),
    )


def _pairs(records: Iterable[Record], first: int, last: int) -> list[tuple[Record, Record]]:
    """(base, head) of each case and trial in these rounds that both arms have met."""
    arms: dict[tuple[str, int], dict[str, Record]] = defaultdict(dict)
    for record in records:
        if first <= record.trial <= last:
            arms[record.case.id, record.trial][record.arm] = record
    return [(pair["base"], pair["head"]) for _, pair in sorted(arms.items()) if len(pair) == 2]


def _digest(records: Iterable[Record]) -> str:
    lines = sorted(f"{it.cell} {it.outcome} {it.success}\n" for it in records)
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"
