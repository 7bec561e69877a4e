"""A page or another file of the site, with what decides whether it must be made anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Sheet:
    """A page, or a file beside pages, that can be made."""

    address: str
    facts: str
    """Everything that it shows, as text: the same facts give the same page."""
    make: Callable[[], bytes]
