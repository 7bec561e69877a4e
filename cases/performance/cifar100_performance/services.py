"""A stand-in for the W&B service, which also journals each row of a history, whatever the client sends together."""

from __future__ import annotations

from bench.casekit.json_requests import RefusedError, parse_object, read_document
from bench.casekit.services import Request, Response, Service
from bench.casekit.tracker import Tracker

NAMES = ("train_loss", "val_accuracy")
_TRACKER = Tracker("c0ffee00" * 5)


def tracker(request: Request, service: Service) -> Response:
    answer = _TRACKER(request, service)
    path = request.path.strip("/").split("/")
    if answer.status == 200 and request.method == "POST" and path[0] == "files" and path[-1] == "file_stream":
        try:
            _rows(request, service, path[3])
        except (RefusedError, RecursionError):
            return Response.json({"error": "the history cannot be read"}, 400)
    return answer


def _rows(request: Request, service: Service, run_id: str) -> None:
    files = read_document(request).get("files")
    chunk = files.get("wandb-history.jsonl") if isinstance(files, dict) else None
    if not isinstance(chunk, dict) or not isinstance(chunk.get("content"), list):
        return
    for at, line in enumerate(chunk["content"], chunk.get("offset", 0)):
        row = parse_object(line)
        values = {name: row[name] for name in NAMES if isinstance(row.get(name), int | float)}
        if values:
            # What the training's own clock showed when it called `log`: the client may be slow to take it in.
            service.journal(
                {"event": "row", "run_id": run_id, "at": at, "values": values, "at_s": row.get("_timestamp")}
            )
