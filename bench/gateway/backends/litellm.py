"""Reaches any other provider through litellm, which is imported here and only when such a model is used."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from typing import Any

from bench.gateway.answers import Rule, rule_of
from bench.gateway.backends import BackendError, Response, TransportFault, lost
from bench.gateway.backends.http_client import NativeTransport
from bench.gateway.request import Call, Dialect, Json, RequestRefused

_JSON = [("content-type", "application/json")]
_FUNCTIONS: dict[Dialect, str] = {
    "chat": "acompletion", "responses": "aresponses", "messages": "anthropic_messages", "embeddings": "aembedding",
}  # fmt: skip
"""The functions of litellm that answer."""
_EVENTS = [("content-type", "text/event-stream; charset=utf-8")]


class LitellmTransport:
    """One provider by way of litellm, whose keys it finds in the environment of this process."""

    def __init__(self) -> None:
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else its import asks the network, and waits
        import litellm

        litellm.telemetry = False
        litellm.suppress_debug_info = True
        # A setting that this provider does not know is left out; else the whole call would fail.
        litellm.drop_params = True
        self._litellm: Any = litellm

    async def send(self, call: Call, body: Json, timeout_s: float) -> Response:
        asked = self._function(call)
        try:
            answer = await asked(**body, timeout=timeout_s, num_retries=0, max_retries=0)
            if not call.stream:
                return Response(200, _JSON, _text(answer).encode())
            return Response(200, _EVENTS, chunks=_events(call, answer))
        except Exception as error:
            status = getattr(error, "status_code", None)
            if not isinstance(status, int) or "Timeout" in type(error).__name__:
                raise _fault(error) from None
            if "APIConnection" in type(error).__name__:
                raise TransportFault(
                    "unreachable", f"the upstream cannot be reached ({type(error).__name__})", billed=False
                ) from None
            said = RequestRefused(status, type(error).__name__, str(error)[:2000]).body(call.dialect)
            response = getattr(error, "response", None)
            waits = [("retry-after", value)] if (value := getattr(response, "headers", {}).get("retry-after")) else []
            return Response(status, [*_JSON, *waits], json.dumps(said).encode())

    def _function(self, call: Call) -> Any:
        if call.dialect not in _FUNCTIONS:
            raise BackendError(404, "not_supported", f"this provider does not speak {call.dialect}", infra=False)
        return getattr(self._litellm, _FUNCTIONS[call.dialect])


class NativeOrLitellm:
    """A provider in its own protocols, and litellm, loaded at the first such call, for all others."""

    def __init__(
        self, model: str, native: NativeTransport | None, dialects: Collection[Dialect], translate: bool
    ) -> None:
        self._model = model
        self._native = native
        self._dialects = dialects
        self._translate = translate
        self._litellm: LitellmTransport | None = None

    def rule(self, call: Call) -> Rule:
        if self._native is not None and call.dialect in self._dialects:
            return self._native.rule(call)
        return rule_of(call.dialect, "litellm")

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        """Those in which this provider can be expected to answer with its model."""
        return tuple(it for it in self._dialects if it != "count_tokens") or ("chat",)

    async def send(self, call: Call, body: Json, timeout_s: float) -> Response:
        if self._native is not None and call.dialect in self._dialects:
            return await self._native.send(call, body, timeout_s)
        if not self._translate or call.dialect == "count_tokens":
            message = f"the provider of this model does not speak {call.dialect}"
            raise BackendError(404, "not_supported", message, infra=False)
        if self._litellm is None:
            self._litellm = await asyncio.to_thread(LitellmTransport)
        return await self._litellm.send(call, {**body, "model": self._model}, timeout_s)

    async def close(self) -> None:
        if self._native is not None:
            await self._native.close()


async def _events(call: Call, answer: AsyncIterator[Any]) -> AsyncGenerator[bytes, None]:
    try:
        async for part in answer:
            if isinstance(part, bytes):
                yield part
            elif isinstance(part, str):
                yield part.encode()
            else:
                text = _text(part) if call.dialect != "chat" else _plain_chunk(part)
                kind = json.loads(text).get("type") if call.dialect != "chat" else None
                yield (f"event: {kind}\n" if kind else "").encode() + f"data: {text}\n\n".encode()
    except Exception as error:
        raise _fault(error) from None
    if call.dialect == "chat":
        yield b"data: [DONE]\n\n"


def _plain_chunk(part: object) -> str:
    """A chunk of a chat stream without what only litellm's own client understands: others fail on it."""
    chunk = json.loads(_text(part))
    for choice in chunk.get("choices") or []:
        delta = choice.get("delta") or {}
        for name in ("thinking_blocks", "provider_specific_fields"):
            delta.pop(name, None)
    return json.dumps(chunk)


def _text(answer: object) -> str:
    if hasattr(answer, "model_dump_json"):
        return str(answer.model_dump_json(exclude_none=True))
    return json.dumps(answer)


def _fault(error: Exception) -> TransportFault:
    fault = lost(error)
    if "Timeout" in type(error).__name__:
        fault.kind = "timeout"
    return fault
