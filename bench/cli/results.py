"""`ml-dev-bench results`: the group, and its commands that read: `show`, `query` and `export`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import UserError
from bench.base.text import counted
from bench.cli.console import Ticker
from bench.cli.groups import Group
from bench.cli.options import CASES, FILE, Command, Number, as_json, branch, gathered, repository
from bench.cli.printing import print_text
from bench.cli.results_admin import decide, decisions, reveal, traces, verify
from bench.cli.results_collect import collect, push
from bench.cli.results_explain import explain, trace
from bench.cli.results_improvement import improvement, plots
from bench.cli.results_steps import score_steps
from bench.cli.stored import tell_skipped

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from bench.base.install import DataFolders
    from bench.formats.record import Record
    from bench.index import Format, Index
    from bench.stats import Suite

_FORMATS: dict[str, Format] = {"csv": "csv", "json": "json", "jsonl": "json", "parquet": "parquet"}
_WIDEST = 60


@click.group(cls=Group)
def results() -> None:
    """Collect, show, verify and judge stored results."""


for _command in (
    collect,
    push,
    verify,
    decide,
    decisions,
    explain,
    improvement,
    plots,
    reveal,
    score_steps,
    trace,
    traces,
):
    results.add_command(_command)


@results.command()
@click.argument("source", metavar="REPOSITORY|RUN_FOLDER")
@branch("Branch of a repository.")
@click.option("--suite", default="", help="Count coverage over this suite; default: over the cases in the records.")
@click.option("--arm", type=click.Choice(["base", "head"]), help="Only this arm of runs that have two.")
@click.option("--cells", is_flag=True, help="Every cell instead of the table of agents.")
@click.option("--withdrawn", is_flag=True, help="Count those records too that were withdrawn or replaced.")
@CASES
@as_json("Print the records as JSON lines.")
def show(
    source: str,
    branch: str,
    suite: str,
    arm: str | None,
    cells: bool,
    withdrawn: bool,
    folders: DataFolders,
    as_json: bool,
) -> None:
    """Agents by success, with intervals, from a results repository or the folder of one run.

    A run folder with two arms has a table for each: both may be of one agent.
    """
    from bench.base.text import printable_json
    from bench.cli.stored import counted_cases, is_run_folder, read_records, stored_results
    from bench.report import leaderboard, outcome_line

    if not (cells or as_json):
        counted = counted_cases(suite, folders) if suite else None
        if arm or is_run_folder(source):
            _show_arms(read_records(source, branch, withdrawn=withdrawn), counted, arm)
            return
        with stored_results(source, branch, folders=folders, withdrawn=withdrawn) as results_of:
            print_text(leaderboard(results_of(counted)))
        return
    for record in read_records(source, branch, withdrawn=withdrawn):
        if arm in (None, record.arm):
            click.echo(printable_json(record.to_line()) if as_json else outcome_line(record))


def _show_arms(records: Sequence[Record], counted: Suite | None, arm: str | None) -> None:
    """A table for each arm there is, or for the one asked for, and the looks of a sequential experiment."""
    from bench.report import leaderboard, sequential_lines
    from bench.stats import RecordResults, sequential_state

    known = sorted({record.arm for record in records}) or [""]
    if arm and arm not in known:
        remedy = "drop --arm, or name a run that was made with `run --base`"
        raise UserError(f"no record is of the arm {arm!r}", where="--arm", remedy=remedy)
    for own in [arm] if arm else known:
        if own:
            print_text(f"{own}:")
        print_text(leaderboard(RecordResults([it for it in records if it.arm == own], counted)))
    if (state := sequential_state(records)) is not None:
        print_text("\n".join(sequential_lines(state)))


def suite_cases(suite: str) -> list[str]:
    """The cases of a suite; an empty name has none."""
    from bench.base.install import find_data_folders
    from bench.formats.case import select_cases
    from bench.formats.suite import load_suite

    root = find_data_folders().cases
    return [folder.name for folder in select_cases(root, load_suite(root, suite).cases)] if suite else []


_Opener = Callable[[Ticker], "AbstractContextManager[Index]"]


def _opener(repository: str, branch: str, rebuild: bool, timeout: float) -> _Opener:
    from bench.index import open_index
    from bench.store import require_branch

    def opened(ticker: Ticker) -> Index:
        index = open_index(repository, branch, progress=ticker, anew=rebuild, timeout_s=timeout)
        require_branch(repository, branch, index.state.tip)
        return index

    return opened


def _indexed(command: Command) -> Command:
    """Which branch, and how to come to its index, which the command gets as `opened`."""
    for option in (
        gathered("opened", _opener),
        repository(required=True),
        branch("Its branch."),
        click.option("--rebuild", is_flag=True, help="Make the cached index anew first."),
        click.option("--timeout", type=Number(1), default=300, show_default=True, help="Seconds a query has."),
    ):
        command = option(command)
    return command


@results.command()
@click.argument("sql")
@click.option("--format", "form", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True)
@as_json("The same as --format json: an array of objects.")
@_indexed
def query(sql: str, form: str, as_json: bool, opened: _Opener) -> None:
    """Ask the results in SQL (DuckDB's), through an index that is brought to the newest commit first.

    Tables: records (those that count), cells (one row a cell: of several attempts the one that counts), checks,
    decisions, all_records (withdrawn ones too), tally. `DESCRIBE records` lists columns; docs/querying.md explains.
    Only one SELECT is taken. It can read no file and no network, and write nothing.

    \b
    ml-dev-bench results query --results results.git \\
      "SELECT agent, model, avg(success::INT) FROM cells WHERE outcome = 'graded' GROUP BY ALL"

    Exit status: 0 answered; 2 the query, the branch or the set-up is wrong.
    """
    form = "json" if as_json else form
    with Ticker(form == "json") as ticker, opened(ticker) as index:
        answer = index.table(sql)
        tell_skipped(index)
    click.echo({"table": _as_text, "csv": _as_csv, "json": _as_json}[form](answer))


@results.command()
@click.argument("out", type=FILE)
@click.option(
    "--format", "form", type=click.Choice(["csv", "json", "parquet"]), help="Default: by the name of the file."
)
@click.option("--where", metavar="SQL", default="", help="Only rows for which this holds, as after WHERE.")
@click.option("--sql", metavar="SELECT", default="", help="This answer instead of the records.")
@as_json("Print what was written as JSON.")
@_indexed
def export(out: Path, form: str | None, where: str, sql: str, as_json: bool, opened: _Opener) -> None:
    """Write the records that count, or the answer to a query, to a file: CSV, JSON (an object a line) or Parquet.

    Exit status: 0 written; 2 the query, the branch or the set-up is wrong, and nothing was written.
    """
    from bench.index import export as write

    kind = _FORMATS.get(form or out.suffix.removeprefix("."))
    if kind is None:
        raise UserError("the name does not tell the format", where=out, remedy="give --format csv, json or parquet")
    if where and sql:
        raise UserError("cannot be given with --sql", where="--where", remedy="write the condition into the query")
    # The condition has lines of its own, so that a comment at its end does not hide the bracket.
    asked = sql or (f"SELECT * FROM records WHERE (\n{where}\n)" if where else "SELECT * FROM records")  # noqa: S608
    with Ticker(as_json) as ticker, opened(ticker) as index:
        rows = write(index, asked, out, kind, ticker)
        tell_skipped(index)
        tip = index.state.tip
    facts = {"schema": 1, "file": str(out), "format": kind, "rows": rows, "size": out.stat().st_size, "tip": tip}
    click.echo(json.dumps(facts) if as_json else f"wrote {counted(rows, 'row')} to {out}")


def _as_json(answer: pa.Table) -> str:
    from bench.index import to_json

    return "[" + ",\n ".join(map(to_json, answer.to_pylist())) + "]"


def _as_csv(answer: pa.Table) -> str:
    import io

    from bench.index import write_csv

    file = io.BytesIO()
    write_csv(file, answer)
    return file.getvalue().decode().rstrip("\n")


def _as_text(answer: pa.Table) -> str:
    from bench.report import table

    if not answer.column_names:
        return "(no columns)"
    rows = [[_cell(value) for value in row.values()] for row in answer.to_pylist()]
    return f"{table(rows, header=answer.column_names)}\n({counted(answer.num_rows, 'row')})"


def _cell(value: object) -> str:
    from bench.index import to_json

    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = to_json(value) if isinstance(value, list | dict) else str(value)
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
