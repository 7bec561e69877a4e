"""Draws two libraries: one for the agent, with example queries, and one of other topics for the judge."""

from __future__ import annotations

import json
import random
from pathlib import Path

from library import PHENOMENA, draw_library

from bench.casekit.data import stream

EXAMPLES, JUDGED = 3, 8


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Writes both libraries for services.py, and the examples with the ids that are right for them."""
    order = list(range(len(PHENOMENA)))
    random.Random(stream(seed, "split")).shuffle(order)
    half = len(order) // 2
    for phase, part, queries in (("agent", order[:half], EXAMPLES), ("judging", order[half:], JUDGED)):
        library = draw_library(random.Random(stream(seed, phase)), part, queries)
        (hidden / f"{phase}.json").write_text(json.dumps(library.plain()), encoding="utf-8")
        if phase == "agent":
            right = {query: library.relevant(query) for query in library.queries}
            (public / "examples.json").write_text(json.dumps(right, indent=2) + "\n", encoding="utf-8")
