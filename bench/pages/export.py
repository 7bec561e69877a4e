"""The same figures as data: every record, and the board as JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

from bench.pages.model import Board
from bench.stats import KS, Estimate, Passes, Place

Cell = str | int | float | bool | None

RECORDS, BOARD_JSON, BOARD_CSV = "data/records.jsonl", "data/leaderboard.json", "data/leaderboard.csv"


def data_files(board: Board) -> dict[str, bytes]:
    rows = [_row(place) for section in board.sections for place in section.places]
    lines = [entry.record.to_line() for entry in reversed(board.entries)]
    document = {"schema": 1, "updated": board.updated or None, "entrants": rows}
    return {
        RECORDS: "".join(f"{line}\n" for line in lines).encode(),
        BOARD_JSON: f"{json.dumps(document, indent=1)}\n".encode(),
        BOARD_CSV: _table(rows).encode(),
    }


def _row(place: Place) -> dict[str, Cell]:
    standing = place.standing
    return {
        "profile": standing.entrant.profile,
        "rank": place.rank,
        "rank_best": place.best,
        "rank_worst": place.worst,
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
