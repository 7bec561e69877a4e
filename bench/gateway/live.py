"""The live backend: OpenAI-compatible upstreams, with bounded retries. The provider's key never leaves this module."""

from __future__ import annotations

import json
import os
import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from bench.errors import UserError
from bench.gateway.backend import BackendError, Reply
from bench.gateway.meter import Tariff
from bench.gateway.prices import find_prices
from bench.gateway.protocol import ChatCall
from bench.record import Tokens

if TYPE_CHECKING:
    import httpx

PREFIX = "openai/"
_PUBLIC_URL = "https://api.openai.com/v1"
_MAX_ANSWER_BYTES = 20_000_000
_AGENTS_FAULT = frozenset({400, 413, 422})
_PASSING = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
_NO_MONEY = "insufficient_quota"
"""OpenAI says this with 429; waiting does not help."""


@dataclass(frozen=True)
class Patience:
    """How long a call may take and how often it is tried."""

    tries: int = 5
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    """Also the longest Retry-After that is waited for."""
    connect_s: float = 10.0
    answer_s: float = 600.0


class _Details(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    cached_tokens: int | None = Field(None, ge=0)
    reasoning_tokens: int | None = Field(None, ge=0)


class _Usage(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Choice(BaseModel):
    model_config = ConfigDict(extra="ignore")

    message: dict[str, JsonValue]
    finish_reason: str | None = None


class _Completion(BaseModel):
    model_config = ConfigDict(extra="ignore")

    model: str = ""
    choices: list[_Choice] = Field(min_length=1)


@dataclass(frozen=True)
class _Trouble:
    """A try that brought nothing but may be repeated."""

    message: str
    wait_s: float | None = None
    billed: bool = False
    """The upstream may have done the work."""


def normalise_usage(usage: JsonValue) -> Tokens | None:
    """OpenAI's counts as ours: its input includes cached tokens. None when they are missing or make no sense."""
    try:
        read = _Usage.model_validate(usage)
    except ValidationError:
        return None
    cached = (read.prompt_tokens_details.cached_tokens if read.prompt_tokens_details else 0) or 0
    reasoning = (read.completion_tokens_details.reasoning_tokens if read.completion_tokens_details else 0) or 0
    if cached > read.prompt_tokens or reasoning > read.completion_tokens:
        return None
    return Tokens(
        input_uncached=read.prompt_tokens - cached,
        cache_read=cached,
        output=read.completion_tokens,
        reasoning=reasoning,
    )


class LiveBackend:
    """Forwards calls to one OpenAI-compatible upstream."""

    def __init__(self, model: str, environment: Mapping[str, str], deadline: float, patience: Patience) -> None:
        import httpx  # only a live run needs it

        self._key = environment.get("OPENAI_API_KEY", "")
        if not self._key:
            message = f"model {model!r} needs OPENAI_API_KEY, which is not set"
            raise UserError(message, remedy="set it, or use a replay/ model")
        address = environment.get("OPENAI_BASE_URL") or _PUBLIC_URL
        if not address.startswith(("http://", "https://")):
            message = "OPENAI_BASE_URL is not an http(s) address"
            raise UserError(message, remedy="correct it, or unset it for OpenAI's own")
        self._name = model.removeprefix(PREFIX)
        self._tariff = Tariff(model, find_prices(model))
        self._deadline = deadline
        self._patience = patience
        self._closing = threading.Event()
        self._client: httpx.Client = httpx.Client(
            base_url=address,
            headers={
                "Authorization": f"Bearer {self._key}",
                "Content-Type": "application/json",
                "Accept-Encoding": "identity",
            },
            follow_redirects=False,
        )

    @property
    def tariff(self) -> Tariff:
        return self._tariff

    def complete(self, call: ChatCall, lost: Callable[[], bool]) -> Reply:
        body = json.dumps(call.upstream(self._name)).encode("ascii")
        for retries in range(self._patience.tries):
            outcome = self._try(body, retries)
            if isinstance(outcome, Reply):
                return outcome
            affordable = lost() if outcome.billed else True
            if self._closing.is_set() or time.time() >= self._deadline:
                raise _out_of_time(retries)
            wait = self._wait_s(outcome, retries)
            if retries + 1 == self._patience.tries or not affordable or wait is None:
                raise _broken(f"{outcome.message}, after {retries + 1} tries", retries)
            self._closing.wait(wait)
        raise _broken("no try was allowed", 0)

    def close(self) -> None:
        """Stop waiting and drop the connections; calls under way end with an error."""
        self._closing.set()
        self._client.close()

    def _try(self, body: bytes, retries: int) -> Reply | _Trouble:
        import httpx

        left = max(self._deadline - time.time(), 0.1)
        timeout = httpx.Timeout(min(self._patience.answer_s, left), connect=min(self._patience.connect_s, left))
        try:
            with self._client.stream("POST", "chat/completions", content=body, timeout=timeout) as answer:
                return self._read(answer, retries)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            return _Trouble(f"the upstream cannot be reached ({type(error).__name__})")
        except (httpx.HTTPError, httpx.StreamError, RuntimeError) as error:
            # RuntimeError is what httpx says when `close` took the client away.
            return _Trouble(f"the upstream's answer was lost ({type(error).__name__})", billed=True)

    def _read(self, answer: httpx.Response, retries: int) -> Reply | _Trouble:
        content = bytearray()
        end = min(time.time() + self._patience.answer_s, self._deadline)
        for chunk in answer.iter_bytes():
            content += chunk
            # httpx's timeout starts anew with every byte.
            if time.time() > end:
                return _Trouble("the upstream's answer was too slow", billed=True)
            if len(content) > _MAX_ANSWER_BYTES:
                raise _broken(f"the upstream's answer is larger than {_MAX_ANSWER_BYTES} bytes", retries)
        status = answer.status_code
        if status == 200:
            return _reply(bytes(content), retries) or _Trouble("the upstream's answer is not a completion", billed=True)
        # What 401 and 403 say may hold parts of the key, and no agent can mend it.
        said = "" if status in (401, 403) else self._reason(bytes(content))
        if status in _AGENTS_FAULT:
            message = f"the model's provider says: {said}"
            raise BackendError(status, "upstream_refused", message, infra=False, retries=retries)
        if status not in _PASSING or _NO_MONEY in said:
            raise _broken(f"the upstream answered {status} {said}".rstrip(), retries)
        return _Trouble(f"the upstream answered {status}", wait_s=_retry_after(answer.headers.get("retry-after")))

    def _reason(self, content: bytes) -> str:
        """The provider's explanation in one line, without the key."""
        try:
            error = json.loads(content)["error"]
            text = f"{error.get('message')} [{error.get('code') or error.get('type')}]"
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            text = content[:500].decode("utf-8", "replace")
        return " ".join(text.replace(self._key, "[key]").split())[:500]

    def _wait_s(self, trouble: _Trouble, retries: int) -> float | None:
        """Seconds until the next try: what the provider asks for, else full jitter; None: longer than we wait."""
        longest = self._patience.longest_wait_s
        if trouble.wait_s is not None:
            return trouble.wait_s if trouble.wait_s <= min(longest, self._deadline - time.time()) else None
        return random.uniform(0, min(self._patience.first_wait_s * 2**retries, longest))


def live_backend(model: str, deadline: float) -> LiveBackend:
    """The backend for `model`, with key and address from this process's environment."""
    return LiveBackend(model, os.environ, deadline, Patience())


def _reply(content: bytes, retries: int) -> Reply | None:
    try:
        body = json.loads(content)
        completion = _Completion.model_validate(body)
    except (ValueError, RecursionError):
        return None
    choice = completion.choices[0]
    usage = normalise_usage(body.get("usage"))
    return Reply(body, choice.message, choice.finish_reason or "", usage, completion.model, retries)


def _retry_after(value: str | None) -> float | None:
    """Seconds from a Retry-After header, which may also be a date."""
    if value is None:
        return None
    if re.fullmatch(r"\s*[0-9]{1,9}(\.[0-9]*)?\s*", value):
        return float(value)
    from email.utils import parsedate_to_datetime

    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except ValueError:
        return None


def _out_of_time(retries: int) -> BackendError:
    message = "the time of this cell ended during the call"
    return BackendError(402, "budget_exceeded", message, infra=False, limit="time_limit", retries=retries)


def _broken(message: str, retries: int) -> BackendError:
    return BackendError(502, "upstream_broken", message, infra=True, retries=retries)
