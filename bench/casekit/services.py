"""For authors of services.py: what a stand-in service receives, answers and may keep. Standard library only."""

from __future__ import annotations

import functools
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import Any

MOST_EVENTS = 20_000
MOST_JOURNAL_BYTES = 8 << 20
"""Of one service's journal in one cell. The judge reads all of it."""
FULL = "journal_full"
"""The event that ends a journal with more than these."""
_MOST_BODY = 4096
_MOST_RECORDED = 2000
# What reads the journal must be able to follow it.
_MOST_NESTED = 200


@dataclass(frozen=True)
class Request:
    """One HTTP request from the agent's side."""

    method: str
    path: str
    """Decoded, without the query."""
    query: dict[str, list[str]]
    headers: Message | Mapping[str, str]
    """Case-insensitive."""
    body: bytes


@dataclass(frozen=True)
class Response:
    """The answer to a request."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def json(value: object, status: int = 200) -> Response:
        """An answer in JSON."""
        return Response(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


class Service:
    """One stand-in for the life of one cell."""

    def __init__(
        self,
        name: str,
        hidden: Path,
        seed: int,
        journal: Path,
        phase: str = "agent",
        public_scores: int | None = None,
    ) -> None:
        self.name = name
        self.public_scores = public_scores
        """What case.yaml says of it; None: nothing."""
        self.phase = phase
        """`agent` while the agent works, `judging` while its files are judged: a service of each grading's own."""
        self.hidden = hidden
        """What data.py built for the judge."""
        self.seed = seed
        self.state: dict[str, Any] = {}
        """Lives as long as the cell; take `lock` around it."""
        self.lock = threading.Lock()
        self._journal = journal
        self._journal_lock = threading.Lock()
        # One that an earlier process of this service began goes on.
        written = journal.read_bytes() if journal.is_file() else b""
        if torn := len(written) - written.rfind(b"\n") - 1:
            # It was ended in the middle of a line, which would make the next one unreadable.
            written = written[:-torn]
            os.truncate(journal, len(written))
        ended = bool(written) and json.loads(written[:-1].rpartition(b"\n")[2]).get("event") == FULL
        self._journal_events = MOST_EVENTS + 1 if ended else written.count(b"\n")
        self._journal_bytes = len(written)

    def journaled(self, kind: str) -> list[dict[str, Any]]:
        """The events of this kind so far, also those of an earlier process, whose memory is gone."""
        with self._journal_lock:
            lines = self._journal.read_bytes().split(b"\n")[:-1] if self._journal.is_file() else []
        events = (json.loads(line) for line in lines)
        return [it for it in events if it.get("event") == kind]

    @property
    def full(self) -> bool:
        """Whether the journal has all that it will hold; the host then answers no further request."""
        return self._journal_events > MOST_EVENTS

    def journal(self, event: Mapping[str, Any]) -> None:
        """Write down what happened, before it changes what the service answers; the agent cannot reach it.

        After 20,000 events, 8 MiB, or an event that is nested too deeply to be written, one event `journal_full`
        follows and nothing more; `ws.journal` then fails the check that asks, since it is not known what came after.
        """
        with self._journal_lock:
            if self.full:
                return
            try:
                line = _line(event)
            except (RecursionError, MemoryError):
                line = b""
            self._journal_events += 1
            self._journal_bytes += len(line)
            if not line or self.full or self._journal_bytes > MOST_JOURNAL_BYTES:
                self._journal_events = MOST_EVENTS + 1
                line = _line({"event": FULL})
            # Opened for each line: nothing is lost in a buffer when the host is killed at the end of the cell.
            with self._journal.open("ab") as file:
                file.write(line)


def _line(event: Mapping[str, Any]) -> bytes:
    return json.dumps({"time": time.time(), **event}).encode() + b"\n"


Handler = Callable[[Request, Service], Response]


def record_calls(handler: Handler) -> Handler:
    """Decorate a service so that each call stands in its journal as a `call`: method, path, query, body and status.

    The check reads them with `bench.judge.service_calls`. Of a body up to 4 KiB the JSON value or else the text is
    kept, of another one the size alone; path and query are kept up to 2,000 characters each. A call whose handler
    raises has the status 0.
    """

    @functools.wraps(handler)
    def recorded(request: Request, service: Service) -> Response:
        status = 0
        try:
            response = handler(request, service)
            status = response.status
            return response
        finally:
            query = dict(request.query) if len(str(request.query)) <= _MOST_RECORDED else {}
            service.journal(
                {
                    "event": "call",
                    "method": request.method[:20],
                    "path": request.path[:_MOST_RECORDED],
                    "query": query,
                    "body": _recorded(request.body),
                    "body_bytes": len(request.body),
                    "status": status,
                }
            )

    return recorded


def _recorded(body: bytes) -> Any:
    """What of a body is worth keeping."""
    if not body or len(body) > _MOST_BODY:
        return None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    if text.count("[") + text.count("{") > _MOST_NESTED:
        return text
    try:
        return json.loads(text, parse_constant=str)
    except ValueError:
        return text
