"""Where an agent at work may ask: one address, answered by a person or by rules, with every question written down.

The questions are the agent's, so their number and size are bounded; waiting for an answer uses the agent's time.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bench.base.files import sha256_file
from bench.base.model import read_yaml
from bench.casekit.services import Request, Response, Service
from bench.cell.services import UnixServer
from bench.cell.watch import CellWatch
from bench.formats.help import HELP_LOG, LONGEST_TEXT, MOST_QUESTIONS, HelpGiven, HelpOffer, HelpRules

ADDRESS = "BENCH_ASK_URL"
SOCKET = "bench.ask"
"""Among the sockets of a job. No service of a case can have this name."""
_MOST_BODY = 64 << 10
_MOST_AT_ONCE = 4
_BACKLOG = 16


class Helper(Protocol):
    """Answers questions, of several cells side by side."""

    @property
    def offer(self) -> HelpOffer:
        """Who it is, for plan and record."""

    def answer(self, question: str, cell: str, until: float, over: threading.Event) -> str | None:
        """The answer; None where there is none. until: monotonic seconds; over: set when the agent has ended."""


@dataclass(frozen=True)
class ScriptedHelper:
    """Answers by rules."""

    rules: HelpRules
    digest: str

    @classmethod
    def read(cls, path: Path) -> ScriptedHelper:
        """Raises `UserError`."""
        return cls(read_yaml(path, HelpRules), sha256_file(path))

    @property
    def offer(self) -> HelpOffer:
        return HelpOffer(by="scripted", rules=self.digest)

    def answer(self, question: str, cell: str, until: float, over: threading.Event) -> str | None:
        del cell, until, over
        return self.rules.answer(question)


@dataclass(frozen=True)
class _Question:
    text: str
    time: float
    """Unix seconds."""
    began: float
    """Monotonic seconds."""


@dataclass
class HelpDesk:
    """The questions of one cell."""

    helper: Helper
    cell: str
    deadline: float
    """Monotonic seconds."""
    watch: CellWatch
    over: threading.Event = field(default_factory=threading.Event)
    _began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _asked: int = 0
    _answered: int = 0
    _open: dict[int, _Question] = field(default_factory=dict)
    """By number: those that wait for an answer."""

    def given(self) -> HelpGiven:
        """What the record says; after the desk has closed."""
        with self._lock:
            return HelpGiven(**self.helper.offer.model_dump(), questions=self._asked, answered=self._answered)

    def __call__(self, request: Request, service: Service) -> Response:
        if request.method != "POST":
            return Response.json({"error": 'POST {"question": "..."}', "left": MOST_QUESTIONS - self._asked}, 405)
        question = _question(request.body)
        if not question or len(question) > LONGEST_TEXT:
            return Response.json({"error": f"a question has 1 to {LONGEST_TEXT} characters"}, 400)
        with self._lock:
            if self._asked >= MOST_QUESTIONS or self.over.is_set():
                return Response.json({"error": "no questions are left", "left": 0}, 403)
            self._asked += 1
            number = self._asked
            self._open[number] = _Question(question, time.time(), time.monotonic())
        with self.watch.asking(self.cell):
            said = self.helper.answer(question, self.cell, self.deadline, self.over)
        answer = said[:LONGEST_TEXT] if said else None
        with self._lock:
            # Where the agent is gone by now, the question is written down already.
            if number in self._open:
                self._note(service, number, answer)
                self._answered += answer is not None
        return Response.json({"answer": answer, "left": MOST_QUESTIONS - number})

    def close(self, service: Service) -> None:
        """Nothing is asked or answered from now on, and nothing more is written down."""
        with self._lock:
            self.over.set()
            for number in sorted(self._open):
                self._note(service, number, None)

    def _note(self, service: Service, number: int, answer: str | None) -> None:
        asked = self._open.pop(number)
        service.journal(
            {
                "time": round(asked.time, 3),
                "event": "question",
                "number": number,
                "seconds": round(asked.began - self._began, 3),
                "question": asked.text,
                "answer": answer,
                "waited_s": round(time.monotonic() - asked.began, 3),
            }
        )


def _question(body: bytes) -> str:
    """The text of a body that is JSON with a `question`, or plain text; empty where it is neither."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return ""
    with contextlib.suppress(ValueError, RecursionError):
        document = json.loads(text)
        if isinstance(document, dict):
            found = document.get("question")
            text = found if isinstance(found, str) else ""
    # Half of a surrogate pair, which JSON can spell, cannot be written down.
    return text.encode("utf-8", "replace").decode().strip()


class _Server(UnixServer):
    most_body = _MOST_BODY
    most_at_once = _MOST_AT_ONCE


@contextlib.contextmanager
def open_desk(
    helper: Helper | None, cell: str, deadline: float, watch: CellWatch, trace: Path, sockets: Path
) -> Iterator[tuple[HelpDesk | None, dict[str, Path]]]:
    """The desk of a cell and its socket by name; without a helper there is neither."""
    if helper is None:
        yield None, {}
        return
    desk = HelpDesk(helper, cell, deadline, watch)
    path = sockets / f"{SOCKET}.sock"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        # Its folder is closed to other users; those of a container that is handed the file come by.
        path.chmod(0o666)
        listener.listen(_BACKLOG)
        service = Service("ask", Path("/nonexistent"), 0, trace / HELP_LOG)
        server = _Server(listener, desk, service)
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="ask", daemon=True)
        thread.start()
        try:
            yield desk, {SOCKET: path}
        finally:
            desk.close(service)
            server.shutdown()
            path.unlink(missing_ok=True)
