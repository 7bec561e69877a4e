"""What the gateway observes of the agent's behaviour, and secrets taken out of what it writes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from bench.base.text import printable
from bench.formats.note import Note

_EVIDENCE = {
    "wrong_model": "asked for",
    "network_attempt": "asked the gateway to pass requests on to",
    "hosted_tools": "provider-side tools taken out:",
    "cassette_miss": "asked for what is not in the cassette:",
}
"""Flag -> how its evidence begins."""
_MOST_NAMES = 5
_LONGEST_NAME = 100
_LONGEST_MISS = 300
SHOWN = "[key]"
_SHORTEST = 8
# In the text of a JSON document, what stands before a key may be an escape, which ends with a letter or digit. The head
# of a token is bounded: "-eyJ-eyJ", without an end, would be read to the end from each of its dashes.
_LOOKS_LIKE_A_KEY = re.compile(
    r"""(?:\b|(?<=\\[bfnrt])|(?<=\\u[0-9a-f]{4}))
    (?:sk-[A-Za-z0-9_-]{16,}|bench-[A-Za-z0-9_-]{40,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}
    |AIza[A-Za-z0-9_-]{30,}|hf_[A-Za-z0-9]{30,}|AKIA[A-Z0-9]{16}|xox[abprs]-[A-Za-z0-9-]{20,}
    |eyJ[A-Za-z0-9_-]{10,2000}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})""",
    re.VERBOSE,
)


class Observations:
    """What the calls of one cell show about its agent."""

    def __init__(self) -> None:
        self._seen: dict[str, Counter[str]] = {name: Counter() for name in _EVIDENCE}

    def wrong_model(self, name: str) -> str:
        """Note that another model was asked for; the name as it may be shown."""
        shown = printable(name, _LONGEST_NAME)
        self._count("wrong_model", shown)
        return shown

    def proxied(self, target: str) -> None:
        """Note a request for another server than this one."""
        self._count("network_attempt", printable(target, _LONGEST_NAME))

    def stripped(self, tools: list[str]) -> None:
        """Note tools of the provider that were taken out of a request."""
        for tool in tools:
            self._count("hosted_tools", tool.encode("ascii", "replace").decode())

    def cassette_miss(self, why: str) -> None:
        """Note a request that the replayed conversation has no answer to."""
        self._count("cassette_miss", printable(why, _LONGEST_MISS))

    def as_notes(self) -> list[Note]:
        return [
            Note(name=name, evidence=f"{_EVIDENCE[name]} {_shown(seen)}") for name, seen in self._seen.items() if seen
        ]

    def _count(self, finding: str, name: str) -> None:
        seen = self._seen[finding]
        # An agent may ask for a new name with every call, and all of them would go into the record.
        if name in seen or len(seen) < _MOST_NAMES:
            seen[name] += 1


def _shown(counter: Counter[str]) -> str:
    return ", ".join(f"{name!r} ({count} times)" for name, count in counter.items())


class Redactor:
    """Knows the secrets of one cell."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted({it for it in secrets if len(it) >= _SHORTEST}, key=len, reverse=True)

    def known(self, text: str) -> str:
        """`text` without the secrets of this cell."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, SHOWN)
        return text

    def strict(self, text: str) -> str:
        """`text` without the secrets of this cell and without anything that looks like a key."""
        return _LOOKS_LIKE_A_KEY.sub(SHOWN, self.known(text))
