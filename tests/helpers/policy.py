"""What the gateway's policy leaves of a request."""

from __future__ import annotations

import json
from typing import Any

from bench.gateway.google import find_target
from bench.gateway.policy import apply_policy
from bench.gateway.request import Call, Dialect, read_call
from tests.helpers.gateway import Json

SAID = {"role": "user", "content": "hello"}
_BODIES: dict[Dialect, Json] = {
    "chat": {"model": "m", "messages": [SAID]},
    "responses": {"model": "m", "input": [SAID]},
    "messages": {"model": "m", "messages": [SAID], "max_tokens": 9},
    "count_tokens": {"model": "m", "messages": [SAID]},
    "embeddings": {"model": "m", "input": ["hello"]},
    "generate": {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]},
    "count_generate": {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]},
}
_METHODS = {"generate": "generateContent", "count_generate": "countTokens"}


def passed(dialect: Dialect, *, hosted: bool = False, **fields: Any) -> Call:
    """The call that is left of a request with these fields."""
    target = find_target(f"/v1beta/models/m:{_METHODS[dialect]}") if dialect in _METHODS else None
    call = read_call(dialect, json.dumps({**_BODIES[dialect], **fields}).encode(), {}, target)
    apply_policy(call, hosted=hosted)
    return call
