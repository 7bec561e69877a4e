"""The three ways to show untrusted text (in a line, in JSON, in Markdown or HTML), and counts as people write them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

_ACTIVE = re.compile(
    # HTML; code, emphasis, tables, links, escapes, strike-through and formulas of Markdown; mentions
    r"[&<>|`*\[\]\\~@]|\$(?!\d)"
    # emphasis, but not between the words of a name; emoji, addresses and commands; addresses and references
    r"|_(?![A-Za-z0-9])|(?<![A-Za-z0-9])_|:(?=\S)|(?<=www)\.|#(?=[\w\[#])|(?<=GH)-(?=\d)"
    # a heading, a list, a rule or a block at the beginning
    r"|^(?=[\s!-~])[^A-Za-z0-9($]|^\d(?=\d{0,8}[.)](?:\s|$))",
    re.IGNORECASE,
)
"""What HTML or GitHub's Markdown acts on."""
_LOOKED_FOR = re.compile(
    # An address or `agent@commit` mentions nobody, and the number of a workflow run (`gh-12345678901-1`) is no issue's:
    # these are copied, and should be without an invisible character.
    r"(?<![a-z0-9])@(?=[a-z0-9])|#(?=\d)|(?<=GH)-(?=\d{1,8}(?!\d))|:(?=[\d_]*[a-z+-][\w+-]*:)",
    re.IGNORECASE,
)
"""Mentions, references and emoji: GitHub looks for them in what Markdown has made, where an entity is a character."""
_NO_WIDTH = "&#8203;"
"""A space that is not seen: what stands before it and what stands after it are apart."""
_NOTE_BYTES = 100
"""For saying how many lines were left out."""
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


def printable(text: str, longest: int | None = None) -> str:
    """One line of `text` on which neither a terminal nor a workflow runner acts; control characters can be read."""
    line = "".join(char if char.isprintable() else " " if char.isspace() else ascii(char)[1:-1] for char in text)
    # A runner obeys `::name::` at the beginning of a line, and the older `##[name]` and `##vso[name]` anywhere in it.
    line = re.sub("([:#])(?=\\1)", r"\1 ", line)
    return line if longest is None else _shortened(line, longest)


def printable_lines(text: str, most: int | None = None, longest: int | None = None) -> list[str]:
    """The lines of `text` without colours, on which neither a terminal nor a workflow runner acts.

    most: lines; those in the middle of a longer text are left out, and counted. longest: characters of a line.
    """
    plain = _COLOUR.sub("", text.expandtabs(4))
    found = [_inert_line(line, longest) for line in re.split(r"\r\n|\r|\n", plain.strip("\r\n"))]
    if most is None or len(found) <= most:
        return found
    head, tail = most - most // 3, most // 3
    return [*found[:head], f"[{len(found) - head - tail} lines left out]", *found[-tail:]]


def _inert_line(line: str, longest: int | None) -> str:
    shown = "".join(char if char.isprintable() else " " if char.isspace() else ascii(char)[1:-1] for char in line)
    # Code is full of `::` and `##`: they are left alone where a runner does not obey them.
    shown = re.sub(r"##(?=\[|vso\[)", "# #", re.sub(r"^(\s*):(?=:)", r"\1: ", shown))
    return (shown if longest is None else _shortened(shown, longest)).rstrip()


def printable_json(document: str) -> str:
    """The same JSON document in ASCII; where a workflow runner would act on a piece of it, that is spelt otherwise."""
    plain = re.sub(r"[^\n\x20-\x7e]", lambda match: json.dumps(match.group())[1:-1], document)
    return plain.replace("##", r"\u0023#")


def escape(text: str, longest: int = 300) -> str:
    """One line on which neither HTML nor Markdown acts, and which mentions no account on GitHub.

    A character that would act is a numeric entity; an invisible space follows it where GitHub would act on it even so.
    """
    line = "".join(char if char.isprintable() else " " for char in text)
    return _ACTIVE.sub(_inert, _shortened(line, longest))


def _inert(match: re.Match[str]) -> str:
    apart = _NO_WIDTH if _LOOKED_FOR.match(match.string, match.start()) else ""
    return f"&#{ord(match.group())};{apart}"


def _shortened(line: str, longest: int) -> str:
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def within(text: str, longest: int) -> str:
    """`text`, where it is too long without its middle: a message names the place first and the remedy last."""
    if len(text) <= longest:
        return text
    head = longest // 2
    return f"{text[:head]} … {text[len(text) - (longest - head - 3) :]}"


def first_lines(text: str, most: int) -> str:
    """The first lines of `text` that fit into `most` bytes, and how many do not; a line is never cut."""
    if len(text.encode()) <= most:
        return text
    lines = text.splitlines(keepends=True)
    left = most - _NOTE_BYTES
    for number, line in enumerate(lines):
        left -= len(line.encode())
        if left < 0:
            return f"{''.join(lines[:number])}\nLeft out here: {counted(len(lines) - number, 'line')}.\n"
    return text


def counted(number: int, noun: str, several: str = "") -> str:
    """`1 cell`, `2 cells`; several: where the plural is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else several or f'{noun}s'}"


def meant(word: str, known: Iterable[str], kind: str = "") -> str:
    """A remedy for a name that does not exist: the nearest of those that do, else all of them.

    kind: what stands before a name, such as `tag:`.
    """
    import difflib

    names = sorted(known)
    near = difflib.get_close_matches(word[:200], names, n=1)
    if near:
        return f"did you mean {kind}{near[0]}?"
    return f"known: {', '.join(names)}" if names else "there are none"
