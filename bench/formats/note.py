"""A named finding about a cell."""

from __future__ import annotations

from bench.base.model import Model


class Note(Model):
    """A named finding with its evidence: a flag or a failure mode."""

    name: str
    evidence: str
