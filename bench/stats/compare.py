"""Is HEAD better than BASE, worse or more expensive? Two sets of records, paired by case."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import comb, exp, log1p
from typing import Literal

from bench.base.text import counted
from bench.formats.record import Record
from bench.stats.comparable import Allowance, Pair, Pairing, pair
from bench.stats.noise_floor import Losses, NoiseFloor, losses_of, noise_floor
from bench.stats.pairing import MEASURES, Measure, money, sample
from bench.stats.ratio_test import paired_ratios
from bench.stats.tests import DEFAULT_RULES, Rules, holm, paired_cases
from bench.stats.uneven_losses import uneven_losses
from bench.stats.verdict import Judgement, Verdict, above_floor, judge, judge_suite, power_of

Test = Literal["sign-flip", "within-cases"]
MOST_UNKNOWN = 0.1
"""The share of cases without a figure on both sides beyond which a ratio does not speak for the suite."""


@dataclass(frozen=True)
class Compared:
    """One measure."""

    measure: str
    verdict: Verdict
    """By the test that decides."""
    reason: str = ""
    """Why it is not comparable."""
    base: float | None = None
    """Mean over the paired cases of the mean of each case's trials."""
    head: float | None = None
    trials: float = 0.0
    """A case, on the side that has fewer, on average."""
    base_trials: float = 0.0
    """A case of base, on average, those of other nights included."""
    head_trials: float = 0.0
    judgement: Judgement | None = None
    """Of cases like these."""
    this_suite: Judgement | None = None
    """Of success and score: of these very cases alone."""
    night_sd: float = 0.0
    """What nights add to the standard error of the difference; 0 where both sides met the same nights."""
    floor: float | None = None
    """What equal agents differ by on such machines in comparisons of this size; None where no A/A run measured it."""

    @property
    def factor(self) -> float | None:
        """Head over base, of a ratio: the geometric mean over cases."""
        known = self.judgement is not None and MEASURES[self.measure].ratio
        return exp(self.judgement.difference) if known and self.judgement else None

    @property
    def open_drop(self) -> float | None:
        """The largest drop of success or score, for cases like these, that the data leave possible (one-sided)."""
        if self.judgement is None or self.base is None or MEASURES[self.measure].ratio:
            return None
        edge = self.judgement.equivalence
        return None if edge is None else max(0.0, min(self.base, -edge.low))


@dataclass(frozen=True)
class CaseChange:
    """One case whose success changed."""

    case: str
    base: tuple[int, int]
    """Succeeded, of trials."""
    head: tuple[int, int]
    p: float
    """One-sided, in the direction it went (Fisher's exact test)."""
    p_holm: float
    """The same, for having looked at all cases."""


@dataclass(frozen=True)
class Comparison:
    """The whole answer."""

    verdict: Verdict
    """Of the measures that decide."""
    reasons: Sequence[str]
    notes: Sequence[str]
    cases: int
    gates: Sequence[str]
    alpha: float
    """For each measure that decides: the level, divided by their number."""
    rules: Rules
    test: Test
    measures: Sequence[Compared] = field(default_factory=list)
    findings: Sequence[CaseChange] = field(default_factory=list)
    """Advisory, the least likely chance first."""
    drop: float | None = None
    """A drop of success of which the power was asked."""
    power: float | None = None
    """The chance that these cases and trials would show it as a regression."""
    noise: NoiseFloor | None = None
    """What A/A runs of this class of machines measured."""
    losses: tuple[Losses, Losses] | None = None
    """Of base, its history included but not the A/A runs, and of head."""


def compare_records(
    base: Iterable[Record],
    head: Iterable[Record],
    *,
    rules: Rules = DEFAULT_RULES,
    gates: Sequence[str] = ("success",),
    test: Test = "sign-flip",
    allow: Collection[Allowance] = (),
    drop: float | None = None,
    others: Iterable[Record] = (),
    faults: Sequence[str] = (),
) -> Comparison:
    """Compare two sets of records, each of one agent with its models in one profile.

    `gates`: names of `MEASURES`; they decide together, each at `rules.alpha` divided by their number (Bonferroni), so
    that several do not cry wolf more often than one. `drop`: of success, the power against which is worked out.
    `others`: records among which those of A/A runs give the noise floor. `faults`: why the sets are not comparable, as
    far as records do not tell.
    """
    one, other = list(base), list(head)
    paired = pair(one, other, allow)
    alpha = rules.alpha / len(gates)
    if reasons := [*faults, *paired.reasons]:
        return Comparison("not comparable", reasons, paired.notes, 0, gates, alpha, rules, test)
    noise = noise_floor(one, other, others)
    measures = [_compare_measure(measure, paired, rules, alpha, test, noise) for measure in MEASURES.values()]
    return Comparison(
        verdict=_together([it for it in measures if it.measure in gates]),
        reasons=[],
        notes=[*paired.notes, *uneven_losses(one, other)],
        cases=len(paired.pairs),
        gates=gates,
        alpha=alpha,
        rules=rules,
        test=test,
        measures=measures,
        findings=_case_changes(paired.pairs),
        drop=drop,
        power=None if drop is None else _power(paired, drop, replace(rules, alpha=alpha), test),
        noise=noise,
        losses=(losses_of(it for it in one if it.provenance.run not in noise.runs), losses_of(other)),
    )


