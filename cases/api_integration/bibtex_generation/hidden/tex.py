"""Reads BibTeX and cite commands, as far as an answer needs them. Raises `ValueError` with a reason in words."""

from __future__ import annotations

import re
from dataclasses import dataclass

REQUIRED = {
    "article": {"title", "author", "journal", "year"},
    "inproceedings": {"title", "author", "booktitle", "year"},
}
_CITE = re.compile(r"[\s~]*\\cite[tp]?\*?\{([^{}]*)\}")


@dataclass(frozen=True)
class Entry:
    """One entry; values with white space made single."""

    key: str
    kind: str
    fields: dict[str, str]

    @property
    def valid(self) -> bool:
        """Whether it has all fields that its kind requires."""
        return self.kind in REQUIRED and all(self.fields.get(name) for name in REQUIRED[self.kind])


def entries(text: str) -> list[Entry]:
    """All entries of a .bib file."""
    found: list[Entry] = []
    at = 0
    while (start := text.find("@", at)) >= 0:
        head = re.compile(r"@(\w+)\s*\{\s*([^\s,{}]+)\s*,").match(text, start)
        if head is None:
            raise ValueError(f"no entry begins at {text[start : start + 30]!r}")
        end = _closing(text, text.index("{", start))
        try:
            fields = _fields(text[head.end() : end])
        except ValueError as fault:
            raise ValueError(f"references.bib, entry {head.group(2)}: {fault}") from None
        found.append(Entry(head.group(2), head.group(1).lower(), fields))
        at = end + 1
    return found


def _closing(text: str, opening: int) -> int:
    """Where it ends, at its bracket or at its quote: within brackets a quote is a character like any other."""
    last, depth = '"' if text[opening] == '"' else "}", int(text[opening] == "{")
    for at in range(opening + 1, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0 and text[at] == last:
            return at
    raise ValueError(f"a bracket or a quote is not closed: {text[opening : opening + 30]!r}")


def _fields(inner: str) -> dict[str, str]:
    """All of what is behind an entry's key, as BibTeX reads it: what it warns of or passes over is refused."""
    fields: dict[str, str] = {}
    at = 0
    while rest := inner[at:].strip():
        match = re.compile(r"\s*([\w-]+)\s*=\s*").match(inner, at)
        if match is None:
            raise ValueError(f"no field begins at {rest[:30]!r}")
        name, value, at = match.group(1).lower(), *_value(inner, match.end())
        if name in fields:
            raise ValueError(f"it has {name} twice")
        fields[name] = " ".join(value.split())
        comma = re.compile(r"\s*(,|$)").match(inner, at)
        if comma is None:
            raise ValueError(f"there is no comma between {name} and {inner[at:].strip()[:30]!r}")
        at = comma.end()
    return fields


def _value(inner: str, at: int) -> tuple[str, int]:
    """The value that begins there, and where it ends: in brackets, in quotes, or digits."""
    if inner[at : at + 1] in ("{", '"'):
        end = _closing(inner, at)
        return inner[at + 1 : end], end + 1
    bare = re.compile(r"[0-9]+").match(inner, at)
    if bare is None:
        raise ValueError(f"no value begins at {inner[at:].strip()[:30]!r}")
    return bare.group(), bare.end()


def _words(text: str) -> list[str]:
    """A blank before a full stop, where a command stood, is white space like any other."""
    return re.sub(r"\s+(?=[.,;:!?)])", "", text).split()


def citations(text: str, sentences: list[str]) -> list[tuple[int, str]]:
    """Pairs of a sentence's number and a cited key; the text without cite commands must be the sentences again."""
    plain, cited = "", []
    at = 0
    for match in _CITE.finditer(text):
        plain += text[at : match.start()]
        cited += [(len("".join(plain.split())), key.strip()) for key in match.group(1).split(",") if key.strip()]
        at = match.end()
    if _words(plain + text[at:]) != _words(" ".join(sentences)):
        raise ValueError("the text without its cite commands is not the paragraph that was given")
    ends = [len("".join("".join(sentences[: number + 1]).split())) for number in range(len(sentences))]
    return [(next(number for number, end in enumerate(ends) if place <= end), key) for place, key in cited]
