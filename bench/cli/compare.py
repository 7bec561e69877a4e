"""`ml-dev-bench compare`: is HEAD better than BASE, worse or more expensive?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NoReturn

import click

from bench.base.errors import EXIT_OK, UserError
from bench.cli.options import CASES, PATH, Number, alpha, as_json, branch, filters, fraction, gathered, repository
from bench.cli.printing import print_json, print_text

if TYPE_CHECKING:
    from bench.cli.compare_factor import Ask, Factor
    from bench.formats.record import Record
    from bench.stats import Chosen, Comparison, FactorEffects, Filters, Rules, SequentialState

# 2 is taken: by a wrong command, as everywhere.
_EXIT = {
    "improvement": EXIT_OK,
    "no change": EXIT_OK,
    "no difference seen": EXIT_OK,
    "regression": 1,
    "below the noise floor": 3,
    "inconclusive": 3,
    "not comparable": 4,
}
_EXIT_BLIND = 5
_MEASURES = ("success", "score", "cost", "tokens", "time")


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
    type=Number(0, 100, min_open=True),
    metavar="POINTS",
    help="Exit with 5 unless a drop of so many points of success would have been seen with 75% chance.",
)
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(["coverage", "limits", "machine"]),
    help="Compare although this differs; repeat for several.",
)
@click.option(
    "--noise",
    "noise",
    multiple=True,
    metavar="RUN",
    help="A run of one agent against itself, for the noise floor; with --results the stored ones are found.",
)
@click.option(
    "--factor",
    metavar="NAME=BASE,HEAD",
    help="Say what one variable of the agent's environment does, by case and difficulty; nothing else may differ.",
)
@click.option(
    "--difficulty",
    multiple=True,
    metavar="SET",
    help="With --factor: records of other agents, which tell how hard a case is; repeat for several.",
)
@click.option(
    "--variant",
    "variants",
    multiple=True,
    type=PATH,
    metavar="FILE",
    help="With --factor: the agent.yaml of an arm that does not ship with the benchmark; repeat for both.",
)
@CASES
@as_json("Print everything as one JSON object.")
@gathered("ask", "bench.cli.compare_factor:Ask", "noise factor difficulty variants folders")
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
    ask: Ask,
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

    A change that is smaller than what one agent differs from itself by on this class of machines is not called: it is
    below the noise floor, which runs with one agent as both arms measure (--noise).

    With --factor the arms are an agent with a component on and off, and nothing else may differ, as in
    `compare runs/NAME --factor MLAB_LOG=on,off --difficulty react --results results.git`.

    \b
    Exit status, by the measures that decide (--gate):
      0  no change, no difference seen, or improvement
      1  regression
      2  the command is wrong
      3  inconclusive: the answer says what would decide; or below the noise floor
      4  not comparable, and the answer says why
      5  no regression, but the power that --require-power asks for is not reached
    """
    from bench.stats import compare_records

    factor = ask.parsed()
    sides = (base, head) if head else (f"{base}:base", f"{base}:head")
    found = _records_of(sides, repository, branch, filters, ask, pooled=history and factor is None)
    if factor is not None:
        _require_fixed(found.state, allow)
    answer = compare_records(
        found.pooled,
        found.other.records,
        rules=rules,
        gates=tuple(dict.fromkeys(gates)) or ("success",),
        test=test,
        allow=allow,
        drop=None if drop_points is None else drop_points / 100,
        others=found.of_one_agent,
        faults=[] if factor is None else ask.faults(factor, found.one, found.other),
    )
    known = factor is not None and not answer.reasons
    effects = ask.effects(found.one, found.other, found.hard, rules.alpha) if known else None
    _tell(found, answer, factor, effects, as_json=as_json)
    sys.exit(_exit_code(answer))


@dataclass(frozen=True)
class _Found:
    """What is compared, and what the comparison needs to know besides."""

    one: Chosen
    other: Chosen
    state: SequentialState | None
    pooled: Sequence[Record]
    """Those of `one`, with its comparable history where that is asked for."""
    of_one_agent: Sequence[Record]
    """Of A/A runs."""
    hard: Sequence[Record]
    """From which difficulty is estimated."""


def _require_fixed(state: SequentialState | None, allow: Sequence[str]) -> None:
    """Raise `UserError` where more than a factor may differ between the arms, or its effect decided when they ended."""
    if set(allow) & {"limits", "machine"}:
        raise UserError("nothing else may differ with --factor", where="--allow", remedy="leave it out")
    if state is not None:
        remedy = "run both arms without --until-decided"
        raise UserError("its looks decided when it ended, by the very effect", where="--factor", remedy=remedy)


def _records_of(
    sides: tuple[str, str], repository: str, branch: str, filters: Filters, ask: Ask, *, pooled: bool
) -> _Found:
    from bench.cli.stored import stored_records
    from bench.stats import AA_RUNS, choose_arm, named_records, sequential_state, with_history

    with stored_records(repository, branch) as stored:
        one, other = (choose_arm(side, stored, filters) for side in sides)
        state = sequential_state([*one.records, *other.records])
        with_nights = pooled and repository and state is None
        records = with_history(one, other, stored, filters) if with_nights else one.records
        of_one_agent = [record for name in ask.noise for record in named_records(name, stored, filters)]
        of_one_agent += stored(AA_RUNS, filters) if repository else []
        hard = [record for name in ask.difficulty for record in named_records(name, stored, filters)]
    return _Found(one, other, state, records, of_one_agent, hard)


def _tell(
    found: _Found, answer: Comparison, factor: Factor | None, effects: FactorEffects | None, *, as_json: bool
) -> None:
    from bench.cli.compare_json import as_document, with_factor
    from bench.cli.compare_text import as_text, factor_text

    if found.state is not None:
        tell_sequential(found.state, found.one, found.other, answer, as_json=as_json)
    if as_json:
        document = as_document(found.one, found.other, answer)
        click.echo(document if factor is None else with_factor(document, factor, effects))
        return
    headline, _, rest = as_text(found.one, found.other, answer).partition("\n")
    print_text(f"{_coloured(headline, answer.verdict)}\n{rest}")
    if factor is not None and effects is not None:
        print_text(factor_text(factor.variable, factor.values, effects))


def _exit_code(answer: Comparison) -> int:
    from bench.cli.compare_text import is_blind

    quiet = answer.verdict in ("no change", "no difference seen", "below the noise floor", "inconclusive")
    return _EXIT_BLIND if quiet and is_blind(answer) else _EXIT[answer.verdict]


def tell_sequential(
    state: SequentialState, base: Chosen, head: Chosen, answer: Comparison, *, as_json: bool
) -> NoReturn:
    """Print what the looks decided, or why they have not, and end: no other test may decide of what they stopped."""
    import json

    from bench.cli.compare_json import as_document
    from bench.cli.compare_text import as_text
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


def _coloured(headline: str, verdict: str) -> str:
    """The verdict as a terminal shows it first."""
    return click.style(headline, bold=True, fg={"improvement": "green", "regression": "bright_red"}.get(verdict))
