"""`ml-dev-bench power`: what it takes to see a drop."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from bench.base.errors import EXIT_FAILED, UserError
from bench.base.text import counted
from bench.cli.options import Number, alpha, as_json, branch, filters, fraction, repository
from bench.cli.printing import print_json, print_text

if TYPE_CHECKING:
    from bench.stats import Chosen, Components, Design, Filters, Price, Question


@dataclass(frozen=True)
class _Answer:
    """How many trials or cases are enough, and what other designs can show and cost (dollars; None: unknown)."""

    measure: str
    drop: float
    alpha: float
    margin: float
    trials: int | None
    cases_with_3_trials: int | None
    cases_with_5_trials: int | None
    designs: list[tuple[Design, float | None]]


@click.command()
@click.argument("history", metavar="HISTORY")
@repository("Results repository: path or URL.")
@branch("Its branch.")
@filters("the history")
@click.option("--measure", type=click.Choice(["success", "score"]), default="success", show_default=True)
@fraction("--drop", 0.10, "The drop of the mean that must be seen.")
@fraction("--margin", 0.05, "Margin of the comparison; the drop itself where that is smaller.")
@alpha()
@click.option("--base-stored", is_flag=True, help="Only HEAD is to be run: BASE is stored with as many trials.")
@click.option("--gpu-price", type=Number(0), default=None, metavar="USD", help="Price of a GPU hour.")
@as_json("Print everything as one JSON object.")
def power(
    history: str,
    repository: str,
    branch: str,
    filters: Filters,
    measure: str,
    drop: float,
    margin: float,
    alpha: float,
    base_stored: bool,
    gpu_price: float | None,
    as_json: bool,
) -> None:
    """How many trials and cases are needed to see a drop with 80% chance, and what they cost.

    HISTORY names records as BASE and HEAD of `compare` do: a run folder, a file of records, or on the results branch
    (--results) a run, an agent or agent@commit. Between-case and within-case variance, cost and time are taken from
    these records; two trials a case are the least that can tell the variances apart.
    Formulas: docs/statistics-reference.md.

    Exit status: 0 some number of trials on these cases is enough; 1 none is, more cases are needed; 2 wrong command.
    """
    from bench.cli.stored import stored_records
    from bench.stats import MEASURES, Question, Rules, choose, components, price

    with stored_records(repository, branch) as stored:
        chosen = choose(history, stored, filters)
    parts = components(chosen.records, MEASURES[measure])
    cost = price(chosen.records)
    if parts is None or cost is None:
        raise UserError("has fewer than two cases with a verdict", where=history, remedy="name a set with more records")
    if drop > parts.mean:
        raise UserError(
            f"the mean of {history} is {parts.mean:.3f} and cannot drop by {drop:g}",
            where="--drop",
            remedy="choose a smaller drop",
        )
    # A margin larger than the drop would call the drop too small to matter, with any number of trials.
    question = Question(parts, drop, measure == "success", Rules(margin=min(margin, drop), alpha=alpha))
    sides = 1 if base_stored else 2
    answer = _answer(question, measure, cost, sides, gpu_price)
    if as_json:
        print_json(_document(chosen, parts, cost, answer))
    else:
        print_text(_text(chosen, parts, cost, answer, sides))
    if answer.trials is None:
        sys.exit(EXIT_FAILED)


def _answer(question: Question, measure: str, cost: Price, sides: int, gpu_price: float | None) -> _Answer:
    from bench.stats import cases_needed, designs, trials_needed

    enough = trials_needed(question, question.parts.cases)
    return _Answer(
        measure=measure,
        drop=question.drop,
        alpha=question.rules.alpha,
        margin=question.rules.margin,
        trials=enough,
        cases_with_3_trials=cases_needed(question, 3),
        cases_with_5_trials=cases_needed(question, 5),
        designs=[(it, _total(it, gpu_price)) for it in designs(question, cost, enough, sides=sides)],
    )


def _total(design: Design, gpu_price: float | None) -> float | None:
    """Model calls and GPU hours together, in dollars; None when either has no price."""
    if design.usd is None or (gpu_price is None and design.gpu_hours > 0):
        return None
    return design.usd + (gpu_price or 0.0) * design.gpu_hours


def _document(chosen: Chosen, parts: Components, cost: Price, answer: _Answer) -> dict[str, object]:
    designs = [{**asdict(it), "total_usd": total} for it, total in answer.designs]
    history = {"label": chosen.label, **asdict(chosen.entrant), "components": asdict(parts), "price": asdict(cost)}
    return {"schema": 1, "history": history, **asdict(answer), "designs": designs}


def _text(chosen: Chosen, parts: Components, cost: Price, answer: _Answer, sides: int) -> str:
    from bench.base.text import printable
    from bench.report import table

    bound = "" if parts.repeated else " (no case has two trials: an upper bound)"
    header = ("trials", "cells", "chance", "calls", "machine h", "GPU h", "in all", "")
    rows = [
        (
            f"{it.trials}",
            f"{it.cells:,}",
            f"{it.power:.0%}",
            _usd(it.usd),
            f"{it.machine_hours:.1f}",
            f"{it.gpu_hours:.1f}",
            _usd(total),
            "<- enough" if it.trials == answer.trials else "",
        )
        for it, total in answer.designs
    ]
    lines = [
        f"history  {printable(chosen.label)}; {counted(parts.cases, 'case')}, {parts.trials} graded trials",
        f"mean {answer.measure} {parts.mean:.3f}; standard deviation between cases {parts.between**0.5:.3f}, "
        f"within a case {parts.within**0.5:.3f}{bound}",
        f"to see a drop of {answer.drop:g} with 80% chance (one-sided test at {answer.alpha:g}):",
        "",
        table(rows, header=header, right=range(7)),
    ]
    if answer.trials is None:
        lines.append(f"no number of trials is enough on these {counted(parts.cases, 'case')}{_why(parts, answer)}")
    for trials, cases in ((3, answer.cases_with_3_trials), (5, answer.cases_with_5_trials)):
        lines.append(
            f"with {counted(trials, 'trial')}: {cases if cases is not None else 'more than 10,000'} cases like these"
        )
    whose = "head alone" if sides == 1 else "base and head together"
    lines.append(f"cells and costs are those of {whose}; trials are a case and side")
    if cost.cost.mean_usd is None and cost.cost.replayed_usd is not None:
        lines.append(
            "replayed conversations cost nothing; priced as if they were live, a cell costs "
            f"{_usd(cost.cost.replayed_usd)}"
        )
    return "\n".join(lines)


def _why(parts: Components, answer: _Answer) -> str:
    from bench.stats import fewest_cases

    floor = fewest_cases(answer.alpha)
    if parts.cases < floor:
        return f": at {answer.alpha:g}, no result of fewer than {counted(floor, 'case')} is significant"
    if answer.drop <= answer.margin:
        return ": half of all comparisons observe less than the drop, which is the margin; choose a smaller --margin"
    return ""


def _usd(value: float | None) -> str:
    return "unknown" if value is None else f"${value:,.2f}"
