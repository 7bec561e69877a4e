"""What one component of an agent does: case by case, with the difficulty of cases, and by their kind.

Effects are those of head less base. A difficulty that is taken from the trials that the effect is taken from
makes an interaction where there is none, because a case that was unlucky for base looks hard and gains (regression
to the mean; Oldham, J. Chronic Diseases 15, 1962). Here no trial is on both sides: `Slope`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from bench.formats.record import Record
from bench.stats.comparable import Pair, Pairing
from bench.stats.effects import (
    KINDS,
    CaseEffect,
    FactorEffects,
    Interaction,
    KindEffect,
    MeasureEffects,
    OneOf,
    Slope,
)
from bench.stats.entrants import entrant_of, unique_cells
from bench.stats.intervals import (
    LEVEL,
    Correlation,
    Floats,
    Interval,
    between,
    clustered,
    contrast,
    correlation,
    difference_intervals,
    wilson,
)
from bench.stats.pairing import MEASURES, Measure
from bench.stats.tests import fit_slope

LEAST_CASES = 10
"""For an interaction."""
LEAST_AGENTS = 4
"""For a correlation over agents: with three, Fisher's z has no error."""


def factor_faults(base: Iterable[Record], head: Iterable[Record]) -> list[str]:
    """What differs between two sets besides the agents: nothing between two agents of the same runs."""
    one, other = unique_cells(base), unique_cells(head)
    found = []
    runs = [{record.provenance.run for record in side} for side in (one, other)]
    if runs[0] != runs[1]:
        found.append("factor: base and head are of different runs; run both as arms of one (run --base)")
    for name in ("seed_secret", "sandbox", "isolated", "image", "bench_version"):
        values = [{getattr(record.provenance, name, "") for record in side} for side in (one, other)]
        if values[0] != values[1]:
            found.append(f"factor: {name} is not the same for base and head")
    for name, side in (("base", one), ("head", other)):
        if len({(record.agent.id, record.agent.digest) for record in side}) > 1:
            found.append(f"factor: {name} holds several versions of its agent")
    return found


def factor_effects(
    paired: Pairing, others: Iterable[Record], kinds: Mapping[str, str], alpha: float
) -> FactorEffects | None:
    """What the records of `paired` say, which differ in one setting of one agent; None where nothing is comparable.

    others: records of any agents; difficulty is taken from those that are not the arms' own and know every case.
    kinds: of cases by id. alpha: two-sided level of the interaction.
    """
    pairs = [it.of_shared_nights() for it in paired.pairs]
    if not pairs:
        return None
    agents, notes = _other_agents(pairs, others)
    difficulty = _difficulty(MEASURES["success"], pairs, agents)
    shared = all(set(it.base_nights) & set(it.head_nights) for it in pairs)
    return FactorEffects(
        [_case_effect(it, kinds, None if difficulty is None else difficulty[n]) for n, it in enumerate(pairs)],
        sorted(agents),
        notes,
        [_measure_effects(MEASURES[name], pairs, agents, kinds, alpha, shared) for name in ("success", "score")],
    )


def _other_agents(
    pairs: Sequence[Pair], others: Iterable[Record]
) -> tuple[dict[str, dict[str, list[Record]]], list[str]]:
    """Graded records by agent and case, of the agents that know every case; and who was left out."""
    own = {_who(record) for it in pairs for record in (*it.base, *it.head)}
    versions = {it.case: it.base[0].case_version for it in pairs}
    profile = pairs[0].base[0].profile
    found: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    arms = False
    for record in unique_cells(others):
        if _who(record) in own:
            arms = True
        elif record.competes and record.profile == profile and record.outcome == "graded":
            known = found[_label(record)]
            if versions.get(record.case.id) == record.case_version:
                known[record.case.id].append(record)
    complete = {name: cases for name, cases in found.items() if len(cases) == len(versions)}
    notes = [
        f"difficulty: {name} was not graded on every case, and is left out"
        for name in sorted(found)
        if name not in complete
    ]
    if arms:
        notes.append("difficulty: records of the compared agents are left out")
    return complete, notes


def _who(record: Record) -> tuple[str, str, str]:
    return record.agent.id, record.agent.digest, entrant_of(record).model


