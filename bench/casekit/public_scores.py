"""A submission service: a limited number of scores on a public half of hidden labels. Standard library only.

data.py calls `write_labels`, services.py is `board = PublicScores(score)`, and check.py scores the private half and
calls `bench.judge.record_public_scores`. How many scores there are stands in case.yaml, at the service. An agent learns
nothing of the private half, not even which ids are in it: each submission holds all of them.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.base.files import write_atomic
from bench.casekit.data import stream
from bench.casekit.json_requests import short_text
from bench.casekit.services import Request, Response, Service

Label = str | int | float
Predictions = Mapping[str, str]
Score = Callable[[Mapping[str, Label], Predictions], float]
"""Of labels, and of the predictions for their ids as texts. A `ValueError` refuses the submission, with its message."""
EVENT = "public_score"
"""In the service's journal, one for each score that was told."""
_MOST_DIGITS = 6
_EXAMPLES = 3


def write_labels(path: Path, labels: Mapping[str, Label], seed: int) -> None:
    """Write the hidden labels by id, divided at random into halves: `public` and `private`. At least two ids.

    The order of `labels` does not matter. Of an odd number the private half has one more.
    """
    if len(labels) < 2:
        raise ValueError("two labels are the least that has two halves")
    key = f"{stream(seed, 'public scores'):x}"
    order = sorted(labels, key=lambda it: hashlib.sha256(f"{key}\0{it}".encode()).digest())
    public = set(order[: len(order) // 2])
    halves = {
        "public": {it: labels[it] for it in sorted(labels) if it in public},
        "private": {it: labels[it] for it in sorted(labels) if it not in public},
    }
    write_atomic(path, json.dumps(halves, sort_keys=True, allow_nan=False).encode())


def read_labels(path: Path, half: str) -> dict[str, Label]:
    """The labels of the half `public` or `private` that `write_labels` has written."""
    labels: dict[str, Label] = json.loads(path.read_bytes())[half]
    return labels


class PublicScores:
    """The service: POST a CSV to /score, and get the score of its public half as long as scores are left; GET / tells.

    score: of labels and predictions. labels: the file of `write_labels` in the case's hidden data. id_column, column:
    the header of a submission. most_bytes: of a submission.

    A score is written down before it is told, so that none is told twice as often as case.yaml says, however many calls
    come at once and whatever becomes of the service's process. What is refused as malformed costs nothing, and its
    answer does not depend on a label.
    """

    def __init__(
        self,
        score: Score,
        labels: str = "labels.json",
        id_column: str = "id",
        column: str = "label",
        most_bytes: int = 1 << 20,
    ) -> None:
        self._score = score
        self._labels = labels
        self._columns = [id_column, column]
        self._most_bytes = most_bytes

    def __call__(self, request: Request, service: Service) -> Response:
        limit = service.public_scores
        if limit is None:
            raise ValueError("case.yaml does not say `public_scores` at this service")
        if request.method == "GET" and request.path == "/":
            return self._state(service, limit)
        if request.path != "/score":
            return Response.json({"error": "POST a CSV to /score, or GET / for what is left"}, 404)
        if request.method != "POST":
            return Response.json({"error": "use POST"}, 405)
        # One at a time: count, write down, answer.
        with service.lock:
            return self._submit(request.body, service, limit)

    def _state(self, service: Service, limit: int) -> Response:
        with service.lock:
            used = len(service.journaled(EVENT))
        return Response.json({"columns": self._columns, "limit": limit, "used": used, "left": limit - used})

    def _submit(self, body: bytes, service: Service, limit: int) -> Response:
        used = len(service.journaled(EVENT))
        if used >= limit:
            return Response.json({"error": "no public scores are left", "used": used, "left": 0}, 403)
        public, private = (read_labels(service.hidden / self._labels, half) for half in ("public", "private"))
        try:
            predictions = self._read(body, public.keys() | private.keys())
            # Of both halves: what the public half alone would refuse could tell which ids are in it.
            self._score(private, {it: predictions[it] for it in private})
            value = self._score(public, {it: predictions[it] for it in public})
        except ValueError as error:
            return Response.json({"error": short_text(error, 300), "used": used, "left": limit - used}, 400)
        if not math.isfinite(value):
            return Response.json({"error": "the score is not a finite number", "used": used, "left": limit - used}, 400)
        value = round(value, _MOST_DIGITS)
        service.journal({"event": EVENT, "value": value, "sha256": hashlib.sha256(body).hexdigest()})
        if len(service.journaled(EVENT)) != used + 1:
            # The journal is full: what cannot be counted is not told.
            return Response.json({"error": "no public scores are left", "used": used, "left": 0}, 403)
        return Response.json({"public_score": value, "used": used + 1, "left": limit - used - 1})

    def _read(self, body: bytes, ids: set[str]) -> dict[str, str]:
        """Predictions by id; raises `ValueError` that says what is wrong."""
        if len(body) > self._most_bytes:
            raise ValueError(f"the submission is over {self._most_bytes} bytes")
        try:
            # Numbers of an id column that were written by a spreadsheet stay texts: 7 and 7.0 are two ids.
            rows = list(csv.reader(io.StringIO(body.decode("utf-8-sig"), newline=""), strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"the submission is not a CSV in UTF-8: {error}") from None
        if not rows or rows[0] != self._columns:
            raise ValueError(f"the header must be {','.join(self._columns)}")
        found: dict[str, str] = {}
        for number, row in enumerate(rows[1:], 2):
            if not row:
                continue
            if len(row) != len(self._columns):
                raise ValueError(f"row {number} has {len(row)} fields and not {len(self._columns)}")
            if row[0] in found:
                raise ValueError(f"row {number} repeats the id {short_text(row[0], 40)!r}")
            found[row[0]] = row[1]
        if unknown := sorted(found.keys() - ids)[:_EXAMPLES]:
            raise ValueError(f"unknown ids, such as {', '.join(short_text(it, 40) for it in unknown)}")
        if missing := sorted(ids - found.keys())[:_EXAMPLES]:
            raise ValueError(f"missing ids, such as {', '.join(missing)}")
        return found
