"""Reaches any other provider through litellm, which is imported here and only when such a model is used."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from typing import Any

from bench.gateway.backends import BackendError, Response, TransportFault, lost
from bench.gateway.backends.google_translation import as_chat, as_google
from bench.gateway.backends.http_client import NativeTransport
from bench.gateway.json_values import Json
from bench.gateway.request import COUNTS, ITEMS, Call, Dialect, RequestRefused
from bench.gateway.schema_bound import can_be_written_out
from bench.gateway.usage import Rule, rule_of

_JSON = [("content-type", "application/json")]
_FUNCTIONS: dict[Dialect, str] = {
    "chat": "acompletion", "responses": "aresponses", "messages": "anthropic_messages", "embeddings": "aembedding",
}  # fmt: skip
"""The functions of litellm that answer."""
_FIELDS: dict[Dialect, str] = {
    "chat": "messages model temperature top_p top_k n stream stream_options stop max_tokens max_completion_tokens"
    " presence_penalty frequency_penalty logit_bias user response_format seed tools tool_choice parallel_tool_calls"
    " logprobs top_logprobs reasoning_effort thinking functions function_call modalities verbosity service_tier"
    " prompt_cache_key safety_identifier",
    "responses": "input model instructions include max_output_tokens max_tool_calls parallel_tool_calls store stream"
    " previous_response_id reasoning service_tier temperature text tool_choice tools top_p top_logprobs truncation user"
    " prompt_cache_key safety_identifier",
    "messages": "messages model max_tokens system stop_sequences stream temperature thinking tool_choice tools top_k"
    " top_p metadata output_config context_management service_tier",
    "embeddings": "input model dimensions encoding_format user",
}
"""What of a body goes to litellm. Its functions take addresses, keys, headers and fallbacks from the same arguments,
and none of these is the agent's to choose."""
_MARK, _LIFE = "cache_control", "ttl"
_OWN_DATA = frozenset({"parameters", "input_schema", "output_schema", "arguments", "input"})
"""What is in these is an agent's own, whatever its fields are called."""
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
        taken: set[str] = set()
        known = {
            name: plain_caches(value, str(body["model"]), taken)
            for name, value in body.items()
            if name in _FIELDS[call.dialect].split()
        }
        call.removed += sorted(taken - set(call.removed))
        # For some providers it replaces references by what they name, without a bound and before it asks anybody.
        if not can_be_written_out(value for name, value in known.items() if name != ITEMS[call.dialect]):
            refused = RequestRefused(400, "too_large", "with their references replaced, the schemas are too large")
            return Response(400, _JSON, json.dumps(refused.body(call.dialect)).encode())
        try:
            answer = await asked(**known, timeout=timeout_s, num_retries=0, max_retries=0)
            if not call.stream:
                return Response(200, _JSON, _text(answer).encode())
            # For some providers the request is sent when the first part is asked for: until then it can be refused.
            parts = aiter(answer)
            first = await anext(parts, None)
            if first is None:
                raise TransportFault("lost", "the upstream's stream is empty", billed=True)
            return Response(200, _EVENTS, chunks=_events(call, first, parts))
        except TransportFault:
            raise
        except Exception as wrapped:
            # What fails in a stream comes within an error that speaks of another model to turn to.
            error = getattr(wrapped, "original_exception", None) or wrapped
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


def plain_caches(value: Any, model: str, taken: set[str]) -> Any:
    """`value` without marks for caches that are billed by more than the usage of an answer; adds these to `taken`.

    For Gemini's models litellm stores what is marked at the provider, for as long as the mark says: that is billed by
    the hour, in no answer, and goes on after the cell. For Claude's a mark is billed in the answer; how long its cache
    lives decides the price, and gets lost where the answer is translated.
    """
    if isinstance(value, list):
        return [plain_caches(it, model, taken) for it in value]
    if not isinstance(value, dict):
        return value
    made: Json = {}
    for name, it in value.items():
        if name != _MARK:
            made[name] = it if name in _OWN_DATA else plain_caches(it, model, taken)
        elif not isinstance(it, dict) or "claude" not in model.rpartition("/")[2].lower():
            taken.add(_MARK)
        else:
            taken |= {f"{_MARK}.{_LIFE}"} & {f"{_MARK}.{part}" for part in it}
            made[name] = {part: held for part, held in it.items() if part != _LIFE}
    return made


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
        # What Google's protocol is translated from has been read by then.
        return rule_of(call.dialect, "litellm")

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        """Those in which this provider can be expected to answer with its model."""
        return tuple(it for it in self._dialects if it not in COUNTS) or ("chat",)

    async def send(self, call: Call, body: Json, timeout_s: float) -> Response:
        if self._native is not None and call.dialect in self._dialects:
            return await self._native.send(call, body, timeout_s)
        if call.dialect == "generate" and (self._translate or "chat" in self._dialects):
            chat, data = as_chat(call, body)
            return await as_google(call, await self.send(chat, data, timeout_s), self.rule(chat))
        if not self._translate or call.dialect in COUNTS:
            message = f"the provider of this model does not speak {call.dialect}"
            raise BackendError(404, "not_supported", message, infra=False)
        if self._litellm is None:
            self._litellm = await asyncio.to_thread(LitellmTransport)
        return await self._litellm.send(call, {**body, "model": self._model}, timeout_s)

    async def close(self) -> None:
        if self._native is not None:
            await self._native.close()


async def _events(call: Call, first: Any, parts: AsyncIterator[Any]) -> AsyncGenerator[bytes, None]:
    try:
        yield _event(call, first)
        async for part in parts:
            yield _event(call, part)
    except Exception as error:
        raise _fault(error) from None
    if call.dialect == "chat":
        yield b"data: [DONE]\n\n"


def _event(call: Call, part: Any) -> bytes:
    if isinstance(part, bytes | str):
        return part if isinstance(part, bytes) else part.encode()
    text = _text(part) if call.dialect != "chat" else _plain_chunk(part)
    kind = json.loads(text).get("type") if call.dialect != "chat" else None
    return (f"event: {kind}\n" if kind else "").encode() + f"data: {text}\n\n".encode()


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
