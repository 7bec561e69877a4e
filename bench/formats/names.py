"""Names, digests, instants and texts of others as all documents write them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field


def _safe_name(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", value):
        raise ValueError("must be 1 to 64 of a-z, 0-9, _ and -, starting with a letter or digit")
    return value


Name = Annotated[str, AfterValidator(_safe_name)]
"""A name that is safe in a path, a branch, a URL and a workflow."""


Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


def _of_the_calendar(value: str) -> str:
    datetime.fromisoformat(value)
    return value


_INSTANT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$"


Instant = Annotated[str, Field(pattern=_INSTANT), AfterValidator(_of_the_calendar)]
"""UTC, ISO 8601."""


def _writable(value: str) -> str:
    return value.encode("utf-8", "replace").decode()


Quoted = Annotated[str, AfterValidator(_writable)]
"""What somebody else has said: JSON can spell half of a character, and with one a document could not be written."""
