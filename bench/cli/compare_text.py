"""What `compare` prints for people: verdicts, findings, the noise floor, and what one factor does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.text import counted, printable
from bench.report import table

if TYPE_CHECKING:
    from bench.stats import (
        Chosen,
        Compared,
        Comparison,
        Correlation,
        FactorEffects,
        Interaction,
        Interval,
        Judgement,
        Losses,
        MeasureEffects,
    )

ENOUGH_POWER = 0.75
"""Of 0 to 1: that a gate may ask for with --require-power."""
_MOST_FINDINGS = 10


def is_blind(answer: Comparison) -> bool:
    """Could a drop that matters to the gate have been missed too easily?"""
    return answer.power is not None and answer.power < ENOUGH_POWER


def as_text(base: Chosen, head: Chosen, answer: Comparison) -> str:
    """For a person at a terminal."""
    scope = "this suite" if answer.test == "within-cases" else "cases like these"
    lines = [
        f"{answer.verdict.upper()} (by {', '.join(answer.gates)}; {scope})",
        f"base  {base.label}",
        f"head  {head.label}",
    ]
    lines += [f"not comparable: {reason}" for reason in answer.reasons]
    if answer.measures:
        who = base.entrant
        lines.append(f"{counted(answer.cases, 'case')} in pairs; profile {who.profile}, {who.model or 'no model'}")
        lines += ["", *table([row for it in answer.measures for row in _measure_rows(it)]).splitlines()]
    if answer.power is not None and answer.drop is not None:
        enough = "less than" if is_blind(answer) else "at least"
        lines += [
            "",
            f"power: a drop of {100 * answer.drop:g} points is called a regression with {answer.power:.0%} chance,"
            f" {enough} the {ENOUGH_POWER:.0%} that --require-power asks for",
        ]
    if answer.findings:
        lines += ["", *_finding_lines(answer)]
    if answer.noise is not None:
        lines += ["", *_noise_lines(answer)]
    lines += [f"note: {note}" for note in answer.notes]
    return "\n".join(printable(line) for line in lines)


def _measure_rows(it: Compared) -> list[tuple[str, str]]:
    from bench.stats import Needed

    if it.judgement is None:
        return [(it.measure, f"{it.verdict}: {it.reason}")]
    found = it.judgement
    base, head = f"{it.base_trials:.3g}", f"{it.head_trials:.3g}"
    trials = f"{base} trial{'s' * (base != '1')}" if base == head else f"{base} base and {head} head trials"
    if it.this_suite is None:
        return [
            (
                it.measure,
                f"{found.verdict}: {_change(it)}; {_chances(found)}; n = {counted(found.n, 'case')} x {trials}",
            ),
            *_hidden(it),
        ]
    rows = [(it.measure, f"{it.base:.3f} -> {it.head:.3f}; n = {counted(found.n, 'case')} x {trials}")]
    for name, own in (("cases like these", found), ("this suite", it.this_suite)):
        of = f" ({own.n} of {counted(found.n, 'case')} share a night)" if own.n < found.n else ""
        rows.append(("", f"{name}{of}: {own.verdict}, {_points(own)}; {_chances(own)}"))
    rows += _hidden(it)
    if found.verdict == "no difference seen" and it.open_drop is not None:
        rows.append(
            ("", f"so few cases and trials cannot exclude a drop of up to {100 * it.open_drop:.1f} points (95%)")
        )
    if found.verdict == "inconclusive":
        if it.night_sd:
            apart = f"{100 * it.night_sd:.1f} points"
            rows.append(("", f"nights alone add a standard error of {apart}: run both arms in one night"))
        if not it.night_sd or found.needed != Needed(None, None):
            rows.append(("", _needed(it)))
    return rows


def _chances(found: Judgement) -> str:
    test = "exact" if found.draws is None else f"{found.draws:,} draws"
    return f"p(worse) {_p(found.p_worse)}, p(better) {_p(found.p_better)} ({test})"


def _points(found: Judgement) -> str:
    interval = found.interval
    span = f" [{100 * interval.low:+.1f}, {100 * interval.high:+.1f}]" if interval else ""
    return f"{100 * found.difference:+.1f}{span} points{' (95%)' if interval else ''}"


def _change(it: Compared) -> str:
    from math import exp

    assert it.judgement is not None and it.base is not None and it.head is not None
    interval = it.judgement.interval
    span = f" [{exp(interval.low):.3f}, {exp(interval.high):.3f}] (95%)" if interval else ""
    base, head = (_with_unit(it.measure, value) for value in (it.base, it.head))
    return f"{base} -> {head} a trial, x {it.factor:.3f}{span}"


def _with_unit(measure: str, value: float) -> str:
    return {"cost": f"${value:.4g}", "time": f"{value:.4g} s"}.get(measure, f"{value:,.0f}")


def _needed(it: Compared) -> str:
    assert it.judgement is not None and it.judgement.needed is not None
    trials, cases = it.judgement.needed.trials, it.judgement.needed.cases
    options = []
    if trials is not None:
        options.append(f"about {counted(trials, 'trial')} a case and side on these {counted(it.judgement.n, 'case')}")
    if cases is not None:
        options.append(f"about {cases} such cases with {it.trials:.3g} trials")
    if not options:
        return "the difference is too close to the margin for any reasonable number of trials to decide"
    return f"{' or '.join(options)} would decide (with 80% chance, if the difference is as it looks)"


def _finding_lines(answer: Comparison) -> list[str]:
    lines = [f"{len(answer.findings)} of {answer.cases} cases differ; advisory, p adjusted for looking at all (Holm):"]
    rows = [
        (it.case, f"{it.base[0]}/{it.base[1]} -> {it.head[0]}/{it.head[1]}", f"p {_p(it.p)}, adjusted {_p(it.p_holm)}")
        for it in answer.findings[:_MOST_FINDINGS]
    ]
    lines += table(rows).splitlines()
    if len(answer.findings) > _MOST_FINDINGS:
        lines.append(f"  and {len(answer.findings) - _MOST_FINDINGS} more (--json has all)")
    return lines


def _p(value: float) -> str:
    return "< 0.0001" if value < 0.0001 else f"= {value:.4f}" if value < 0.1 else f"= {value:.2f}"


def _hidden(it: Compared) -> list[tuple[str, str]]:
    """Why a change is not called that the test would have called."""
    if it.floor is None or "below the noise floor" not in {own.verdict for own in (it.judgement, it.this_suite) if own}:
        return []
    return [("", f"equal agents differ by up to {_floor(it)} on such machines: less than that is not called")]


def _floor(it: Compared) -> str:
    from math import expm1

    from bench.stats import MEASURES

    assert it.floor is not None
    return f"{100 * expm1(it.floor):.1f}%" if MEASURES[it.measure].ratio else f"{100 * it.floor:.1f} points"


def _noise_lines(answer: Comparison) -> list[str]:
    noise = answer.noise
    assert noise is not None
    lost = [f"{name} {_lost(it)}" for name, it in zip(("base", "head"), answer.losses or (), strict=False)]
    if noise.runs:
        floors = ", ".join(f"{it.measure} {_floor(it)}" for it in answer.measures if it.floor is not None)
        count = f"{len(noise.runs)} A/A run{'s' if len(noise.runs) > 1 else ''}"
        lines = [
            f"noise floor of machine class {noise.machine}, by {count} ({', '.join(noise.runs)}): {floors}",
            "  equal agents differ by more, in one direction, in 1 of 20 comparisons of this size"
            if answer.alpha == 0.05
            else f"  equal agents differ by more, in one direction, in {answer.alpha:.2%} of comparisons of this size",
        ]
        lost.append(f"A/A {_lost(noise.losses)}")
    elif noise.machine:
        lines = [
            f"noise floor: no A/A run of machine class {noise.machine} is known; to measure it, run an agent against"
            " itself (`run --base`) and name that run with --noise"
        ]
    else:
        lines = ["noise floor: the records are of several machine classes, and have none"]
    lines += [f"  A/A run left out: {it}" for it in noise.left_out]
    return [*lines, f"lost to infrastructure: {'; '.join(lost)}"]


def _lost(it: Losses) -> str:
    rate = it.rate
    span = f", {100 * rate.mean:.1f}%{_span(rate.interval)}" if rate is not None and it.lost else ""
    return f"{it.lost} of {counted(it.cells, 'cell')}{span}"


def _span(interval: Interval | None, scale: float = 100, sign: str = "") -> str:
    return f" [{scale * interval.low:{sign}.1f}, {scale * interval.high:{sign}.1f}]" if interval else ""


def factor_text(variable: str, values: tuple[str, str], found: FactorEffects) -> str:
    """Of --factor: what the setting does case by case, with difficulty, and by kind."""
    base, head = (value or "(not set)" for value in values)
    lines = ["", f"factor {variable}: base {base}, head {head}; effects are head less base, in points [95%]"]
    rows = [
        (
            it.case,
            it.kind or "-",
            "-" if it.difficulty is None else f"{it.difficulty:.2f}",
            f"{it.base[0]}/{it.base[1]} -> {it.head[0]}/{it.head[1]}",
            f"{100 * it.success:+.0f}{_span(it.success_interval, sign='+')}",
            f"{100 * it.score:+.0f}{_span(it.score_interval, sign='+')}",
        )
        for it in found.cases
    ]
    lines += table(rows, header=("case", "kind", "difficulty", "succeeded", "success", "score")).splitlines()
    lines += [line for it in found.measures for line in _effect_lines(it)]
    if found.agents:
        lines.append(f"difficulty is 1 less the mean of other agents: {', '.join(found.agents)}")
    else:
        lines.append("difficulty is taken from the arms' own trials, each from other ones than its effect")
    return "\n".join(printable(line) for line in [*lines, *(f"note: {note}" for note in found.notes)])


def _effect_lines(it: MeasureEffects) -> list[str]:
    lines = ["", f"{it.measure}: interaction with difficulty: {_interaction(it.interaction)}"]
    for slope in it.interaction.slopes:
        flat = "" if slope.reliability is None else f"; reliability of the difficulty {slope.reliability:.2f}"
        lines.append(
            f"  by {slope.by}: for each 10 points of difficulty the effect is {10 * slope.slope:+.1f}"
            f"{_span(slope.interval, 10, '+')} points larger; p {_p(slope.p)}; n = {counted(slope.cases, 'case')}{flat}"
        )
    lines += [
        f"  {kind.kind}: {100 * kind.effect:+.1f}{_span(kind.interval, sign='+')} points; "
        f"n = {counted(kind.cases, 'case')}"
        for kind in it.kinds
    ]
    if it.contrast is not None:
        far = f"{100 * it.contrast.difference:+.1f}{_span(it.contrast.interval, sign='+')} points"
        lines.append(f"  open-ended less canonical: {far}; p {_p(it.contrast.p)}")
    if it.kind_and_difficulty is not None:
        lines.append(f"  being open-ended correlates with difficulty: {_correlation(it.kind_and_difficulty, 'cases')}")
    if it.canonical_and_open_ended is not None:
        about = _correlation(it.canonical_and_open_ended, "agents")
        lines.append(f"  canonical and open-ended means correlate over agents: {about}")
    return lines


def _interaction(it: Interaction) -> str:
    return f"{it.verdict}: {it.reason}" if it.reason else it.verdict


def _correlation(it: Correlation, of: str) -> str:
    span = f" [{it.interval.low:+.2f}, {it.interval.high:+.2f}]" if it.interval else ""
    return f"r = {it.r:+.2f}{span}; n = {it.n} {of}"
