"""`ml-dev-bench results`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import UserError
from bench.cli.options import as_json, branch
from bench.cli.results_admin import decide, decisions, traces, verify
from bench.cli.results_collect import collect, push
from bench.cli.results_query import export, query
from bench.report import leaderboard

if TYPE_CHECKING:
    from bench.stats import Suite


@click.group()
def results() -> None:
    """Collect, show, verify and judge stored results."""


for _command in (collect, push, verify, decide, decisions, traces, query, export):
    results.add_command(_command)


@results.command()
@click.argument("source", metavar="REPOSITORY|RUN_FOLDER")
@branch("Branch of a repository.")
@click.option("--suite", default="", help="Count coverage over this suite; default: over the cases in the records.")
@click.option("--cells", is_flag=True, help="Every cell instead of the table of agents.")
@click.option("--withdrawn", is_flag=True, help="Count those records too that were withdrawn or replaced.")
@as_json("Print the records as JSON lines.")
def show(source: str, branch: str, suite: str, cells: bool, withdrawn: bool, as_json: bool) -> None:
    """Agents by success, with intervals, from a results repository or the folder of one run."""
    from bench.base.text import printable_json
    from bench.cli.stored import read_records, stored_results
    from bench.report import outcome_line

    if not (cells or as_json):
        counted: Suite | None = {"mini": suite_cases(suite), "full": suite_cases(suite)} if suite else None
        with stored_results(source, branch, withdrawn=withdrawn) as results_of:
            click.echo(leaderboard(results_of(counted)))
        return
    for record in read_records(source, branch, withdrawn=withdrawn):
        click.echo(printable_json(record.to_line()) if as_json else outcome_line(record))


@results.command()
@click.argument("source", metavar="RUN_FOLDER|CALLS_JSONL", type=click.Path(exists=True, path_type=Path))
@click.option("--cell", default="", help="Part of the cell's id or folder name, where the run has several.")
@click.option("--format", "form", type=click.Choice(["text", "atif"]), default="text", show_default=True)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file; default: print.")
def trace(source: Path, cell: str, form: str, out: Path | None) -> None:
    """Every model call of one cell: as a table, or in the ATIF format that other tools read."""
    from bench.base.files import write_atomic
    from bench.base.text import printable, printable_json

    ledger = find_ledger(source, cell)
    text = trace_text(ledger) if form == "text" else trace_atif(ledger)
    if out is None:
        click.echo(printable_json(text) if form == "atif" else "\n".join(map(printable, text.splitlines())))
    else:
        write_atomic(out, f"{text}\n".encode())
        click.echo(f"wrote {out}")


def find_ledger(source: Path, cell: str) -> Path:
    """The calls.jsonl that is meant; raises `UserError` when it is not exactly one."""
    if source.is_file():
        return source
    found = [path for path in sorted(source.glob("**/calls.jsonl")) if cell.replace("/", "_") in path.parent.name]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UserError("no cell with model calls", where=source, remedy="name the folder of a run, and its cell")
    names = ", ".join(path.parent.name for path in found[:5])
    raise UserError(f"{len(found)} cells have model calls", where=source, remedy=f"choose with --cell: {names}")


def trace_text(ledger: Path) -> str:
    """One line a call."""
    from bench.gateway import read_trace

    lines = []
    for call in read_trace(ledger):
        line = call.line
        tokens = line.tokens
        used = f"{tokens.input_uncached}+{tokens.cache_read} in, {tokens.output} out" if tokens else "-"
        cost = f"${line.cost_usd:.4f}" if line.cost_usd is not None else "-"
        trouble = " ".join(part for part in (line.code, ",".join(line.faults), line.error[:80]) if part)
        facts = [f"{line.seq:>4}", line.role, line.protocol, line.status, f"{line.seconds:.1f} s", used, cost, trouble]
        lines.append("  ".join(facts).rstrip())
    return "\n".join(lines)


def trace_atif(ledger: Path) -> str:
    """The trajectory as JSON."""
    import json

    from bench.gateway import read_trace, to_atif

    folder = ledger.parent.name
    return json.dumps(to_atif(read_trace(ledger), folder.partition("_")[0], folder), indent=1, ensure_ascii=False)


def suite_cases(suite: str) -> list[str]:
    """The cases of a suite; none where no suite is named."""
    from bench.base.install import find_data_folders
    from bench.formats.suite import load_suite

    return load_suite(find_data_folders().cases, suite).cases if suite else []
