"""The search of the stand-in: arXiv's fields and operators over the library, ranked by how rare the words are."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from library import Paper

_TOKEN = re.compile(
    r'\(|\)|(?:(ti|au|abs|cat|all):)?"([^"]*)"|(?:(ti|au|abs|cat|all):)?([^\s()"]+)|(ti|au|abs|cat|all):(?=\()'
)
MOST_TERMS = 100

Scores = dict[str, float]


class QueryError(ValueError):
    """What a client has done wrong, in words for it."""


class Search:
    """An index of one library."""

    def __init__(self, papers: list[Paper]) -> None:
        self.papers = {paper.id: paper for paper in papers}
        self._texts = {paper.id: _fields(paper) for paper in papers}

    def ranked(self, query: str) -> list[str]:
        """Ids of all papers that match, the best first; equal ones in the order of their ids' digits reversed."""
        scores = _Parser(query, self._term).parse()
        return sorted(scores, key=lambda it: (-round(scores[it], 6), it[::-1]))

    def _term(self, field: str, text: str) -> Scores:
        """Papers in whose field these words stand in a row."""
        wanted = f" {' '.join(re.findall(r'[a-z0-9.]+', text.lower()))} "
        found = [paper for paper, fields in self._texts.items() if wanted.strip() and wanted in fields[field]]
        return dict.fromkeys(found, math.log(1 + len(self._texts) / (len(found) or 1)))


def _fields(paper: Paper) -> dict[str, str]:
    plain: dict[str, Any] = {
        "ti": paper.title, "abs": paper.abstract, "au": ", ".join(paper.authors), "cat": paper.category,
    }  # fmt: skip
    made = {
        name: f" {' '.join(re.findall(r'[a-z0-9.]+', text.lower().replace('. ', ' ')))} "
        for name, text in plain.items()
    }
    made = {name: text.replace(". ", " ") for name, text in made.items()}
    return made | {"all": "|".join(made.values())}


class _Parser:
    """Left to right, without precedence; terms side by side are OR."""

    def __init__(self, query: str, term: Callable[[str, str], Scores]) -> None:
        self.tokens = list(_TOKEN.finditer(query))
        if len(self.tokens) > MOST_TERMS:
            raise QueryError(f"a query has at most {MOST_TERMS} terms")
        self.term, self.at = term, 0

    def parse(self, depth: int = 0) -> Scores:
        if depth > 10:
            raise QueryError("too many brackets")
        found: Scores | None = None
        operator = "OR"
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            self.at += 1
            if token.group(0) == ")":
                break
            if token.group(0) in ("AND", "OR", "ANDNOT"):
                operator = token.group(0)
                continue
            if token.group(0) == "(" or token.group(5):
                if token.group(5):
                    self.at += 1
                part = self.parse(depth + 1)
            else:
                field = token.group(1) or token.group(3) or "all"
                part = self.term(field, token.group(2) if token.group(2) is not None else token.group(4))
            found = part if found is None else _joined(found, operator, part)
            operator = "OR"
        return found or {}


def _joined(one: Scores, operator: str, other: Scores) -> Scores:
    if operator == "AND":
        return {it: one[it] + other[it] for it in one if it in other}
    if operator == "ANDNOT":
        return {it: score for it, score in one.items() if it not in other}
    return {it: one.get(it, 0.0) + other.get(it, 0.0) for it in {**one, **other}}
