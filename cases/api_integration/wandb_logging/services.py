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


tracker = Tracker("c0ffee00" * 5, _measurements)
