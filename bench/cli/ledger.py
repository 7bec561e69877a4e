"""`ml-dev-bench results decide` and `decisions`: what people say of stored results later on."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from bench.errors import UserError


@click.command()
@click.argument("repository")
@click.argument("kind", type=click.Choice(["accepted", "withdrawn", "rescored"]))
@click.option("--run", "run", required=True, help="The run it is about.")
@click.option("--attempt", type=click.IntRange(1), help="Only this attempt at it.")
@click.option("--agent", help="Only this agent's records.")
@click.option("--case", "case", help="Only records of this case.")
@click.option("--cell", help="Only this cell, by its whole id.")
@click.option("--by", "replaced_by", help="For rescored: the run that holds the new verdicts.")
@click.option("--why", required=True, help="The reason, one line; it is public.")
@click.option("--who", help="Who decided; default: GITHUB_ACTOR, or the user of this machine.")
@click.option("--branch", default="mldb-results", show_default=True)
@click.option("--via", type=click.Choice(["git", "api"]), default="git", show_default=True)
def decide(repository: str, branch: str, via: Any, who: str | None, **facts: Any) -> None:
    """Add a decision about stored records; nothing stored is changed.

    withdrawn: they do not count any more. rescored: those of the run --by count instead. accepted: they count,
    whatever was decided before. The last decision about a record holds.

    Exit status: 0 it is in the ledger; 2 it makes no sense, or the run is not stored; 3 the branch could not be
    reached, say it again.
    """
    import getpass

    from bench.cli.collected import EXIT_GIVEN_UP
    from bench.clock import now
    from bench.schema import validate
    from bench.store.branch import ResultsBranch
    from bench.store.decisions import Decision
    from bench.store.landing import GivenUp

    person = who or os.environ.get("GITHUB_ACTOR") or getpass.getuser()
    decision = validate({**facts, "who": person, "when": now()}, Decision, where="decision")
    try:
        landed = ResultsBranch(repository, branch, via=via).decide(decision)
    except GivenUp as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(EXIT_GIVEN_UP)
    click.echo(f"decision: commit {landed.commit} on branch {branch}")


@click.command()
@click.argument("repository")
@click.option("--branch", default="mldb-results", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the decisions as JSON lines.")
def decisions(repository: str, branch: str, as_json: bool) -> None:
    """The ledger of decisions, the oldest first."""
    from pathlib import Path

    from bench.store.branch import ResultsBranch
    from bench.store.place import is_remote

    if not is_remote(repository) and not Path(repository).exists():
        raise UserError("no such repository", where=repository, remedy="name what `run --results` made")
    for decision in ResultsBranch(repository, branch).decisions():
        if as_json:
            click.echo(decision.to_line())
            continue
        attempt = None if decision.attempt is None else f"attempt {decision.attempt}"
        by = None if decision.replaced_by is None else f"by {decision.replaced_by}"
        about = [decision.run, attempt, decision.agent, decision.case, decision.cell, by]
        subject = " ".join(part for part in about if part)
        click.echo(f"{decision.when}  {decision.kind}  {subject}  {decision.who}: {decision.why}")
