"""The figures of the board as files: CSV, JSON, Parquet, their schemas, and what the page that compares reads."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec

from bench.base.arrow import table_of
from bench.formats.record import Profile, Record
from bench.pages.addresses import stem
from bench.pages.board import Board, Row
from bench.pages.costs import cost_of
from bench.pages.matrix import Pair
from bench.stats import KS, Entrant, Estimate, HeadToHead, Passes

Cell = str | int | float | bool | None
Cells = dict[str, Cell]
BOARD_CSV, BOARD_JSON, BOARD_PARQUET = (f"data/leaderboard.{kind}" for kind in ("csv", "json", "parquet"))
CASES_CSV, CASES_PARQUET = "data/cases.csv", "data/cases.parquet"
ABOUT_JSON = "data/site.json"
"""What the site was made from, for the next build, which must not replace a newer one."""
SCHEMA = "data/record.schema.json"
AGENTS_JSON = "data/agents.json"
_MOST_BYTES = 900_000
"""Of a file of records: the next one goes on."""


@dataclass(frozen=True)
class DataFile:
    """What the page of the data lists."""

    address: str
    about: str
    size: int


def data_files(board: Board) -> Iterator[tuple[str, bytes]]:
    """Every file and its content."""
    rows = [_row(row) for section in board.sections for row in section.everyone]
    cases = [
        _case_row(row, case) for section in board.sections for row in section.everyone for case in row.standing.cases
    ]
    document = {"schema": 1, "updated": board.updated or None, "entrants": rows}
    about = {"schema": 1, "built_from": asdict(board.built_from) if board.built_from else None}
    yield ABOUT_JSON, f"{json.dumps(about, indent=1)}\n".encode()
    yield BOARD_JSON, f"{json.dumps(document, indent=1)}\n".encode()
    yield BOARD_CSV, _table(rows)
    yield CASES_CSV, _table(cases)
    yield SCHEMA, f"{json.dumps(Record.model_json_schema(by_alias=True), indent=1, sort_keys=True)}\n".encode()
    if find_spec("pyarrow") is not None and rows:
        yield BOARD_PARQUET, _parquet(rows)
        yield CASES_PARQUET, _parquet(cases)
    yield from _records(board)


ABOUT: Mapping[str, str] = {
    BOARD_CSV: "the front page: one row an agent and profile",
    BOARD_JSON: "the same as JSON",
    BOARD_PARQUET: "the same as Parquet",
    CASES_CSV: "one row an agent, profile and case: what the matrix shows",
    CASES_PARQUET: "the same as Parquet",
    SCHEMA: "JSON Schema of a record",
    ABOUT_JSON: "the commit that this site was built from",
    AGENTS_JSON: "the agents that can be compared; data/pairs/ has a file for each",
}


def about(files: Sequence[tuple[str, int]]) -> list[DataFile]:
    """The files that readers may want, by address and size: in the order of `ABOUT`, which says what is the same."""
    sizes = dict(files)
    found = [DataFile(address, text, sizes[address]) for address, text in ABOUT.items() if address in sizes]
    records = [
        DataFile(it, "results that have a page, one JSON object a line", size) for it, size in files if "/records" in it
    ]
    return [*found, *records]


def _records(board: Board) -> Iterator[tuple[str, bytes]]:
    lines: list[bytes] = []
    number, held = 1, 0
    for entry in reversed(board.entries):
        line = f"{entry.line}\n".encode("utf-8", "surrogatepass")
        if lines and held + len(line) > _MOST_BYTES:
            yield _records_name(number), b"".join(lines)
            lines, number, held = [], number + 1, 0
        lines.append(line)
        held += len(line)
    yield _records_name(number), b"".join(lines)


def _records_name(number: int) -> str:
    return "data/records.jsonl" if number == 1 else f"data/records-{number}.jsonl"


def compare_files(board: Board, pairs: Mapping[Profile, Sequence[Pair]]) -> Iterator[tuple[str, bytes]]:
    """What the page that compares reads; `pairs`: by profile. The intervals are worked out here, never by a script."""
    agents = [
        {
            "key": f"{section.profile}/{stem(row.standing.entrant)}",
            "profile": section.profile,
            "agent": row.standing.entrant.agent,
            "model": row.standing.entrant.model,
            **_estimate("success", row.standing.success),
            **_estimate("score", row.standing.score),
            "cost_usd": _usd(row),
            "per_success_usd": row.per_success,
            "covered": row.standing.covered,
            "suite": row.standing.suite_size,
            "rank": row.place.rank,
        }
        for section in board.sections
        for row in section.competitors
    ]
    yield AGENTS_JSON, _compact({"agents": agents, "cases": {it.id: it.title for it in board.cases.values()}})
    for section in board.sections:
        found: dict[Entrant, dict[str, object]] = {row.standing.entrant: {} for row in section.competitors}
        for pair in pairs.get(section.profile, ()):
            if pair.result is not None:
                found[pair.one][f"{section.profile}/{stem(pair.other)}"] = _versus(pair.result)
        for row in section.competitors:
            who = row.standing.entrant
            cases = {case: _case(row, case) for case in row.standing.cases}
            yield f"data/pairs/{section.profile}/{stem(who)}.json", _compact({"ahead_of": found[who], "cases": cases})


def _versus(it: HeadToHead) -> list[float | int | None]:
    low, high = (it.interval.low, it.interval.high) if it.interval else (None, None)
    return [_digits(it.difference), _digits(low), _digits(high), it.n, it.ahead, it.behind]


def _case(row: Row, case: str) -> list[float | int | None]:
    tally = row.standing.cases[case]
    return [_digits(tally.success), _digits(tally.score), _digits(cost_of(tally)), tally.graded]


def _digits(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def _usd(row: Row) -> float | None:
    cost = row.standing.cost
    return cost.replayed_usd if cost.mean_usd is None else cost.mean_usd


def _compact(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _row(row: Row) -> Cells:
    standing = row.standing
    return {
        "profile": standing.entrant.profile,
        "rank": row.place.rank,
        "rank_best": row.place.best,
        "rank_worst": row.place.worst,
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
        "cost_per_success_usd": row.per_success,
        "steps": standing.effort.steps,
        "agent_seconds": standing.effort.seconds,
        "input_tokens": standing.effort.input_tokens,
        "output_tokens": standing.effort.output_tokens,
        "ended_by_limit": row.limited,
        "claims": row.claims,
        "overclaims": row.overclaims,
        "flagged_cells": row.flagged,
        "tampered_cells": row.tampered,
        "last_started": row.last,
    }


def _case_row(row: Row, case: str) -> Cells:
    who, tally = row.standing.entrant, row.standing.cases[case]
    interval = tally.interval
    return {
        "profile": who.profile,
        "agent": who.agent,
        "model": who.model,
        "case": case,
        "success": tally.success,
        "success_low": interval.low if interval else None,
        "success_high": interval.high if interval else None,
        "score": tally.score,
        "cells_graded": tally.graded,
        "cells_succeeded": tally.succeeded,
        "cells_lost": tally.lost,
        "cost_usd": tally.cost.mean_usd,
        "cost_replayed_usd": tally.cost.replayed_usd,
        "steps": tally.effort.steps,
        "agent_seconds": tally.effort.seconds,
    }


def _estimate(name: str, estimate: Estimate | None) -> Cells:
    interval = estimate.interval if estimate else None
    return {
        name: estimate.mean if estimate else None,
        f"{name}_low": interval.low if interval else None,
        f"{name}_high": interval.high if interval else None,
    }


def _passes(rows: Sequence[Passes]) -> Cells:
    """For each k: pass@k (`at`), pass^k (`hat`) and the number of cases with k trials, nothing where there are none."""
    found = {row.k: row for row in rows}
    columns: Cells = {}
    for k in KS:
        row = found.get(k)
        columns |= {
            **_estimate(f"pass_at_{k}", row.at if row else None),
            **_estimate(f"pass_hat_{k}", row.hat if row else None),
        }
        columns[f"pass_{k}_cases"] = row.at.n if row else 0
    return columns


def _table(rows: Sequence[Cells]) -> bytes:
    if not rows:
        return b""
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: harmless(value) for name, value in row.items()} for row in rows)
    return out.getvalue().encode("utf-8", "replace")


def harmless(value: Cell) -> Cell:
    """A spreadsheet runs a text that begins like a formula; with an apostrophe before it, it does not."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _parquet(rows: Sequence[Cells]) -> bytes:
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(table_of(rows), out, compression="zstd")
    return out.getvalue()
