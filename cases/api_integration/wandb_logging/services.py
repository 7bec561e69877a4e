"""A stand-in for the W&B service, and one route of ours: GET /measurements/RUN gives the values that a run has to log.

So nobody can know them before the run exists.
"""

from __future__ import annotations

import random

from bench.casekit.services import Request, Response, Service
from bench.casekit.tracker import Tracker, all_runs, note


def _measurements(request: Request, service: Service) -> Response | None:
    """Gives the values that a run has to log: the same ones whenever the same run asks."""
    match request.method, [part for part in request.path.split("/") if part]:
        case "GET", ["measurements", name]:
            run = all_runs(service).get(name)
        case _:
            return None
    if run is None:
        return Response.json({"error": f"run {name} does not exist, so nothing was measured"}, 404)
    if not run.values:
        rng = random.SystemRandom()  # not from the trial's seed: the values must not be computable
        run.values = {
            "training_loss": round(rng.uniform(0.2, 1.2), 6),
            "validation_loss": round(rng.uniform(0.2, 1.2), 6),
            "epoch": rng.randrange(3, 90),
        }
        note(service, "values_issued", run, values=run.values)
    return Response.json(run.values)


_TRACKER = Tracker("c0ffee00" * 5, _measurements)


def tracker(request: Request, service: Service) -> Response:
    """The tracker, which also notes a summary that holds another value: a client can write one past its rows."""
    answer = _TRACKER(request, service)
    with service.lock:
        for run in all_runs(service).values():
            # A client that is told to keep the least or the mean of a metric keeps it in an object under the name.
            plain = {key: run.summary[key] for key in run.values if not isinstance(run.summary.get(key, {}), dict)}
            noted: set[str] = service.state.setdefault("strayed", set())
            if run.name not in noted and plain != {key: run.values[key] for key in plain}:
                noted.add(run.name)
                service.journal({"event": "summary_strayed", "run_id": run.name, "values": str(plain)[:200]})
    return answer
