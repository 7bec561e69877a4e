"""HTTP/1.1 over a Unix socket: reads requests, checks the key, passes answers and streams."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import h11

from bench.gateway.asked import Asked
from bench.gateway.backends import Response
from bench.gateway.calls import CallHandler
from bench.gateway.google import as_array, listed_models
from bench.gateway.intake import LARGE, Intake
from bench.gateway.request import MAX_BODY_BYTES, ROUTES, Dialect, RequestRefused
from bench.gateway.streams import StreamLost

_MOST_CONNECTIONS = 256
_IDLE_S = 120.0
_CHUNK = 1 << 16
_LAST_ANSWERS_S = 3.0
"""In which answers that nobody waits for any more may still come to their end, at the end of a cell."""
_JSON = [("Content-Type", "application/json")]
_GOOGLE = [f"/v1beta/models/NAME:{method}" for method in ("generateContent", "streamGenerateContent", "countTokens")]


class _ClientGone(Exception):
    """The other end is no longer there, or does not speak HTTP."""


class Endpoint:
    """The listening socket of one cell."""

    def __init__(self, path: Path, calls: CallHandler, keys: Mapping[str, list[str]]) -> None:
        self._path = path
        self._calls = calls
        self._keys = keys
        self._clients: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._intake = Intake()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._accept, self._path, limit=_CHUNK * 4, backlog=256)
        self._path.chmod(0o600)

    async def stop(self) -> None:
        """Stop listening, make the keys useless, remove the socket and cut every connection.

        Answers that are under way are read for a little longer, so that what they cost is known.
        """
        self._keys = {}
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)
        tasks = list(self._clients)
        for writer in self._clients.values():
            writer.transport.abort()
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_ANSWERS_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._clients) >= _MOST_CONNECTIONS:
            writer.close()
            return
        self._clients[task] = writer
        try:
            await _Connection(reader, writer, self._intake).serve(self._answer)
        except (_ClientGone, ConnectionError, TimeoutError, h11.ProtocolError):
            pass
        finally:
            self._clients.pop(task, None)
            writer.transport.abort()

    async def _answer(self, asked: Asked, body: bytes | None) -> Response:
        """The answer to a request; `body` None: it is too large."""
        if asked.method == "CONNECT" or "://" in asked.plain:
            self._calls.observations.proxied(asked.plain)
        try:
            roles = self._roles(asked)
            if asked.method != "POST":
                return self._models(asked, roles)
            if body is None:
                raise RequestRefused(413, "too_large", f"a body has at most {MAX_BODY_BYTES} bytes")
            if (coding := asked.headers.get("content-encoding", "identity").lower()) != "identity":
                message = f"a body compressed as {coding[:60]!r} is not read here; send it uncompressed"
                raise RequestRefused(415, "unsupported_encoding", message)
            assert asked.dialect is not None
            response = await self._calls.handle(asked.dialect, roles, body, asked.headers, asked.target)
            if asked.target is not None and asked.target.array and response.chunks is not None:
                kept = [it for it in response.headers if it[0].lower() != "content-type"]
                return replace(response, headers=[*kept, *_JSON], chunks=as_array(response.chunks))
            return response
        except RequestRefused as refused:
            return _refusal(refused, asked.spelling)
        except Exception as error:
            # Over what the agent has sent, a lack of memory among it.
            broken = RequestRefused(500, "gateway_broken", f"the gateway failed: {type(error).__name__}")
            return _refusal(broken, asked.spelling)

    def _roles(self, asked: Asked) -> list[str]:
        """The roles that the bearer of the request's key may ask for."""
        models = asked.route == "/models" or asked.route.startswith("/models/")
        # Of Google's protocol: the end of the path names what is to be done.
        models = models and not (asked.method == "POST" and ":" in asked.route)
        if asked.dialect is None and not models:
            known = ", ".join([*(f"/v1{path}" for path in [*ROUTES, "/models"]), *_GOOGLE])
            raise RequestRefused(404, "not_found", f"{asked.plain[:100]!r} is not served here; served are: {known}")
        wanted = ("GET", "HEAD") if models else ("POST",)
        if asked.method not in wanted:
            raise RequestRefused(405, "method_not_allowed", f"{asked.route} takes {wanted[0]}")
        tokens = [token.encode("utf-8", "replace") for token in asked.tokens]
        for key, roles in self._keys.items():
            # In constant time; of text it takes ASCII alone, hence bytes.
            if any(secrets.compare_digest(token, key.encode()) for token in tokens):
                return roles
        raise RequestRefused(401, "invalid_api_key", "this is not the key of this run, or the run is over")

    def _models(self, asked: Asked, roles: list[str]) -> Response:
        name = unquote(asked.route.removeprefix("/models").strip("/"))
        if name and self._calls.names.role(name, roles) is None:
            raise RequestRefused(404, "model_not_found", f"no model {name[:100]!r} in this run")
        names = [name] if name else self._calls.names.listed(roles)
        listed: list[dict[str, object]]
        page: dict[str, object]
        if asked.google:
            listed, page = listed_models(names), {"models": listed_models(names)}
        elif "anthropic-version" in asked.headers:
            created = "2024-01-01T00:00:00Z"
            listed = [{"type": "model", "id": it, "display_name": it, "created_at": created} for it in names]
            page = {"data": listed, "has_more": False}
            page |= {"first_id": names[0], "last_id": names[-1]}
        else:
            listed = [{"id": it, "object": "model", "created": 0, "owned_by": "ml-dev-bench"} for it in names]
            page = {"object": "list", "data": listed}
        return Response(200, _JSON, json.dumps(listed[0] if name else page).encode("ascii"))


