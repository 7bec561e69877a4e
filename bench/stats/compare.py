"""Is HEAD better than BASE, worse or more expensive? Two sets of records, paired by case."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from math import comb, exp, log1p
from typing import Literal

from bench.formats.record import Record
from bench.stats.pairing import MEASURES, Allowance, Measure, Pair, Pairing, Sample, money, pair, sample
from bench.stats.tests import DEFAULT_RULES, Judgement, Rules, Tails, Verdict, holm, judge, within_cases

Test = Literal["sign-flip", "within-cases"]


@dataclass(frozen=True)
class Compared:
    """One measure."""

    measure: str
    verdict: Verdict
    reason: str = ""
    """Why it is not comparable."""
    base: float | None = None
    """Mean over the paired cases of the mean of each case's trials."""
    head: float | None = None
    trials: float = 0.0
    """A case and side, on average."""
    judgement: Judgement | None = None
    these_cases: Tails | None = None
    """Of success and score: the test that speaks of these very cases alone (`within_cases`)."""

    @property
    def factor(self) -> float | None:
        """Head over base, of a ratio: the geometric mean over cases."""
        known = self.judgement is not None and MEASURES[self.measure].ratio
        return exp(self.judgement.difference) if known and self.judgement else None


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


def compare_records(
    base: Iterable[Record],
    head: Iterable[Record],
    *,
    rules: Rules = DEFAULT_RULES,
    gates: Sequence[str] = ("success",),
    test: Test = "sign-flip",
    allow: Collection[Allowance] = (),
) -> Comparison:
    """Compare two sets of records, each of one agent with its models in one profile.

    `gates`: names of `MEASURES`; they decide together, each at `rules.alpha` divided by their number (Bonferroni), so
    that several do not cry wolf more often than one.
    """
    paired = pair(base, head, allow)
    alpha = rules.alpha / len(gates)
    if paired.reasons:
        return Comparison("not comparable", paired.reasons, paired.notes, 0, gates, alpha, rules, test)
    measures = [_compare_measure(measure, paired, rules, alpha, test) for measure in MEASURES.values()]
    return Comparison(
        verdict=_together([it for it in measures if it.measure in gates]),
        reasons=[],
        notes=paired.notes,
        cases=len(paired.pairs),
        gates=gates,
        alpha=alpha,
        rules=rules,
        test=test,
        measures=measures,
        findings=_case_changes(paired.pairs),
    )


def _compare_measure(measure: Measure, paired: Pairing, rules: Rules, alpha: float, test: Test) -> Compared:
    reason = _incomparable(measure, paired)
    if reason:
        return Compared(measure.name, "not comparable", reason)
    it = sample(measure, paired.pairs)
    if len(it.cases) < 2:
        return Compared(measure.name, "not comparable", f"known for {len(it.cases)} cases; two are the least")
    margin = log1p(rules.ratio_margin) if measure.ratio else rules.margin
    these = None if measure.ratio else within_cases(it.base, it.head)
    judgement = judge(
        it.differences,
        margin,
        alpha,
        lower_is_worse=not measure.ratio,
        noise=it.noise,
        trials=it.trials,
        tails=these if test == "within-cases" else None,
    )
    return Compared(
        measure.name,
        judgement.verdict,
        base=_grand_mean(it, 0),
        head=_grand_mean(it, 1),
        trials=it.trials,
        judgement=judgement,
        these_cases=these,
    )


def _incomparable(measure: Measure, paired: Pairing) -> str:
    if measure.name == "time" and not paired.one_machine:
        return "measured on more than one class of machines"
    if measure.name == "cost":
        base, head = (money(trial[side] for it in paired.pairs for trial in it.trials) for side in (0, 1))
        if base != head or base == "paid and replayed":
            return f"base is {base}, head is {head}"
    return ""


def _grand_mean(it: Sample, side: int) -> float:
    values = it.head if side else it.base
    return sum(float(trials.mean()) for trials in values) / len(values)


def _together(deciding: Sequence[Compared]) -> Verdict:
    verdicts = {it.verdict for it in deciding}
    order: tuple[Verdict, ...] = ("regression", "not comparable", "inconclusive", "improvement")
    return next((verdict for verdict in order if verdict in verdicts), "no change")


def _case_changes(pairs: Sequence[Pair]) -> list[CaseChange]:
    counts = []
    for it in pairs:
        n = len(it.trials)
        base, head = (sum(bool(trial[side].success) for trial in it.trials) for side in (0, 1))
        counts.append((it.case, (base, n), (head, n), fisher(min(base, head), max(base, head), n)))
    adjusted = holm([p for *_, p in counts])
    found = [
        CaseChange(case, base, head, p, p_holm)
        for (case, base, head, p), p_holm in zip(counts, adjusted, strict=True)
        if base != head
    ]
    return sorted(found, key=lambda it: (it.p, it.case))


def fisher(fewer: int, more: int, n: int) -> float:
    """The chance of `fewer` successes or less on one of two sides of n trials, given `fewer + more` on both.

    Fisher's exact test, one-sided (R. A. Fisher, JRSS 98, 1935).
    """
    total = fewer + more
    ways = sum(comb(total, count) * comb(2 * n - total, n - count) for count in range(max(0, total - n), fewer + 1))
    return ways / comb(2 * n, n)
