"""The three ways to show untrusted text: in a line, in JSON, in Markdown or HTML."""

from __future__ import annotations

import json
import re

_ACTIVE = re.compile(r"\.(?!\d)|[^A-Za-z0-9 ,./%()]")
"""Everything that HTML or Markdown might act on, and more."""


def printable(text: str, longest: int | None = None) -> str:
    """One line of `text` on which neither a terminal nor a workflow runner acts; control characters can be read."""
    line = "".join(char if char.isprintable() else " " if char.isspace() else ascii(char)[1:-1] for char in text)
    # A runner obeys `::name::` at the beginning of a line, and the older `##[name]` and `##vso[name]` anywhere in it.
    line = re.sub("([:#])(?=\\1)", r"\1 ", line)
    return line if longest is None else _shortened(line, longest)


def printable_json(document: str) -> str:
    """The same JSON document in ASCII; where a workflow runner would act on a piece of it, that is spelt otherwise."""
    plain = re.sub(r"[^\n\x20-\x7e]", lambda match: json.dumps(match.group())[1:-1], document)
    return plain.replace("##", r"\u0023#")


def escape(text: str, longest: int = 300) -> str:
    """One line on which neither HTML nor Markdown acts: every character that could is a numeric entity."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return _ACTIVE.sub(lambda match: f"&#{ord(match.group())};", _shortened(line, longest))


def _shortened(line: str, longest: int) -> str:
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
