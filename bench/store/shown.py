"""Untrusted text in messages."""

from __future__ import annotations

_LONGEST = 300


def shown(text: str) -> str:
    """One line of `text` that neither a terminal nor a workflow runner acts on.

    The runner looks for `::name::` at the beginning of a line, and for the older `##[name]` anywhere in it.
    """
    line = "".join(char if char.isprintable() else "?" for char in text)
    line = line.replace("::", ": :").replace("##[", "# #[")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
