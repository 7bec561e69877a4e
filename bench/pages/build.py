"""Building the site: all pages, and the same figures as data (records as JSON lines, the board as JSON and CSV)."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from bench.base.errors import UserError
from bench.formats.record import Record
from bench.pages.board import Board, BuiltFrom, CaseInfo, counted_trials, make_board, newest_cells, suite_of
from bench.pages.render import Renderer, agent_page, case_page
from bench.pages.views import Details, agent_view, case_view
from bench.stats import KS, Entrant, Estimate, Passes, RankedStanding, RecordResults, Results, Suite

Cell = str | int | float | bool | None
RECORDS, BOARD_JSON, BOARD_CSV = "data/records.jsonl", "data/leaderboard.json", "data/leaderboard.csv"
ABOUT_JSON = "data/site.json"
"""What the site was made from, for the next build, which must not replace a newer one."""
TITLE = "ML development benchmark"
MARKER = ".ml-dev-bench-site"
"""In every folder that this module made: no other folder is ever replaced."""


def data_files(board: Board) -> dict[str, bytes]:
    rows = [_row(ranked) for section in board.sections for ranked in section.everyone]
    lines = [entry.record.to_line() for entry in reversed(board.entries)]
    document = {"schema": 1, "updated": board.updated or None, "entrants": rows}
    about = {"schema": 1, "built_from": asdict(board.built_from) if board.built_from else None}
    return {
        ABOUT_JSON: f"{json.dumps(about, indent=1)}\n".encode(),
        RECORDS: "".join(f"{line}\n" for line in lines).encode(),
        BOARD_JSON: f"{json.dumps(document, indent=1)}\n".encode(),
        BOARD_CSV: _table(rows).encode(),
    }


def _row(ranked: RankedStanding) -> dict[str, Cell]:
    standing = ranked.standing
    return {
        "profile": standing.entrant.profile,
        "rank": ranked.rank,
        "rank_best": ranked.best,
        "rank_worst": ranked.worst,
        "ranked": standing.ranked,
        "agent": standing.entrant.agent,
        "model": standing.entrant.model,
        **_estimate("success", standing.success),
        **_estimate("score", standing.score),
        **_passes(standing.passes),
        "cases_graded": standing.covered,
        "cases_in_suite": standing.suite_size,
        "cells_graded": standing.graded,
        "cells_lost": standing.lost,
        **_estimate("lost_rate", standing.lost_rate),
        "tries_lost": standing.lost + standing.retried,
        "cost_usd": standing.cost.mean_usd,
        "cost_estimated": standing.cost.estimated,
        "cost_replayed_usd": standing.cost.replayed_usd,
        "cost_unknown_cells": standing.cost.unknown,
        "steps": standing.effort.steps,
        "agent_seconds": standing.effort.seconds,
        "input_tokens": standing.effort.input_tokens,
        "output_tokens": standing.effort.output_tokens,
    }


def _estimate(name: str, estimate: Estimate | None) -> dict[str, Cell]:
    interval = estimate.interval if estimate else None
    return {
        name: estimate.mean if estimate else None,
        f"{name}_low": interval.low if interval else None,
        f"{name}_high": interval.high if interval else None,
    }


def _passes(rows: Sequence[Passes]) -> dict[str, Cell]:
    """For each k: pass@k (`at`), pass^k (`hat`) and the number of cases with k trials, nothing where there are none."""
    found = {row.k: row for row in rows}
    columns: dict[str, Cell] = {}
    for k in KS:
        row = found.get(k)
        columns |= {
            **_estimate(f"pass_at_{k}", row.at if row else None),
            **_estimate(f"pass_hat_{k}", row.hat if row else None),
        }
        columns[f"pass_{k}_cases"] = row.at.n if row else 0
    return columns


def _table(rows: list[dict[str, Cell]]) -> str:
    if not rows:
        return ""
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _harmless(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def _harmless(value: Cell) -> Cell:
    """A spreadsheet runs a text that begins like a formula; with an apostrophe before it, it does not."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def build_site(
    records: Iterable[Record], cases: Sequence[CaseInfo], out: Path, site: Path, title: str = TITLE
) -> list[Path]:
    """The site of these records; see `write_site`."""
    return write_site(partial(RecordResults, records), cases, out, site, title)


def write_site(
    results_of: Callable[[Suite], Results],
    cases: Sequence[CaseInfo],
    out: Path,
    site: Path,
    title: str = TITLE,
    built_from: BuiltFrom | None = None,
) -> list[Path]:
    """Write the whole site to `out`, from the sources in `site`; the paths of its files.

    results_of: the results, measured against a suite. A reader sees the old site or the new one, never a part of one.
    The same results give the same bytes.
    """
    _check_replaceable(out)
    for case in cases:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", case.id):
            raise UserError(f"`{case.id}` cannot name a page", remedy="use 1 to 64 of a-z, 0-9, _ and -")
    results = results_of(suite_of(cases))
    board = make_board(results, cases, title, built_from)
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".new", dir=out.parent))
    try:
        written = [_write(fresh, path, content) for path, content in site_files(board, results, site)]
        # A temporary folder is its owner's alone; the web server may be another user.
        fresh.chmod(0o755)
        _swap(fresh, out)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return sorted(out / path for path in written)


def site_files(board: Board, results: Results, site: Path) -> Iterator[tuple[str, bytes]]:
    """Every file of the site: its address and its content."""
    renderer = Renderer(site)
    yield MARKER, b""
    for path in sorted((site / "static").iterdir()):
        yield f"static/{path.name}", path.read_bytes()
    yield from data_files(board).items()
    for name in ("index.html", "cases.html"):
        yield name, renderer.page(name, name, {"board": board})
    newest, counted = newest_cells(board.entries), counted_trials(board.entries)
    details = Details(
        results.checks(), results.metrics(), results.findings(), results.versions(), cells=newest, trials=counted
    )
    for case in board.pages.values():
        address = case_page(case.id)
        view = case_view(board, case, details)
        yield address, renderer.page("case.html", address, {"board": board, "view": view})
    yield from _agent_pages(board, details, renderer)
    for entry in board.entries:
        yield entry.address, renderer.page("cell.html", entry.address, {"board": board, "entry": entry})


def _agent_pages(board: Board, details: Details, renderer: Renderer) -> Iterator[tuple[str, bytes]]:
    profiles: dict[str, list[Entrant]] = defaultdict(list)
    for section in board.sections:
        for row in section.everyone:
            profiles[agent_page(row.standing.entrant)].append(row.standing.entrant)
    for address, entrants in profiles.items():
        view = agent_view(board, entrants, details)
        yield address, renderer.page("agent.html", address, {"board": board, "view": view})


def _write(folder: Path, path: str, content: bytes) -> str:
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:  # "x": a second file at one address is a fault of this program
        file.write(content)
    return path


def _check_replaceable(out: Path) -> None:
    if not os.path.lexists(out):
        return
    if not out.is_dir() or out.is_symlink() or (any(out.iterdir()) and not (out / MARKER).is_file()):
        raise UserError("exists and was not made by site build", where=out, remedy="name a new or empty folder")


def _swap(fresh: Path, out: Path) -> None:
    """Two renames; should the second fail, the old site comes back."""
    if not out.exists():
        fresh.rename(out)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".old", dir=out.parent))
    out.rename(old / "site")
    try:
        fresh.rename(out)
    except OSError:
        (old / "site").rename(out)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)
