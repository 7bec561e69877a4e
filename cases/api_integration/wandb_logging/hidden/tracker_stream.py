"""The file stream of a run: its history, its summary and its end. Console and system figures are not kept."""

from __future__ import annotations

from tracker_store import Run, note
from tracker_wire import Json, parse_object, short_text

from bench.casekit.services import Service

MAX_ROWS = 10_000


def receive(service: Service, run: Run, document: Json) -> None:
    """Takes in one message of the stream."""
    files = document.get("files")
    for name, chunk in files.items() if isinstance(files, dict) else ():
        lines, offset = (chunk.get("content"), chunk.get("offset", 0)) if isinstance(chunk, dict) else (None, 0)
        if not isinstance(lines, list) or not isinstance(offset, int) or not 0 <= offset <= MAX_ROWS - len(lines):
            continue
        if name == "wandb-history.jsonl":
            _store_rows(service, run, [parse_object(line) for line in lines], offset)
        elif name == "wandb-summary.json" and lines:
            run.summary = parse_object(lines[-1])
    run.state = "running"  # a resumed run streams again after its end, and ends a second time
    if document.get("complete") is True:
        run.state = "finished" if document.get("exitcode") == 0 else "failed"
        note(service, "run_ended", run, state=run.state)


def _store_rows(service: Service, run: Run, rows: list[Json], offset: int) -> None:
    """Keeps the rows at their place: a client that sends a chunk again overwrites it."""
    run.rows[offset : offset + len(rows)] = rows
    logged = {key: value for row in rows for key, value in row.items() if not key.startswith("_")}
    if logged:
        values = {short_text(key): _plain(logged[key]) for key in sorted(logged)[:100]}
        note(service, "values_logged", run, values=values)


def _plain(value: object) -> object:
    """A usual number as it is, anything else as a short text: enough to judge by."""
    usual = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**53
    return value if usual else short_text(value)
