"""`ml-dev-bench results traces`: what was kept of a run beside its records."""

from __future__ import annotations

from pathlib import Path

import click

from bench.errors import UserError


@click.command()
@click.argument("repository")
@click.option("--run", "run", required=True, help="The run.")
@click.option("--attempt", type=click.IntRange(1), default=1, show_default=True)
@click.option("--cell", default="", help="Part of a cell's id; default: all cells.")
@click.option("--traces", "where", metavar="FOLDER|URL", help="Where the traces are now; default: as stored.")
@click.option("--out", type=click.Path(path_type=Path), help="Unpack into this folder, which must not exist.")
@click.option("--branch", default="mldb-results", show_default=True)
def traces(
    repository: str, run: str, attempt: int, cell: str, where: str | None, out: Path | None, branch: str
) -> None:
    """List the kept traces of a run, or unpack them; what they hold was written by agents.

    Exit status: 0 done; 2 the run has no such trace, or one is not what was stored.
    """
    from bench.cell import slug_of
    from bench.store.shelf import open_shelf
    from bench.store.traceplace import open_trace_place
    from bench.store.traces import unpack

    place = open_trace_place(where) if where else None
    with open_shelf(repository, branch, run, attempt) as shelf:
        wanted = [trace for trace in shelf.traces if cell in trace.cell]
        if not wanted:
            raise UserError("has no such trace", where=f"run {run}, attempt {attempt}", remedy="choose with --cell")
        if out is not None and out.exists():
            raise UserError("exists", where=out, remedy="name a folder that does not")
        for trace in wanted:
            if out is None:
                lost = f", {trace.left_out} files left out" if trace.left_out else ""
                click.echo(f"{trace.cell}  {trace.size} bytes ({trace.stored} stored{lost})  {trace.place}")
            else:
                names = unpack(shelf.read(trace, place), out / slug_of(trace.cell))
                click.echo(f"{trace.cell}: {len(names)} files in {out / slug_of(trace.cell)}")
