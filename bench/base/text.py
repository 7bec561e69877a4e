"""Untrusted text in messages."""

from __future__ import annotations

import json
import re

_LONGEST_LINE = 1400
_LONGEST_PLACE = 400
_LONGEST = 300
_ACTIVE = re.compile(r"\.(?!\d)|[^A-Za-z0-9 ,./%()]")
"""Everything that HTML or Markdown might act on, and more."""


def one_line(text: str) -> str:
    """Names and values of somebody else's are part of a message: no line break, no terminal sequence comes along."""
    return "".join(char if char.isprintable() else " " if char.isspace() else ascii(char)[1:-1] for char in text)


def shown(text: str, longest: int = _LONGEST) -> str:
    """One line of `text` that neither a terminal nor a workflow runner acts on.

    The runner looks for `::name::` at the beginning of a line, and for the older `##[name]` anywhere in it.
    """
    line = "".join(char if char.isprintable() else "?" for char in text)
    line = line.replace("::", ": :").replace("##[", "# #[")
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def escape(text: str, limit: int = 300) -> str:
    """One line on which neither HTML nor Markdown acts: every character that could is a numeric entity."""
    line = "".join(char if char.isprintable() else " " for char in text.replace("\n", " "))
    shown = line if len(line) <= limit else f"{line[: limit - 1]}…"
    return _ACTIVE.sub(lambda match: f"&#{ord(match.group())};", shown)


def printable(text: str) -> str:
    """`text` without anything a terminal or a workflow log would act on."""
    line = "".join(char if char.isprintable() else "?" for char in text)
    return line.replace("::", ": :").replace("##", "# #")


def printable_json(document: str) -> str:
    """The same JSON document in ASCII; where a workflow runner would act on a piece of it, that is spelt otherwise."""
    plain = re.sub(r"[^\n\x20-\x7e]", lambda match: json.dumps(match.group())[1:-1], document)
    return plain.replace("##", r"\u0023#")
