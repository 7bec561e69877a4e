"""`ml-dev-bench compare`: is HEAD better than BASE, worse or more expensive?"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Literal, NoReturn

import click

from bench.base.errors import EXIT_OK, UserError
from bench.cli.options import alpha, as_json, branch, filters, fraction, gathered, print_json, print_text, repository

if TYPE_CHECKING:
    from bench.stats import Chosen, Compared, Comparison, Filters, Judgement, Rules, SequentialState

# 2 is taken: by a wrong command, as everywhere.
_EXIT = {
    "improvement": EXIT_OK,
    "no change": EXIT_OK,
    "no difference seen": EXIT_OK,
    "regression": 1,
    "inconclusive": 3,
    "not comparable": 4,
}
_EXIT_BLIND = 5
# Of 0 to 1: that a gate may ask for with --require-power.
_ENOUGH_POWER = 0.75
_MEASURES = ("success", "score", "cost", "tokens", "time")
_MOST_FINDINGS = 10


@click.command()
@click.argument("base", metavar="BASE")
@click.argument("head", metavar="[HEAD]", default="")
@repository("Results repository: path or URL.")
@branch("Its branch.")
@filters("a set")
@click.option(
    "--gate",
    "gates",
    multiple=True,
    type=click.Choice(_MEASURES),
    help="Measures that decide; repeat for several. They share alpha.  [default: success]",
)
@fraction("--margin", 0.05, "Smallest difference of success or score that matters.")
@fraction("--ratio-margin", 0.10, "Smallest relative difference of cost, tokens or time that matters.", most=None)
@alpha("Chance of calling a regression where nothing changed.")
@click.option(
    "--test",
    type=click.Choice(["sign-flip", "within-cases"]),
    default="sign-flip",
    show_default=True,
    help="Which verdict decides: on cases like these (sign-flip), or on this suite alone (within-cases).",
)
@click.option(
    "--history/--no-history",
    "history",
    default=True,
    help="Add the base agent's comparable records of other nights, where --results is given.",
)
@click.option(
    "--require-power",
    "drop_points",
    type=click.FloatRange(0, 100, min_open=True),
    metavar="POINTS",
    help="Exit with 5 unless a drop of so many points of success would have been seen with 75% chance.",
)
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(["coverage", "limits", "machine"]),
    help="Compare although this differs; repeat for several.",
)
@as_json("Print everything as one JSON object.")
@gathered("rules", "bench.stats:Rules", "margin ratio_margin alpha")
def compare(
    base: str,
    head: str,
    repository: str,
    branch: str,
    filters: Filters,
    gates: tuple[str, ...],
    rules: Rules,
    test: Literal["sign-flip", "within-cases"],
    history: bool,
    drop_points: float | None,
    allow: tuple[Literal["coverage", "limits", "machine"], ...],
    as_json: bool,
) -> None:
    """Is the agent of HEAD better than that of BASE, worse, or more expensive?

    BASE and HEAD each name a set of records: the folder of a run; a file of records (JSON lines); or, on the results
    branch (--results), a run's NAME, an agent's ID (its newest version) or ID@COMMIT. Where a name is both, say
    run:NAME or agent:ID.

    \b
    ml-dev-bench compare runs/before runs/after
    ml-dev-bench compare react@1f0c2aa react@9b41d7e --results results.git
    ml-dev-bench compare react nightly-20261121 --agent react --results https://github.com/o/r

    A run with two arms (`run --base`) is named alone: its base is compared with its head. RUN:base or RUN:head is one
    arm. Where the run stops when decided, its looks at success decide, and until they have there is no verdict.

    Cases are paired. Both sides must have the same profile, suite version, cases and case digests, judge, limits,
    model and machine class, or they are not comparable. Run both in one night: what a night does to all trials then
    falls out of the difference, and counts as error otherwise. What the numbers mean: docs/statistics.md.

    \b
    Exit status, by the measures that decide (--gate):
      0  no change, no difference seen, or improvement
      1  regression
      2  the command is wrong
      3  inconclusive: the answer says what would decide
      4  not comparable, and the answer says why
      5  no regression, but the power that --require-power asks for is not reached
    """
    from bench.cli.stored import stored_records
    from bench.stats import choose_arm, compare_records, sequential_state, with_history

    sides = (base, head) if head else (f"{base}:base", f"{base}:head")
    with stored_records(repository, branch) as stored:
        one, other = (choose_arm(side, stored, filters) for side in sides)
        state = sequential_state([*one.records, *other.records])
        pooled = history and repository and state is None
        records = with_history(one, other, stored, filters) if pooled else one.records
    deciding = tuple(dict.fromkeys(gates)) or ("success",)
    drop = None if drop_points is None else drop_points / 100
    answer = compare_records(records, other.records, rules=rules, gates=deciding, test=test, allow=allow, drop=drop)
    if state is not None:
        tell_sequential(state, one, other, answer, as_json=as_json)
    if as_json:
        click.echo(as_document(one, other, answer))
    else:
        print_text(as_text(one, other, answer))
    sys.exit(_exit_code(answer))


def _exit_code(answer: Comparison) -> int:
    quiet = answer.verdict in ("no change", "no difference seen", "inconclusive")
    return _EXIT_BLIND if quiet and _is_blind(answer) else _EXIT[answer.verdict]


def _is_blind(answer: Comparison) -> bool:
    """Could a drop that matters to the gate have been missed too easily?"""
    return answer.power is not None and answer.power < _ENOUGH_POWER


def tell_sequential(
    state: SequentialState, base: Chosen, head: Chosen, answer: Comparison, *, as_json: bool
) -> NoReturn:
    """Print what the looks decided, or why they have not, and end: no other test may decide of what they stopped."""
    import json

    from bench.report import sequential_document, sequential_lines

    if set(answer.gates) != {"success"}:
        remedy = "leave --gate out, or run both arms without --until-decided"
        raise UserError("the looks were at success alone", where="--gate", remedy=remedy)
    verdict = state.verdict or "no verdict"
    if as_json:
        whole = json.loads(as_document(base, head, answer)) if state.verdict else {"schema": 1}
        print_json({**whole, "verdict": verdict, "sequential": sequential_document(state)})
    else:
        print_text("\n".join([verdict.upper(), *sequential_lines(state)]))
        if state.verdict:
            # Without the title, which is the verdict of a test that knows nothing of the looks.
            described = as_text(base, head, answer).partition("\n")[2]
            print_text(f"what follows describes the data, and does not decide:\n{described}")
    sys.exit({"regression": 1, "undecided": 3, "no verdict": 3}.get(verdict, EXIT_OK))


def as_document(base: Chosen, head: Chosen, answer: Comparison) -> str:
    """Everything as JSON."""
    import json

    sides = {
        name: {"label": side.label, **asdict(side.entrant), "records": len(side.records)}
        for name, side in (("base", base), ("head", head))
    }
    # Properties, which asdict() leaves out.
    derived = {it.measure: (it.factor, it.open_drop) for it in answer.measures}
    document = {"schema": 1, **sides, **asdict(answer)}
    for measure in document["measures"]:
        measure["factor"], measure["open_drop"] = derived[measure["measure"]]
    return json.dumps(document, indent=1, allow_nan=False)


def as_text(base: Chosen, head: Chosen, answer: Comparison) -> str:
    """For a person at a terminal."""
    from bench.base.text import printable
    from bench.report import table

    scope = "this suite" if answer.test == "within-cases" else "cases like these"
    lines = [
        f"{answer.verdict.upper()} (by {', '.join(answer.gates)}; {scope})",
        f"base  {base.label}",
        f"head  {head.label}",
    ]
    lines += [f"not comparable: {reason}" for reason in answer.reasons]
    if answer.measures:
        who = base.entrant
        lines.append(f"{answer.cases} cases in pairs; profile {who.profile}, {who.model or 'no model'}")
        lines += ["", *table([row for it in answer.measures for row in _measure_rows(it)]).splitlines()]
    if answer.power is not None and answer.drop is not None:
        enough = "less than" if _is_blind(answer) else "at least"
        lines += [
            "",
            f"power: a drop of {100 * answer.drop:g} points is called a regression with {answer.power:.0%} chance,"
            f" {enough} the {_ENOUGH_POWER:.0%} that --require-power asks for",
        ]
    if answer.findings:
        lines += ["", *_finding_lines(answer)]
    lines += [f"note: {note}" for note in answer.notes]
    return "\n".join(printable(line) for line in lines)


def _measure_rows(it: Compared) -> list[tuple[str, str]]:
    from bench.stats import Needed

    if it.judgement is None:
        return [(it.measure, f"{it.verdict}: {it.reason}")]
    found = it.judgement
    base, head = f"{it.base_trials:.3g}", f"{it.head_trials:.3g}"
    trials = f"{base} trials" if base == head else f"{base} base and {head} head trials"
    if it.this_suite is None:
        return [(it.measure, f"{found.verdict}: {_change(it)}; {_chances(found)}; n = {found.n} cases x {trials}")]
    rows = [(it.measure, f"{it.base:.3f} -> {it.head:.3f}; n = {found.n} cases x {trials}")]
    for name, own in (("cases like these", found), ("this suite", it.this_suite)):
        rows.append(("", f"{name}: {own.verdict}, {_points(own)}; {_chances(own)}"))
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
    return f"{it.base:.4g} -> {it.head:.4g}, x {it.factor:.3f}{span}"


def _needed(it: Compared) -> str:
    assert it.judgement is not None and it.judgement.needed is not None
    trials, cases = it.judgement.needed.trials, it.judgement.needed.cases
    options = []
    if trials is not None:
        options.append(f"about {trials} trials a case and side on these {it.judgement.n} cases")
    if cases is not None:
        options.append(f"about {cases} such cases with {it.trials:.3g} trials")
    if not options:
        return "the difference is too close to the margin for any reasonable number of trials to decide"
    return f"{' or '.join(options)} would decide (with 80% chance, if the difference is as it looks)"


def _finding_lines(answer: Comparison) -> list[str]:
    from bench.report import table

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
