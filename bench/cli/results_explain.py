"""`ml-dev-bench results explain` and `results trace`: why a cell did not succeed, and what its agent did."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.text import counted
from bench.cli.options import FILE, Command, as_json, branch, repository
from bench.cli.printing import print_json
from bench.cli.run_source import LEDGER, LOG, RunSource, matching, open_ledger

if TYPE_CHECKING:
    from bench.formats.record import Record
    from bench.gateway import Step
    from bench.report import Sheet

_LOG_LINES = 12
_LOG_BYTES = 64_000
_LAST_STEPS = 2
_MOST_CELLS = 20


def _chosen(command: Command) -> Command:
    for option in (
        repository("The run is stored in this repository (path or URL), and RUN is its name."),
        branch("Branch of --results."),
        click.option("--attempt", type=click.IntRange(1), default=1, show_default=True, help="Of a stored run."),
        click.option("--full", is_flag=True, help="Leave nothing out of long texts."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("run")
@click.argument("cell", default="")
@_chosen
@as_json()
def explain(run: str, cell: str, repository: str, branch: str, attempt: int, full: bool, as_json: bool) -> None:
    """Why cells of a run did not succeed: checks with their evidence, claims beside measurements, limits, and the log.

    RUN is a run folder, or the name of a run in --results. CELL is part of a cell's id, such as a case or an agent;
    without it, all cells are explained that did not succeed.

    Exit status: 0 explained; 2 there is no such run or cell.
    """
    from bench.report import explanation

    source = RunSource(run, repository, branch, attempt)
    records = source.records()
    chosen = matching(records, cell, source) if cell else [record for record in records if not record.success]
    if as_json:
        print_json({"schema": 1, "cells": [_with_places(source, record, explanation(record)) for record in chosen]})
        return
    if not chosen:
        rest = "and no failure; name a cell to see its checks"
        _print(f"{counted(len(records), 'success', 'successes')} {rest}" if records else "no cell is finished")
    for number, record in enumerate(chosen[:_MOST_CELLS]):
        _print(("\n" if number else "") + _explained(source, record, full, alone=len(chosen) == 1))
    if len(chosen) > _MOST_CELLS:
        _print(f"\n{len(chosen) - _MOST_CELLS} more cells did not succeed; name one of them")


@click.command()
@click.argument("run")
@click.argument("cell", default="")
@_chosen
@click.option(
    "--format", "form", type=click.Choice(["text", "calls", "atif"]), default="text", show_default=True,
    help="text: step by step. calls: a line for each model call. atif: the trajectory format of other tools.",
)  # fmt: skip
@as_json("The steps for programs.")
@click.option("--out", type=FILE, help="Write to this file; default: print.")
def trace(
    run: str, cell: str, repository: str, branch: str, attempt: int, full: bool, form: str, as_json: bool,
    out: Path | None,
) -> None:  # fmt: skip
    """What the agent of one cell did: thought, tool calls and observations, step by step, with tokens and dollars.

    RUN is a run folder, one of its calls.jsonl, or the name of a run in --results. CELL is part of the cell's id; a run
    with one cell needs none. The trace of a cell that still runs shows what has happened so far.

    Exit status: 0 printed; 2 there is no such run or cell, or no trace of it was kept.
    """
    from bench.base.files import write_atomic

    source = RunSource(run, repository, branch, attempt)
    with open_ledger(source, cell) as ledger:
        form = "json" if as_json else form
        # A file has no width, and nothing acts on what is in it until it is shown.
        text = {"text": _as_steps, "calls": _as_calls, "atif": _as_atif, "json": _as_json}[form](ledger, full)
    if out is None:
        _print(text)
    else:
        write_atomic(out, f"{click.unstyle(text)}\n".encode())
        click.echo(f"wrote {out}")


def _explained(source: RunSource, record: Record, full: bool, *, alone: bool) -> str:
    from bench.report import put_explanation, put_steps, totals_line

    sheet = _sheet(full)
    put_explanation(sheet, record)
    with source.trace(record.cell) as folder:
        if folder is not None and not record.success:
            _put_log(sheet, folder, source)
        steps = _steps_in(folder)
        if steps:
            sheet.title("what the agent did", totals_line(steps))
            if alone:
                put_steps(sheet, steps[-_LAST_STEPS:])
            sheet.gap()
            sheet.line(f"every step: ml-dev-bench results trace {source.command} {record.cell}", dim=True)
    return str(sheet)


def _put_log(sheet: Sheet, folder: Path, source: RunSource) -> None:
    path = folder / LOG
    if not path.is_file():
        return
    place = str(path) if source.folder is not None else "stored beside the record"
    said = path.read_bytes()[-_LOG_BYTES:].decode("utf-8", "replace").strip()
    sheet.title("the agent's log", place, dim=True)
    lines = said.splitlines()
    if len(lines) > _LOG_LINES and not sheet.full:
        lines = [f"[{len(lines) - _LOG_LINES} lines before]", *lines[-_LOG_LINES:]]
    sheet.block("", "\n".join(lines) or "(empty)", _LOG_LINES + 1)


def _steps_in(folder: Path | None) -> list[Step]:
    from bench.gateway import read_steps, read_trace

    if folder is None or not (folder / LEDGER).is_file():
        return []
    return read_steps(read_trace(folder / LEDGER))


def _with_places(source: RunSource, record: Record, facts: dict[str, object]) -> dict[str, object]:
    from bench.formats.plan import slug_of

    kept = source.folder / "traces" / slug_of(record.cell) if source.folder is not None else None
    names = {"log": LOG, "trace": LEDGER}
    places = {key: str(kept / name) if kept and (kept / name).is_file() else None for key, name in names.items()}
    return {**facts, **places}


def _as_steps(ledger: Path, full: bool) -> str:
    from bench.gateway import read_steps, read_trace
    from bench.report import put_steps, totals_line

    sheet = _sheet(full)
    steps = read_steps(read_trace(ledger))
    put_steps(sheet, steps)
    sheet.title("together", totals_line(steps))
    return str(sheet)


def _as_calls(ledger: Path, full: bool) -> str:
    """One line for each call."""
    from bench.base.text import printable
    from bench.gateway import read_trace

    del full
    lines = []
    for call in read_trace(ledger):
        line = call.line
        tokens = line.tokens
        used = f"{tokens.input_uncached}+{tokens.cache_read} in, {tokens.output} out" if tokens else "-"
        cost = f"${line.cost_usd:.4f}" if line.cost_usd is not None else "-"
        trouble = " ".join(part for part in (line.code, ",".join(line.faults), line.error[:80]) if part)
        facts = [f"{line.seq:>4}", line.role, line.protocol, line.status, f"{line.seconds:.1f} s", used, cost, trouble]
        lines.append(printable("  ".join(facts).rstrip()))
    return "\n".join(lines)


def _as_atif(ledger: Path, full: bool) -> str:
    from bench.base.text import printable_json
    from bench.gateway import read_trace, to_atif

    del full
    name = ledger.parent.name
    return printable_json(json.dumps(to_atif(read_trace(ledger), name.partition("_")[0], name), indent=1))


def _as_json(ledger: Path, full: bool) -> str:
    from bench.base.text import printable_json
    from bench.gateway import TraceSteps, read_steps, read_trace

    del full
    document = TraceSteps(steps=read_steps(read_trace(ledger))).model_dump(mode="json", by_alias=True)
    return printable_json(json.dumps(document, indent=1))


def _sheet(full: bool) -> Sheet:
    from bench.report import Sheet

    return Sheet(shutil.get_terminal_size().columns if sys.stdout.isatty() else None, full=full)


def _print(text: str) -> None:
    # click takes colours away where there is no terminal; NO_COLOR asks for the same on one.
    click.echo(text, color=False if os.environ.get("NO_COLOR") else None)
