"""`ml-dev-bench results verify`, `decide`, `decisions` and `traces`: checking and correcting stored results."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import EXIT_FAILED, UserError
from bench.base.text import counted
from bench.cli.console import Ticker
from bench.cli.options import FILE, PATH, VIA, as_json, branch
from bench.cli.printing import print_json
from bench.cli.stored import require_source

if TYPE_CHECKING:
    from bench.store import Copy, Via


_FINDINGS = 1000
"""More findings than a person reads; the check stops there."""


@click.command()
@click.argument("repository")
@branch()
@click.option("--known", metavar="COMMIT", help="A tip seen earlier, which must still be part of the history.")
@click.option("--seeds", multiple=True, type=FILE, help="seeds.json of `results reveal`: check it. May be repeated.")
@as_json("Print the findings as JSON.")
def verify(repository: str, branch: str, known: str | None, seeds: tuple[Path, ...], as_json: bool) -> None:
    """Prove that nothing stored was changed: history, chain, digests, every line, unique ids, decisions, inline traces.

    With --seeds, also that revealed seeds are those to which the records were committed before anyone knew them.

    A whole history that was replaced together with its chain can only be told by --known: note the tip that this
    command prints.

    Exit status: 0 nothing found; 1 there are findings, one a line; 2 the repository cannot be read as a whole.
    """
    from itertools import islice

    from bench.base.text import printable
    from bench.store import Audit, open_copy

    require_source(repository)
    with open_copy(repository, branch, history=True) as copy, Ticker(as_json) as ticker:
        audit = Audit(copy, progress=ticker)
        findings = [
            {"where": printable(finding.where, 300), "what": printable(finding.what, 300)}
            # One more than is printed, to know whether there are more.
            for finding in islice(audit.findings(known), _FINDINGS + 1)
        ]
        findings += _seed_findings(seeds, copy)
    if as_json:
        print_json({"tip": copy.tip, **vars(audit.done), "findings": findings})
    else:
        for finding in findings[:_FINDINGS]:
            click.echo(f"{finding['where']}: {finding['what']}")
        if len(findings) > _FINDINGS:
            click.echo(f"more than {counted(_FINDINGS, 'finding')}: the rest was not checked")
        looked = ", ".join(f"{count} {name}" for name, count in vars(audit.done).items())
        click.echo(f"{counted(len(findings), 'finding')}; {looked}; tip {copy.tip}")
    if findings:
        sys.exit(EXIT_FAILED)


def _seed_findings(files: Sequence[Path], copy: Copy) -> list[dict[str, str]]:
    """What revealed seeds and the stored records say differently."""
    from bench.base.model import read_json
    from bench.formats.seeds import RevealedSeeds

    documents = [read_json(path, RevealedSeeds, remedy="name a seeds.json of `results reveal`") for path in files]
    records = list(copy.records(withdrawn=True)) if documents else []
    found = [fault for document in documents for fault in document.faults(records)]
    return [{"where": cell, "what": what} for cell, what in found]


@click.command()
@click.argument("folders", metavar="RUN_FOLDER...", nargs=-1, required=True, type=PATH)
@click.option("--plan", type=FILE, help="plan.json of the experiment, whose cells must all be in the folders.")
@click.option("--ended", is_flag=True, help="For a secret that was given: no look, run or shard of it is to come.")
@as_json("Print the seeds as JSON.")
def reveal(folders: tuple[Path, ...], plan: Path | None, ended: bool, as_json: bool) -> None:
    """Tell the derived seeds of an experiment that has ended, never its secret: into seeds.json of each folder.

    RUN_FOLDER: every folder of the experiment, those of all its shards. As long as one cell is missing or was
    interrupted, nothing is told. Afterwards no cell of these folders runs any more. With a seed,
    `cases build-data CASE --seed SEED` makes the data again; `results verify --seeds` checks the seeds.

    Exit status: 0 the seeds are told; 2 nothing is told.
    """
    from bench.formats.seeds import REVEALED
    from bench.runs import reveal_seeds

    revealed = reveal_seeds(folders, plan, ended=ended)
    if as_json:
        click.echo(revealed.model_dump_json(by_alias=True, indent=1))
    else:
        click.echo(
            f"{counted(len(revealed.seeds), 'seed')} in {', '.join(str(folder / REVEALED) for folder in folders)}"
        )


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
@branch()
@VIA
def decide(repository: str, branch: str, via: Via, who: str | None, **facts: object) -> None:
    """Add a decision about stored records; nothing stored is changed.

    withdrawn: they do not count any more. rescored: those of the run --by count instead. accepted: they count,
    whatever was decided before. The last decision about a record holds.

    Exit status: 0 it is in the ledger; 2 it is not valid, or the run is not stored; 3 the branch could not be
    reached, repeat the command.
    """
    import getpass

    from bench.base.model import validate
    from bench.base.times import now
    from bench.cli.results_collect import EXIT_GIVEN_UP
    from bench.store import Decision, ResultsBranch, RetriesExhausted

    # The other options have the names of a decision's fields.
    who = who or os.environ.get("GITHUB_ACTOR") or getpass.getuser()
    decision = validate({**facts, "who": who, "when": now()}, Decision, where="decision")
    try:
        appended = ResultsBranch(repository, branch, via=via).decide(decision)
    except RetriesExhausted as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(EXIT_GIVEN_UP)
    click.echo(f"decision: commit {appended.commit} on branch {branch}")


@click.command()
@click.argument("repository")
@branch()
@as_json("Print the decisions as JSON lines.")
def decisions(repository: str, branch: str, as_json: bool) -> None:
    """The ledger of decisions, the oldest first."""
    from bench.store import ResultsBranch

    require_source(repository)
    for decision in ResultsBranch(repository, branch).decisions():
        if as_json:
            click.echo(decision.to_line())
            continue
        attempt = None if decision.attempt is None else f"attempt {decision.attempt}"
        by = None if decision.replaced_by is None else f"by {decision.replaced_by}"
        about = [decision.run, attempt, decision.agent, decision.case, decision.cell, by]
        subject = " ".join(part for part in about if part)
        click.echo(f"{decision.when}  {decision.kind}  {subject}  {decision.who}: {decision.why}")


@click.command()
@click.argument("repository")
@click.option("--run", "run", required=True, help="The run.")
@click.option("--attempt", type=click.IntRange(1), default=1, show_default=True)
@click.option("--cell", default="", help="Part of a cell's id; default: all cells.")
@click.option("--traces", "where", metavar="FOLDER|URL", help="Where the traces are now; default: as stored.")
@click.option("--out", type=PATH, help="Unpack into this folder, which must not exist.")
@branch()
def traces(
    repository: str, run: str, attempt: int, cell: str, where: str | None, out: Path | None, branch: str
) -> None:
    """List the kept traces of a run, or unpack them; what they hold was written by agents.

    Exit status: 0 done; 2 the run has no such trace, or one is not what was stored.
    """
    from bench.formats.plan import slug_of
    from bench.store import open_stored_traces, open_trace_storage, unpack

    storage = open_trace_storage(where) if where else None
    with open_stored_traces(repository, branch, run, attempt) as stored:
        wanted = [trace for trace in stored.traces if cell in trace.cell]
        if not wanted:
            raise UserError(
                f"no stored trace is of a cell with {cell!r} in its id" if cell else "no trace is stored",
                where=f"run {run}, attempt {attempt}",
                remedy="choose another --run, --attempt or --cell",
            )
        if out is not None and out.exists():
            raise UserError("exists already", where=out, remedy="name a folder that does not exist")
        for trace in wanted:
            if out is None:
                lost = f", {counted(trace.left_out, 'file')} left out" if trace.left_out else ""
                click.echo(f"{trace.cell}  {trace.size} bytes ({trace.stored} stored{lost})  {trace.place}")
            else:
                names = unpack(stored.read(trace, storage), out / slug_of(trace.cell))
                click.echo(f"{trace.cell}: {counted(len(names), 'file')} in {out / slug_of(trace.cell)}")
