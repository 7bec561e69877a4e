"""Hands out the judge's months one at a time, and writes down what is predicted for each before the next is given."""

from __future__ import annotations

import json
from typing import Any

from bench.casekit.services import Request, Response, Service

MOST_ROWS = 5000


def months(request: Request, service: Service) -> Response:
    """GET /month gives a month that has not been given; POST /predictions takes its predictions, once."""
    with service.lock:
        if "months" not in service.state:
            # A service that ended and began anew goes on behind what was predicted: no month is given twice.
            given = len(service.journaled("predicted"))
            service.state["months"] = json.loads((service.hidden / "months.json").read_text("utf-8"))[given:]
            service.state["open"] = None
        if (request.method, request.path) == ("GET", "/month"):
            return _give(service)
        if (request.method, request.path) == ("POST", "/predictions"):
            return _take(request, service)
    return Response.json({"error": "ask for GET /month or POST /predictions"}, 404)


def _give(service: Service) -> Response:
    if service.state["open"] is not None:
        return Response.json({"error": f"month {service.state['open']} has not been predicted"}, 409)
    if not service.state["months"]:
        service.journal({"event": "done"})
        return Response.json({"done": True})
    month = service.state["months"].pop(0)
    service.state["open"] = month["month"]
    return Response.json(month)


def _take(request: Request, service: Service) -> Response:
    if service.state["open"] is None:
        return Response.json({"error": "no month is open; its predictions are final"}, 409)
    try:
        # What is not a number stays a text, which the check refuses by name.
        rows: Any = json.loads(request.body, parse_constant=str)["predictions"]
        pairs = [[str(asked)[:80], _short(rating)] for asked, rating in rows]
    except (ValueError, TypeError, KeyError, RecursionError) as fault:
        return Response.json({"error": f"the predictions cannot be read: {str(fault)[:200]}"}, 400)
    if len(pairs) > MOST_ROWS:
        return Response.json({"error": f"more than {MOST_ROWS} predictions for one month"}, 400)
    service.journal({"event": "predicted", "month": service.state["open"], "predictions": pairs})
    service.state["open"] = None
    return Response.json({"taken": len(pairs)})


def _short(rating: object) -> object:
    return rating if isinstance(rating, float | int) and abs(rating) < 1e300 else str(rating)[:40]
