"""Judges by the service's journal and by the five mistakes that data.py has worked out."""

import calendar
import json
import re
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

from bench.judge import Workspace, check, close, integer, mapping, number, once, sequence, string

RUN, METRICS, DATASET = "labelbox_run_id.json", "labelbox_metrics.json", "high_confidence_errors"
COUNT, SLACK_S = 5, 300
LISTS = ("image_ids", "confidence_scores", "predicted_labels", "true_labels")

Event = dict[str, Any]


@once
def mistakes(ws: Workspace) -> list[list[float]]:
    """(confidence, row, predicted, true), the most confident first."""
    loaded: list[list[float]] = json.loads(Path(ws.hidden("mistakes.json")).read_text())
    return loaded


@once
def digests(ws: Workspace) -> list[str]:
    """SHA-256 of the five PNG files, in that order."""
    return [sha256(ws.original(f"data/png/{row:05}.png").read_bytes()).hexdigest() for _, row, _, _ in mistakes(ws)]


@once
def record(ws: Workspace) -> dict[str, Any]:
    return mapping(ws.json(RUN), keys=["project_id", *LISTS, "task_id"])


def events(ws: Workspace, kind: str) -> dict[str, Event]:
    """Of one kind, by the id that the service gave."""
    return {event["id"]: event for event in ws.journal("labelbox") if event.get("event") == kind}


def made(ws: Workspace, kind: str, key: str) -> Event:
    """The project or batch that the file names, if the service made it."""
    uid, known = string(record(ws)[key]), events(ws, kind)
    assert uid in known, f"{key} {uid[:60]!r} is unknown to the service, which made {sorted(known)[:5]}"
    return known[uid]


def rows_named(ws: Workspace) -> list[Event]:
    """The data rows of image_ids, in that order."""
    known = events(ws, "row")
    uids = [string(uid) for uid in sequence(record(ws)["image_ids"], length=COUNT)]
    unknown = [uid[:60] for uid in uids if uid not in known]
    assert not unknown, f"image_ids {unknown} are unknown to the service"
    return [known[uid] for uid in uids]


@check(weight=3, required=True)
def project_was_created(ws: Workspace) -> None:
    """The service made the project that the file names, with the agreed name."""
    project = made(ws, "project", "project_id")
    match = re.fullmatch(r"mnist_annotation_(\d{8}-\d{6})", project["name"])
    assert match, f"the project is called {project['name'][:80]!r}"
    try:
        stamp = calendar.timegm(time.strptime(match.group(1), "%Y%m%d-%H%M%S"))
    except ValueError:
        raise AssertionError(f"{project['name']!r} holds no time") from None
    off = abs(stamp - project["time"])
    assert off <= SLACK_S, f"the time in {project['name']!r} is {off:.0f} s off"


@check(weight=4, required=True)
def right_pictures_were_uploaded(ws: Workspace) -> None:
    """The data rows of image_ids hold the five right PNG files, in order, alone in a dataset of the agreed name."""
    rows, sets = rows_named(ws), events(ws, "dataset")
    names = {sets[row["dataset"]]["name"] for row in rows}
    assert names == {DATASET}, f"the data rows lie in datasets called {sorted(names)[:3]}"
    held = {uid for uid, row in events(ws, "row").items() if row["dataset"] == rows[0]["dataset"]}
    assert held == {row["id"] for row in rows}, f"the dataset holds {len(held)} rows, not image_ids alone"
    found = [row["sha256"] for row in rows]
    right = sum(digest in digests(ws) for digest in set(found))
    assert right == COUNT, f"{right} of the {COUNT} right PNG files are among the data rows of image_ids"
    assert found == digests(ws), "the right files are there, but image_ids do not begin with the most confident mistake"


@check(weight=4, required=True)
def mistakes_are_described(ws: Workspace) -> None:
    """Confidences, predictions and labels are those of the five most confident mistakes, in their order."""
    scores = [number(score) for score in sequence(record(ws)["confidence_scores"], length=COUNT)]
    close(scores, [confidence for confidence, *_ in mistakes(ws)], rtol=0, atol=1e-4, what="confidence_scores")
    for key, place in (("predicted_labels", 2), ("true_labels", 3)):
        found = [integer(label) for label in sequence(record(ws)[key], length=COUNT)]
        expected = [int(one[place]) for one in mistakes(ws)]
        assert found == expected, f"{key} is {found}, expected {expected}"


@check(weight=3, required=True)
def task_was_created(ws: Workspace) -> None:
    """The batch that the file names belongs to the project and holds the five data rows, no others, and alone."""
    batch, wanted = made(ws, "batch", "task_id"), {row["id"] for row in rows_named(ws)}
    project = string(record(ws)["project_id"])
    assert batch["project"] == project, f"the batch belongs to the project {batch['project']}, not {project[:60]}"
    assert len(wanted) == COUNT, f"image_ids name {len(wanted)} data rows, expected {COUNT}"
    assert sorted(batch["rows"]) == sorted(wanted), (
        f"the batch holds {len(batch['rows'])} rows, which are not image_ids"
    )
    others = [one for one in events(ws, "batch").values() if one["project"] == project and one["id"] != batch["id"]]
    again = [one["id"] for one in others if wanted & set(one["rows"])]
    assert not again, f"the data rows are in other batches of the project, too: {again[:3]}"


@check(weight=2, required=True)
def metrics_are_true(ws: Workspace) -> None:
    """The metrics file has the number of images, the mean of the five confidences and the status."""
    found = mapping(ws.json(METRICS), keys=["num_images_uploaded", "avg_confidence", "task_status"])
    count = integer(found["num_images_uploaded"])
    assert count == COUNT, f"num_images_uploaded is {count}, expected {COUNT}"
    status = string(found["task_status"])
    assert status == "created", f"task_status is {status[:40]!r}"
    mean = sum(confidence for confidence, *_ in mistakes(ws)) / COUNT
    close([number(found["avg_confidence"])], [mean], rtol=0, atol=2e-5, what="avg_confidence")
