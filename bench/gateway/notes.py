"""Findings about the agent's behaviour at the gateway."""

from __future__ import annotations

from collections import Counter

from bench.record import Note

_MOST_NAMES = 5


class Notes:
    def __init__(self) -> None:
        self._wrong: Counter[str] = Counter()
        self._stripped: Counter[str] = Counter()
        self._proxied: Counter[str] = Counter()

    def wrong_model(self, name: str) -> str:
        """Note that another model was asked for; the name as it may be shown."""
        shown = _printable(name)
        _count(self._wrong, shown)
        return shown

    def proxied(self, target: str) -> None:
        """Note a request for another server than this one."""
        _count(self._proxied, _printable(target))

    def stripped(self, tools: list[str]) -> None:
        """Note tools of the provider that were taken out of a request."""
        for tool in tools:
            _count(self._stripped, tool.encode("ascii", "replace").decode())

    def as_notes(self) -> list[Note]:
        notes = []
        if self._wrong:
            notes.append(Note(name="wrong_model", evidence=f"asked for {_shown(self._wrong)}"))
        if self._proxied:
            text = f"asked the gateway to pass requests on to {_shown(self._proxied)}"
            notes.append(Note(name="network_attempt", evidence=text))
        if self._stripped:
            notes.append(Note(name="hosted_tools", evidence=f"provider-side tools taken out: {_shown(self._stripped)}"))
        return notes


def _printable(text: str) -> str:
    return " ".join(text.encode("ascii", "replace").decode().split())[:100]


def _count(counter: Counter[str], name: str) -> None:
    if name in counter or len(counter) < _MOST_NAMES:
        counter[name] += 1


def _shown(counter: Counter[str]) -> str:
    return ", ".join(f"{name!r} ({count} times)" for name, count in counter.items())
