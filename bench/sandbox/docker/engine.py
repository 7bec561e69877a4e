"""A container engine of this machine, spoken to over its Unix socket. Standard library only.

For what happens to every cell and at every start of a run: the engine's own client takes a fifth of a second a job, and
the official library a tenth to import, once for every attendant. What is needed here is a handful of requests of an
interface that has been stable for years, and that Podman speaks, too. All else is in `bench.sandbox.docker.client`.
"""

from __future__ import annotations

import json
import socket
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_ANSWER_S = 120.0
_REMOVE_S = 30.0
_LOOK_UP_S = 20.0
_PART = 1 << 16
GONE = (404, 409)
"""Statuses of a request about a container that is not there, or is just being removed."""


class EngineError(Exception):
    """The engine refused, failed, or is not there.

    status: of HTTP; 0 when there was no answer.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Engine:
    """The engine that listens at a Unix socket."""

    def __init__(self, address: Path) -> None:
        self.address = address

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, Any] | None = None,
        timeout_s: float = _ANSWER_S,
    ) -> Any:
        """The answer to one request, parsed from JSON; raises `EngineError`."""
        try:
            with self.send(method, path, body, query, timeout_s) as pending:
                while pending.more():
                    continue
                return pending.answer()
        except OSError as error:
            raise EngineError(0, f"no answer from {self.address}: {error.strerror or error}") from None

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, Any] | None = None,
        timeout_s: float = _ANSWER_S,
    ) -> Pending:
        """Ask without waiting for the answer. Raises `OSError`."""
        content = b"" if body is None else json.dumps(body).encode()
        text = {name: value if isinstance(value, str) else json.dumps(value) for name, value in (query or {}).items()}
        target = f"{path}?{urllib.parse.urlencode(text)}" if text else path
        # The older protocol has no chunks and no second request: its answer is everything up to the end.
        head = f"{method} {target} HTTP/1.0\r\nHost: engine\r\nContent-Type: application/json\r\n"
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(timeout_s)
            connection.connect(str(self.address))
            connection.sendall(head.encode() + f"Content-Length: {len(content)}\r\n\r\n".encode() + content)
        except OSError:
            connection.close()
            raise
        return Pending(connection)

    def image_id(self, name: str) -> str:
        """Content id of an image; empty when there is none of this name."""
        try:
            return str(self.call("GET", f"/images/{name}/json", timeout_s=_LOOK_UP_S)["Id"])
        except EngineError as error:
            if error.status == 404:
                return ""
            raise

    def remove(self, container: str) -> None:
        """Remove a container, running or not; one that is not there is fine."""
        try:
            self.call("DELETE", f"/containers/{container}", query={"force": "1", "v": "1"}, timeout_s=_REMOVE_S)
        except EngineError as error:
            if error.status not in GONE:
                raise


class Pending:
    """A request whose answer is still to come; readable, as a file is, whenever a part of it is there."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._data = bytearray()

    def __enter__(self) -> Pending:
        return self

    def __exit__(self, *ended: object) -> None:
        self._connection.close()

    def fileno(self) -> int:
        return self._connection.fileno()

    def more(self) -> bool:
        """Take the next part; False when there is none: the answer is complete, or the engine gone or silent."""
        try:
            part = self._connection.recv(_PART)
        except OSError:
            return False
        self._data += part
        return bool(part)

    def answer(self) -> Any:
        """The whole answer, parsed from JSON; raises `EngineError`."""
        head, _, content = bytes(self._data).partition(b"\r\n\r\n")
        words = head.split(b"\r\n")[0].split()
        if len(words) < 2 or not words[1].isdigit():
            raise EngineError(0, "the engine closed the connection")
        status = int(words[1])
        try:
            parsed = json.loads(content) if content.strip() else None
        except ValueError:
            parsed = content.decode("utf-8", "replace")
        if status >= 400:
            message = parsed.get("message", "") if isinstance(parsed, dict) else str(parsed or "")
            raise EngineError(status, message.strip() or f"status {status}")
        return parsed
