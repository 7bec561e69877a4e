"""`ml-dev-bench results query` and `export`: the results branch in SQL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.cli.console import Ticker
from bench.cli.options import Command, as_json, branch, gathered, repository
from bench.cli.stored import tell_skipped

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from bench.index import Format, Index

_FORMATS: dict[str, Format] = {"csv": "csv", "json": "json", "jsonl": "json", "parquet": "parquet"}
_WIDEST = 60


Opener = Callable[[Ticker], "AbstractContextManager[Index]"]


def _opener(repository: str, branch: str, rebuild: bool, timeout: float) -> Opener:
    from bench.index import open_index

    return lambda ticker: open_index(repository, branch, progress=ticker, anew=rebuild, timeout_s=timeout)


def _target(command: Command) -> Command:
    """Which branch, and how to come to its index, which the command gets as `opened`."""
    for option in (
        gathered("opened", _opener),
        repository(required=True),
        branch("Its branch."),
        click.option("--rebuild", is_flag=True, help="Make the cached index anew first."),
        click.option(
            "--timeout", type=click.FloatRange(1), default=300, show_default=True, help="Seconds a query has."
        ),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("sql")
@click.option("--format", "form", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True)
@as_json("The same as --format json: an array of objects.")
@_target
def query(sql: str, form: str, as_json: bool, opened: Opener) -> None:
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


@click.command()
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--format", "form", type=click.Choice(["csv", "json", "parquet"]), help="Default: by the name of the file."
)
@click.option("--where", metavar="SQL", default="", help="Only rows for which this holds, as after WHERE.")
@click.option("--sql", metavar="SELECT", default="", help="This answer instead of the records.")
@as_json("Print what was written as JSON.")
@_target
def export(out: Path, form: str | None, where: str, sql: str, as_json: bool, opened: Opener) -> None:
    """Write the records that count, or the answer to a query, to a file: CSV, JSON (an object a line) or Parquet.

    Exit status: 0 written; 2 the query, the branch or the set-up is wrong, and nothing was written.
    """
    import json

    from bench.base.errors import UserError
    from bench.index import export as write

    kind = _FORMATS.get(form or out.suffix.removeprefix("."))
    if kind is None:
        raise UserError("does not tell a format", where=out, remedy="give --format csv, json or parquet")
    if where and sql:
        raise UserError("and --sql exclude each other", where="--where", remedy="write the condition into the query")
    # A line break of its own, so that a comment in the condition does not swallow the rest.
    asked = sql or (f"SELECT * FROM records WHERE (\n{where}\n)" if where else "SELECT * FROM records")  # noqa: S608
    with Ticker(as_json) as ticker, opened(ticker) as index:
        rows = write(index, asked, out, kind, ticker)
        tell_skipped(index)
        tip = index.state.tip
    facts = {"schema": 1, "file": str(out), "format": kind, "rows": rows, "size": out.stat().st_size, "tip": tip}
    click.echo(json.dumps(facts) if as_json else f"wrote {rows:,} rows to {out}")


def _as_json(answer: pa.Table) -> str:
    from bench.index import to_json

    return "[" + ",\n ".join(to_json(row) for row in answer.to_pylist()) + "]"


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
    return f"{table(rows, header=answer.column_names)}\n({answer.num_rows:,} rows)"


def _cell(value: object) -> str:
    from bench.index import to_json

    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = to_json(value) if isinstance(value, list | dict) else str(value)
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