def _refusal(refused: RequestRefused, dialect: Dialect | None) -> Response:
    # OpenAI's own clients repeat calls by themselves unless told not to.
    headers = [*_JSON, ("X-Should-Retry", "false")]
    return Response(refused.status, headers, json.dumps(refused.body(dialect)).encode("ascii"))


class _Connection:
    """One client's connection, request after request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, intake: Intake) -> None:
        self._reader = reader
        self._writer = writer
        self._intake = intake
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 17)

    async def serve(self, answer: Callable[[Asked, bytes | None], Awaitable[Response]]) -> None:
        while True:
            async with AsyncExitStack() as held:
                try:
                    asked, body = await self._request(held)
                except h11.RemoteProtocolError as error:
                    await self._complain(error)
                    return
                try:
                    await held.enter_async_context(self._intake.room_for(body or b""))
                except RequestRefused as refused:
                    await self._respond(_refusal(refused, asked.spelling))
                else:
                    response = await answer(asked, body)
                    # Of an answer to HEAD the client reads the head alone; h11 would not send more.
                    await self._respond(response if asked.method != "HEAD" else replace(response, content=b""))
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _request(self, held: AsyncExitStack) -> tuple[Asked, bytes | None]:
        """Head and body; `held` keeps a large one's place until it is answered."""
        event = await self._event(_IDLE_S)
        if not isinstance(event, h11.Request):
            raise _ClientGone
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
        asked = Asked(event.method.decode("latin-1"), event.target.decode("latin-1"), headers)
        parts: list[bytes] = []
        size = 0
        large = False
        while not isinstance(event, h11.EndOfMessage):
            if self._http.they_are_waiting_for_100_continue:
                self._send(h11.InformationalResponse(status_code=100, headers=[]))
            event = await self._event(_IDLE_S)
            if isinstance(event, h11.Data):
                size += len(event.data)
                if size > LARGE and not large:
                    large = True
                    await held.enter_async_context(self._intake.large)
                # What is too large is read all the same: closing over unread bytes would destroy the answer.
                if size <= MAX_BODY_BYTES:
                    parts.append(bytes(event.data))
                elif size > 4 * MAX_BODY_BYTES:
                    raise _ClientGone
            elif isinstance(event, h11.ConnectionClosed):
                raise _ClientGone
        return asked, b"".join(parts) if size <= MAX_BODY_BYTES else None

    async def _event(self, patience: float) -> h11.Event:
        while True:
            event = self._http.next_event()
            if event is h11.PAUSED:
                raise _ClientGone
            if event is not h11.NEED_DATA:
                assert not isinstance(event, type)
                return event
            async with asyncio.timeout(patience):
                self._http.receive_data(await self._reader.read(_CHUNK))

    async def _respond(self, response: Response) -> None:
        framing = ("Content-Length", str(len(response.content)))
        if response.chunks is not None:
            framing = ("Transfer-Encoding", "chunked")
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in [*response.headers, framing]]
        head = h11.Response(status_code=response.status, headers=headers)
        if response.chunks is None:
            self._send(head, h11.Data(data=response.content), h11.EndOfMessage())
            await self._writer.drain()
            return
        async with aclosing(response.chunks) as chunks:
            self._send(head)
            try:
                async for chunk in chunks:
                    self._send(h11.Data(data=chunk))
                    await self._writer.drain()
            except StreamLost:
                # Without the end of the message the client knows that something is missing.
                raise _ClientGone from None
        self._send(h11.EndOfMessage())
        await self._writer.drain()

    def _send(self, *events: h11.Event) -> None:
        # In one write: a client that reads once must find the whole of a short answer.
        self._writer.write(b"".join(self._http.send(event) or b"" for event in events))

    async def _complain(self, error: h11.RemoteProtocolError) -> None:
        """Say what is wrong with a request that is not HTTP, as far as the state of the connection allows."""
        with contextlib.suppress(h11.LocalProtocolError, ConnectionError):
            body = json.dumps(RequestRefused(400, "invalid_http", str(error)).body()).encode("ascii")
            await self._respond(Response(error.error_status_hint, [*_JSON, ("Connection", "close")], body))
