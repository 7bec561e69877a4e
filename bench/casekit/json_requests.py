"""For authors of services.py: JSON objects out of requests that are not trusted. Standard library only."""

from __future__ import annotations

import json
import zlib
from typing import Any

from bench.casekit.services import Request

MAX_BODY = 4_000_000

Json = dict[str, Any]


class RefusedError(Exception):
    """A request that the service answers with an error message."""


def read_document(request: Request) -> Json:
    """The JSON object that a request carries, packed by gzip or not. Raises `RefusedError` for anything else."""
    body = request.body
    if request.headers.get("Content-Encoding") == "gzip":
        try:
            body = zlib.decompressobj(wbits=31).decompress(body, MAX_BODY + 1)
        except zlib.error as error:
            raise RefusedError("the body is not packed as it says") from error
    if len(body) > MAX_BODY:
        raise RefusedError(f"the body is over {MAX_BODY} bytes")
    return parse_object(body)


def parse_object(text: object) -> Json:
    """The JSON object in a text. Raises `RefusedError` for anything else."""
    try:
        value = json.loads(text) if isinstance(text, (str, bytes)) else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise RefusedError("what should be a JSON object is not one")
    return value


def short_text(value: object, limit: int = 80) -> str:
    """What a client sent, made short and safe to write down."""
    return str(value)[:limit].encode("utf-8", "replace").decode()
