"""A stand-in for the W&B service, and one route of ours: GET /measurements/RUN gives the values that a run has to log.

So nobody can know them before the run exists.
"""

from __future__ import annotations

import random

from keeping import kept

from bench.casekit.services import Request, Response, Service
from bench.casekit.tracked_run import Run
from bench.casekit.tracker import Tracker, all_runs, note

PROJECT = "ml_workflow_test_wandb"


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
        run.values = _draw()
        note(service, "values_issued", run, values=run.values)
        _add_run_of_others(service)
    return Response.json(run.values)


def _draw() -> dict[str, float]:
    """With all digits of a float, more than the service keeps."""
    rng = random.SystemRandom()  # not from the trial's seed: the values must not be computable
    # Above 1, where twelve decimals are not twelve digits.
    losses = {name: rng.uniform(1.0, 3.0) for name in ("training_loss", "validation_loss")}
    return losses | {"epoch": rng.randrange(3, 90)}


def _add_run_of_others(service: Service) -> None:
    """Neither the first nor the newest run of the project is the one to read: only its id tells it."""
    run = Run(f"{random.SystemRandom().randrange(16**7, 16**8):x}", PROJECT, "nightly", state="finished")
    run.summary = _draw() | {"_step": 0}
    run.rows = [run.summary]
    all_runs(service)[run.name] = run


_TRACKER = Tracker("c0ffee00" * 5, _measurements)


def tracker(request: Request, service: Service) -> Response:
    """The tracker, which also notes a summary that holds another value: a client can write one past its rows."""
    with service.lock:
        if not all_runs(service):
            _add_run_of_others(service)
    answer = _TRACKER(request, service)
    with service.lock:
        for run in all_runs(service).values():
            # After the journal has what arrived: what a client reads is not what the agent had in memory.
            run.rows, run.summary = [kept(row) for row in run.rows], kept(run.summary)
            # A client that is told to keep the least or the mean of a metric keeps it in an object under the name.
            plain = {key: run.summary[key] for key in run.values if not isinstance(run.summary.get(key, {}), dict)}
            noted: set[str] = service.state.setdefault("strayed", set())
            if run.name not in noted and plain != kept({key: run.values[key] for key in plain}):
                noted.add(run.name)
                service.journal({"event": "summary_strayed", "run_id": run.name, "values": str(plain)[:200]})
    return answer