def _label(record: Record) -> str:
    agent, digest, model = _who(record)
    return f"{agent} {digest[7:19]} ({model or 'no model'})"


def _values(measure: Measure, records: Iterable[Record]) -> Floats:
    return np.array([measure.value(record) for record in records], dtype=np.float64)


def _agent_means(measure: Measure, pairs: Sequence[Pair], cases: Mapping[str, Sequence[Record]]) -> Floats:
    """(cases,): of one agent."""
    return np.array([_values(measure, cases[it.case]).mean() for it in pairs], dtype=np.float64)


def _difficulty(
    measure: Measure, pairs: Sequence[Pair], agents: Mapping[str, Mapping[str, Sequence[Record]]]
) -> Floats | None:
    """(cases,): 1 less the mean over the other agents."""
    means = [_agent_means(measure, pairs, cases) for cases in agents.values()]
    found: Floats = 1 - np.mean(means, axis=0) if means else np.zeros(0)
    return found if means else None


def _case_effect(it: Pair, kinds: Mapping[str, str], difficulty: float | None) -> CaseEffect:
    success, score = ([_values(MEASURES[name], side) for side in (it.base, it.head)] for name in ("success", "score"))
    rates = [wilson(float(values.mean()), len(values)) for values in success]
    means = [clustered([float(value) for value in values]) for values in score]
    (base, head), (low, high) = success, score
    return CaseEffect(
        case=it.case,
        kind=kinds.get(it.case, ""),
        base=(int(base.sum()), len(base)),
        head=(int(head.sum()), len(head)),
        success=float(head.mean() - base.mean()),
        success_interval=between(float(base.mean()), rates[0], float(head.mean()), rates[1]),
        score=float(high.mean() - low.mean()),
        score_interval=between(float(low.mean()), means[0], float(high.mean()), means[1])
        if means[0] is not None and means[1] is not None
        else None,
        difficulty=None if difficulty is None else float(difficulty),
    )


def _measure_effects(
    measure: Measure,
    pairs: Sequence[Pair],
    agents: Mapping[str, Mapping[str, Sequence[Record]]],
    kinds: Mapping[str, str],
    alpha: float,
    shared: bool,
) -> MeasureEffects:
    base, head = (
        [_values(measure, side) for side in sides] for sides in zip(*((it.base, it.head) for it in pairs), strict=True)
    )
    effects = np.array([h.mean() - b.mean() for b, h in zip(base, head, strict=True)])
    difficulty = _difficulty(measure, pairs, agents)
    if not shared:
        interaction = Interaction("not tested", "base and head share no night", [])
    elif difficulty is not None:
        interaction = by_others(effects, difficulty, _reliability(measure, pairs, agents), alpha)
    else:
        interaction = by_arms(base, head, alpha)
    open_ended = np.array([KINDS.index(kinds[it.case]) if kinds.get(it.case) in KINDS else np.nan for it in pairs])
    if difficulty is None:
        difficulty = np.array([1 - (b.mean() + h.mean()) / 2 for b, h in zip(base, head, strict=True)])
    known = np.isfinite(open_ended)
    means = [_agent_means(measure, pairs, cases) for cases in agents.values()]
    means.append(np.array([values.mean() for values in base]))
    return MeasureEffects(
        measure.name,
        interaction,
        [_kind_effect(kind, effects[open_ended == n]) for n, kind in enumerate(KINDS) if (open_ended == n).any()],
        contrast(effects[open_ended == 0], effects[open_ended == 1]) if shared else None,
        correlation(open_ended[known], difficulty[known]),
        _over_agents(means, open_ended),
    )


def _kind_effect(kind: str, effects: Floats) -> KindEffect:
    return KindEffect(kind, len(effects), float(effects.mean()), difference_intervals(effects, [LEVEL])[0])


def _over_agents(means: Sequence[Floats], open_ended: Floats) -> Correlation | None:
    if len(means) < LEAST_AGENTS or not ((open_ended == 0).any() and (open_ended == 1).any()):
        return None
    one, other = (np.array([values[open_ended == kind].mean() for values in means]) for kind in (0, 1))
    return correlation(one, other)


