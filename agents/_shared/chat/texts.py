"""Long texts made short enough to show to a model, and safe to send."""

from __future__ import annotations


def cut(text: str, longest: int) -> str:
    """`text` without its middle when it is too long, saying how much is gone."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters cut ...]\n{text[len(text) - half :]}"


def clean(text: str) -> str:
    """`text` without halves of surrogate pairs, which no request could carry."""
    return text.encode("utf-8", "replace").decode("utf-8")


class HeadAndTail:
    """Beginning and end of a stream of any length, in bounded memory."""

    def __init__(self, longest: int, kept: int) -> None:
        self._longest = longest
        self._kept = kept
        self._head = ""
        self._tail = ""
        self._total = 0

    def add(self, text: str) -> None:
        self._total += len(text)
        room = self._longest - len(self._head)
        self._head += text[:room]
        self._tail = (self._tail + text[max(room, 0) :])[-self._longest :]

    def text(self) -> str:
        """Everything when it is at most `longest` characters, else `kept` of them, half from each end."""
        if self._total <= self._longest:
            return self._head
        half = self._kept // 2
        tail = (self._head + self._tail)[-half:]
        return f"{self._head[:half]}\n[... {self._total - 2 * half} characters cut ...]\n{tail}"
