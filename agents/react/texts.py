"""Long texts made short enough to show to a model."""

from __future__ import annotations

LONGEST_OBSERVATION = 8_000


def cut(text: str, longest: int = LONGEST_OBSERVATION, missing: int = 0) -> str:
    """`text` without its middle when it is too long, saying how much is gone; `missing` is gone already."""
    gone = len(text) - longest + missing if len(text) > longest or missing else 0
    if not gone:
        return text
    half = min(longest, len(text)) // 2
    return f"{text[:half]}\n[... {gone} characters cut ...]\n{text[len(text) - half :]}"


def clean(text: str) -> str:
    """`text` without halves of surrogate pairs, which no request could carry."""
    return text.encode("utf-8", "replace").decode("utf-8")


class HeadAndTail:
    """Beginning and end of a stream of any length, in bounded memory."""

    def __init__(self, longest: int = LONGEST_OBSERVATION) -> None:
        self._half = longest // 2
        self._head = ""
        self._tail = ""
        self._total = 0

    def add(self, text: str) -> None:
        self._total += len(text)
        room = self._half - len(self._head)
        self._head += text[:room]
        self._tail = (self._tail + text[room:])[-self._half :]

    def text(self) -> str:
        missing = self._total - len(self._head) - len(self._tail)
        gap = f"\n[... {missing} characters cut ...]\n" if missing else ""
        return f"{self._head}{gap}{self._tail}"