def _power(paired: Pairing, drop: float, rules: Rules, test: Test) -> float:
    it = sample(MEASURES["success"], paired.pairs, len(paired.nights))
    night = it.night if test == "sign-flip" else it.strata_night
    return power_of(it.base, it.effective, drop, rules, night, by_signs=test == "sign-flip")


def _compare_measure(
    measure: Measure, paired: Pairing, rules: Rules, alpha: float, test: Test, noise: NoiseFloor
) -> Compared:
    reason = _incomparable(measure, paired)
    if reason:
        return Compared(measure.name, "not comparable", reason)
    it = sample(measure, paired.pairs, len(paired.nights))
    missing = len(paired.pairs) - len(it.cases)
    if len(it.cases) < 2 or missing > MOST_UNKNOWN * len(paired.pairs):
        return Compared(
            measure.name, "not comparable", f"known for {len(it.cases)} of {counted(len(paired.pairs), 'case')}"
        )
    margin = log1p(rules.ratio_margin) if measure.ratio else rules.margin
    judgement = judge(
        it.differences,
        margin,
        alpha,
        lower_is_worse=not measure.ratio,
        noise=it.noise,
        trials=it.trials,
        tails=(paired_ratios if measure.ratio else paired_cases)(it.differences, it.base, it.head, it.night),
        night=it.night,
    )
    floor = noise.of(it, measure.name, alpha)
    judgement = above_floor(judgement, floor, margin)
    suite = None if measure.ratio else judge_suite(it.strata, it.shared_cases, margin, alpha, it.strata_night)
    suite = None if suite is None else above_floor(suite, floor, margin)
    sizes = it.sizes
    return Compared(
        measure.name,
        suite.verdict if suite is not None and test == "within-cases" else judgement.verdict,
        base=float(it.base_means.mean()),
        head=float(it.head_means.mean()),
        trials=it.trials,
        base_trials=sizes[0],
        head_trials=sizes[1],
        judgement=judgement,
        this_suite=suite,
        night_sd=it.night.sd,
        floor=floor,
    )


def _incomparable(measure: Measure, paired: Pairing) -> str:
    if measure.name == "time" and not paired.one_machine:
        return "measured on more than one class of machines"
    if measure.name == "cost":
        base = money(record for it in paired.pairs for record in it.base)
        head = money(record for it in paired.pairs for record in it.head)
        if base != head or base == "paid and replayed":
            return f"base is {base}, head is {head}"
    return ""


def _together(deciding: Sequence[Compared]) -> Verdict:
    verdicts = {it.verdict for it in deciding}
    order: tuple[Verdict, ...] = (
        "regression",
        "not comparable",
        "inconclusive",
        "below the noise floor",
        "improvement",
        "no difference seen",
    )
    return next((verdict for verdict in order if verdict in verdicts), "no change")


def _case_changes(pairs: Sequence[Pair]) -> list[CaseChange]:
    counts = []
    for it in (own.of_shared_nights() for own in pairs):
        base, head = ([bool(record.success) for record in side] for side in (it.base, it.head))
        one, other = (sum(base), len(base)), (sum(head), len(head))
        counts.append((it.case, one, other, fisher(one, other)))
    adjusted = holm([p for *_, p in counts])
    found = [
        CaseChange(case, base, head, p, p_holm)
        for (case, base, head, p), p_holm in zip(counts, adjusted, strict=True)
        if base[0] * head[1] != head[0] * base[1]
    ]
    return sorted(found, key=lambda it: (it.p, it.case))


def fisher(base: tuple[int, int], head: tuple[int, int]) -> float:
    """The one-sided p-value of two rates (succeeded, of trials), in the direction in which head differs.

    Fisher's exact test (R. A. Fisher, JRSS 98, 1935): the chance of head's successes, or of fewer (where head is
    better: of more), given how many both sides have together.
    """
    total, n, m = base[0] + head[0], base[1], head[1]
    least, most = max(0, total - n), min(total, m)
    falls = head[0] * n <= base[0] * m
    counts = range(least, head[0] + 1) if falls else range(head[0], most + 1)
    return sum(comb(m, count) * comb(n, total - count) for count in counts) / comb(n + m, total)
