"""What the scripted language model answers: four instructions, and inventions for everything else."""

from __future__ import annotations

import random
import re

from library import FIELDS, PHENOMENA, Library, Paper

_INSTRUCTION = re.compile(r"\s*\W*(names|rate|summari[sz]e|conclude)\b", re.IGNORECASE)


class Reader:
    """Knows one library by heart, and is not always right about it."""

    def __init__(self, library: Library, seed: int) -> None:
        """seed: of the trial. Errors hang on it: who knows this file is not to know which ratings are off."""
        self._library = library
        self._seed = seed
        self._by_name = {_name_of(paper): paper for paper in library.papers}

    def answer(self, text: str) -> str:
        """To what the product said last."""
        match = _INSTRUCTION.match(text)
        instruction = match.group(1).lower() if match else ""
        if instruction == "names":
            return self._names(text)
        if instruction == "rate":
            return self._rate(text)
        if instruction.startswith("summari"):
            paper = self._paper(text)
            return " ".join(paper.told) if paper else "There is no abstract that I could summarise."
        if instruction == "conclude":
            return self._conclude(text)
        return self._invent(text)

    def _names(self, text: str) -> str:
        found = []
        for concept in (*PHENOMENA, *FIELDS):
            names = concept.split("|")
            if any(name.lower() in text.lower() for name in names):
                found.append("; ".join(names))
        return "\n".join(found) or "I know no other names for that."

    def _rate(self, text: str) -> str:
        paper = self._paper(text)
        topic = next((at for query, at in self._library.queries.items() if query in text), None)
        if paper is None or topic is None:
            return "Rating: 0"
        rng = random.Random(f"{self._seed} {paper.id} {topic}")
        halves = sum(a == b for a, b in zip(paper.topic, topic, strict=True))
        return f"Rating: {rng.randint(*((0, 2), (1, 6), (6, 10))[halves])}"

    def _conclude(self, text: str) -> str:
        names = [paper.title for paper in self._library.papers if _name_of(paper) in text][:3]
        return (
            f"The papers, {', '.join(names) or 'all of them'} among them, treat the question by checks of intermediate "
            "results, and report gains over earlier baselines. What remains open is the cost of training and how the "
            "remedies act on long inputs."
        )

    def _invent(self, text: str) -> str:
        rng = random.Random(text[:200])
        made = [f"20{rng.randint(10, 24)}.{rng.randint(10_000, 99_999)}" for _ in range(10)]
        return "Important papers on this: " + ", ".join(f"arXiv:{it[2:]}" for it in made)

    def _paper(self, text: str) -> Paper | None:
        found = (self._by_name.get(word) for word in re.findall(r"[A-Z][a-zA-Z]+", text))
        return next((paper for paper in found if paper), None)


def _name_of(paper: Paper) -> str:
    """The name of a paper's method, which no other paper has."""
    match = re.search(r"We present (\w+),", paper.abstract)
    return match.group(1) if match else paper.id
