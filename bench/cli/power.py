"""`ml-dev-bench power`: what it takes to see a drop."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from bench.base.errors import EXIT_FAILED, UserError

if TYPE_CHECKING:
    from bench.stats import Chosen, Components, Design, Price, Question


@click.command()
@click.argument("history", metavar="HISTORY")
@click.option("--results", "repository", default="", metavar="REPOSITORY", help="Results repository: path or URL.")
@click.option("--branch", default="mldb-results", show_default=True, help="Its branch.")
@click.option("--agent", default="", help="Take this agent, where the history holds several.")
@click.option("--model", default="", help="Take this model, where the history holds several.")
@click.option("--profile", type=click.Choice(["mini", "full"]), help="Take this profile, where the history holds both.")
@click.option("--suite", default="", help="Take records of this suite only.")
@click.option("--measure", type=click.Choice(["success", "score"]), default="success", show_default=True)
@click.option(
    "--drop",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.10,
    show_default=True,
    help="The drop of the mean that must be seen.",
)
@click.option(
    "--margin",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.05,
    show_default=True,
    help="Margin of the comparison; the drop itself where that is smaller.",
)
@click.option("--alpha", type=click.FloatRange(0, 0.5, min_open=True, max_open=True), default=0.05, show_default=True)
@click.option("--base-stored", is_flag=True, help="Only HEAD is to be run: BASE is stored with as many trials.")
@click.option("--gpu-price", type=click.FloatRange(0), default=None, metavar="USD", help="Price of a GPU hour.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
def power(history: str, as_json: bool, **options: Any) -> None:
    """How many trials and cases are needed to see a drop with 80% chance, and what they cost.

    HISTORY names records as BASE and HEAD of `compare` do: a run folder, a file of records, or on the results branch
    (--results) a run, an agent or agent@commit. Between-case and within-case variance, cost and time are taken from
    these records; two trials a case are the least that can tell the variances apart. Formulas: docs/statistics.md.

    Exit status: 0 some number of trials on these cases is enough; 1 none is, more cases are needed; 2 wrong command.
    """
    from bench.stats import MEASURES, Question, Rules, components, price

    chosen = _choose(history, options)
    parts = components(chosen.records, MEASURES[options["measure"]])
    cost = price(chosen.records)
    if parts is None or cost is None:
        raise UserError("fewer than two cases with a verdict", where=history, remedy="name more records")
    drop = options["drop"]
    if drop > parts.mean:
        raise UserError(f"the mean is {parts.mean:.3f} and cannot drop by {drop:g}", remedy="choose a smaller --drop")
    rules = Rules(margin=min(options["margin"], drop), alpha=options["alpha"])
    question = Question(parts, drop, options["measure"] == "success", rules)
    answer = _answer(question, cost, options)
    click.echo(_document(chosen, parts, cost, answer) if as_json else _text(chosen, parts, cost, answer, options))
    if answer["trials"] is None:
        sys.exit(EXIT_FAILED)


def _choose(history: str, options: dict[str, Any]) -> Chosen:
    from bench.cli.stored import stored_records
    from bench.stats import Filters, choose

    filters = Filters(options["agent"], options["model"], options["profile"], options["suite"])
    with stored_records(options["repository"], options["branch"]) as stored:
        return choose(history, stored, filters)


def _answer(question: Question, cost: Price, options: dict[str, Any]) -> dict[str, Any]:
    from bench.stats import cases_needed, designs, trials_needed

    enough = trials_needed(question, question.parts.cases)
    found = designs(question, cost, enough, sides=1 if options["base_stored"] else 2)
    return {
        "measure": options["measure"],
        "drop": question.drop,
        "alpha": question.rules.alpha,
        "margin": question.rules.margin,
        "trials": enough,
        "cases_with_3_trials": cases_needed(question, 3),
        "cases_with_5_trials": cases_needed(question, 5),
        "designs": [(it, _total(it, options["gpu_price"])) for it in found],
    }


def _total(design: Design, gpu_price: float | None) -> float | None:
    """Model calls and GPU hours together, in dollars; None when either has no price."""
    if design.usd is None or (gpu_price is None and design.gpu_hours > 0):
        return None
    return design.usd + (gpu_price or 0.0) * design.gpu_hours


def _document(chosen: Chosen, parts: Components, cost: Price, answer: dict[str, Any]) -> str:
    import json
    from dataclasses import asdict

    designs = [{**asdict(it), "total_usd": total} for it, total in answer["designs"]]
    history = {"label": chosen.label, **asdict(chosen.entrant), "components": asdict(parts), "price": asdict(cost)}
    return json.dumps({"schema": 1, "history": history, **answer, "designs": designs}, indent=1)


def _text(chosen: Chosen, parts: Components, cost: Price, answer: dict[str, Any], options: dict[str, Any]) -> str:
    from bench.base.text import printable

    replayed = cost.cost.mean_usd is None and cost.cost.replayed_usd is not None
    bound = "" if parts.repeated else " (no case has two trials: an upper bound)"
    lines = [
        f"history  {printable(chosen.label)}; {parts.cases} cases, {parts.trials} graded trials",
        f"mean {answer['measure']} {parts.mean:.3f}; standard deviation between cases {parts.between**0.5:.3f}, "
        f"within a case {parts.within**0.5:.3f}{bound}",
        f"to see a drop of {answer['drop']:g} with 80% chance (one-sided test at {answer['alpha']:g}):",
        "",
        f"{'trials':>6} {'cells':>7} {'chance':>7} {'calls':>10} {'machine h':>10} {'GPU h':>8} {'in all':>10}",
    ]
    for it, total in answer["designs"]:
        mark = "  <- enough" if it.trials == answer["trials"] else ""
        lines.append(
            f"{it.trials:>6} {it.cells:>7,} {it.power:>7.0%} {_usd(it.usd):>10} {it.machine_hours:>10.1f} "
            f"{it.gpu_hours:>8.1f} {_usd(total):>10}{mark}"
        )
    if answer["trials"] is None:
        lines.append(f"no number of trials is enough on these {parts.cases} cases")
    for trials in (3, 5):
        cases = answer[f"cases_with_{trials}_trials"]
        lines.append(f"with {trials} trials: {cases if cases is not None else 'more than 10,000'} cases like these")
    sides = "head alone" if options["base_stored"] else "base and head together"
    lines.append(f"cells and costs are those of {sides}; trials are a case and side")
    if replayed:
        lines.append("costs are what the replayed conversations would have cost")
    return "\n".join(lines)


def _usd(value: float | None) -> str:
    return "unknown" if value is None else f"${value:,.2f}"
