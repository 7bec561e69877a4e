"""A named finding about a cell."""

from __future__ import annotations

from bench.base.model import Model
from bench.formats.names import Quoted


class Note(Model):
    """A named finding with its evidence: a flag or a failure mode."""

    name: str
    evidence: Quoted
