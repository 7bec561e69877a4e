"""An experiment tracker: it gives a run its id, and writes down what the run reports."""

from __future__ import annotations

import json
import re
import secrets
from typing import Any

from bench.casekit.services import Request, Response, Service


def tracker(request: Request, service: Service) -> Response:
    """POST /api/runs, /api/runs/ID/log and /api/runs/ID/finish."""
    try:
        message: Any = json.loads(request.body or b"{}")
    except (ValueError, RecursionError):
        message = None
    found = re.fullmatch(r"/api/runs(?:/([0-9a-f]{8})/(log|finish))?", request.path)
    if request.method != "POST" or found is None or not isinstance(message, dict):
        return Response.json({"error": "no such address, or not a JSON object"}, 404)
    with service.lock:
        runs: set[str] = service.state.setdefault("runs", set())
        if found[1] is None:
            run_id = secrets.token_hex(4)
            runs.add(run_id)
            service.journal({"event": "created", "run_id": run_id, "project": str(message.get("project"))[:80]})
            return Response.json({"run_id": run_id})
        if found[1] not in runs:
            return Response.json({"error": "no such run"}, 404)
        kept = {name: message.get(name) for name in ("epoch", "step", "metrics")} if found[2] == "log" else {}
        if len(json.dumps(kept)) > 4096:
            return Response.json({"error": "too long"}, 413)
        service.journal({"event": found[2], "run_id": found[1], **kept})
        return Response.json({})
