"""Draws two shelves: one for the agent, with example paragraphs, and one for the judge."""

from __future__ import annotations

import json
import random
from pathlib import Path

from shelf import draw_shelf, laid_out

from bench.casekit.data import stream

EXAMPLES, JUDGED = 3, 6


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Writes both shelves for services.py, and the examples with the key that each sentence must cite."""
    for phase, paragraphs in (("agent", EXAMPLES), ("judging", JUDGED)):
        shelf = draw_shelf(random.Random(stream(seed, phase)), paragraphs, judged=phase == "judging")
        (hidden / f"{phase}.json").write_text(json.dumps(shelf.plain()), encoding="utf-8")
        if phase == "agent":
            (public / "examples").mkdir()
            for number, paragraph in enumerate(shelf.paragraphs):
                text = laid_out([sentence for sentence, _ in paragraph], number)
                (public / "examples" / f"paragraph{number}.txt").write_text(text, encoding="utf-8")
            right = [[{"sentence": sentence, "cites": key} for sentence, key in it] for it in shelf.paragraphs]
            (public / "examples" / "right.json").write_text(json.dumps(right, indent=2) + "\n", encoding="utf-8")