def by_others(effects: Floats, difficulty: Floats, reliability: float | None, alpha: float) -> Interaction:
    """Of `effects` with the `difficulty` that other agents met, both of shape (cases,)."""
    slope = _slope(
        "other agents", [np.array([it]) for it in difficulty], [np.array([it]) for it in effects], reliability
    )
    return _interaction([slope], alpha)


def by_arms(base: Sequence[Floats], head: Sequence[Floats], alpha: float) -> Interaction:
    """Of the effects with the difficulty that either arm met: the trials of each case."""
    slopes = []
    names: tuple[OneOf, OneOf] = ("base", "head")
    for name, own, other, sign in ((names[0], base, head, 1.0), (names[1], head, base, -1.0)):
        known = [n for n, values in enumerate(own) if len(values) > 1]
        # What the others of a case's trials say of its difficulty, and the trial itself of the effect.
        x = [1 - (own[n].sum() - own[n]) / (len(own[n]) - 1) for n in known]
        y = [sign * (other[n].mean() - own[n]) for n in known]
        means = np.array([own[n].mean() for n in known])
        noise = [float(own[n].var(ddof=1)) for n in known]
        sizes = [len(own[n]) for n in known]
        slopes.append(_slope(name, x, y, _reliable(means, noise, sizes, [size - 1 for size in sizes])))
    return _interaction(slopes, alpha)


def _slope(by: OneOf, x: Sequence[Floats], y: Sequence[Floats], reliability: float | None) -> Slope | str:
    """The slope, or why there is none."""
    from scipy.special import stdtrit

    if len(x) < LEAST_CASES:
        counted = "cases" if by == "other agents" else f"cases with two trials of {by}"
        return f"{len(x)} {counted}; {LEAST_CASES} are the least"
    fitted = fit_slope(x, y)
    if fitted is None:
        return "the effect is the same on every case, or all cases but one are equally difficult"
    reach = fitted.error * float(stdtrit(fitted.freedom, (1 + LEVEL) / 2))
    interval = Interval(fitted.slope - reach, fitted.slope + reach)
    return Slope(by, len(x), fitted.slope, interval, fitted.p, reliability)


def _interaction(slopes: Sequence[Slope | str], alpha: float) -> Interaction:
    found = [it for it in slopes if isinstance(it, Slope)]
    if len(found) < len(slopes):
        return Interaction("not tested", next(it for it in slopes if isinstance(it, str)), [])
    signs = {it.slope > 0 for it in found}
    if len(signs) > 1 or any(it.p >= alpha for it in found):
        return Interaction("not shown", "", found)
    return Interaction("more on hard cases" if signs.pop() else "more on easy cases", "", found)


def _reliability(
    measure: Measure, pairs: Sequence[Pair], agents: Mapping[str, Mapping[str, Sequence[Record]]]
) -> float | None:
    """Of the difficulty by other agents: Cronbach's alpha (Psychometrika 16, 1951); of one agent, by its trials."""
    table = np.array([_agent_means(measure, pairs, cases) for cases in agents.values()])
    many = len(table)
    if many > 1:
        whole = float(table.sum(axis=0).var(ddof=1))
        parts = float(table.var(axis=1, ddof=1).sum())
        return max(0.0, many / (many - 1) * (1 - parts / whole)) if whole else None
    (cases,) = agents.values()
    values = [_values(measure, cases[it.case]) for it in pairs]
    if min(map(len, values)) < 2:
        return None
    sizes = [len(own) for own in values]
    return _reliable(table[0], [float(own.var(ddof=1)) for own in values], sizes, sizes)


def _reliable(means: Floats, noise: Sequence[float], sizes: Sequence[int], used: Sequence[int]) -> float | None:
    """The variance between cases over that of means of `used` trials; `noise`: of one trial, for each case.

    One-way analysis of variance, method of moments (Searle, Casella and McCulloch, Variance Components, 1992).
    """
    if len(means) < 2:
        return None
    per_mean = float(np.mean([one / n for one, n in zip(noise, sizes, strict=True)]))
    true = max(0.0, float(means.var(ddof=1)) - per_mean)
    seen = true + float(np.mean([one / n for one, n in zip(noise, used, strict=True)]))
    return true / seen if seen else None
