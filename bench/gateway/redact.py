"""Takes secrets out of what is written: the keys we know, and for files that people share, what looks like one."""

from __future__ import annotations

import re
from collections.abc import Iterable

SHOWN = "[key]"
_SHORTEST = 8
# In the text of a JSON document, what stands before a key may be an escape, which ends with a letter or digit.
_LOOKS_LIKE_A_KEY = re.compile(
    r"""(?:\b|(?<=\\[bfnrt])|(?<=\\u[0-9a-f]{4}))
    (?:sk-[A-Za-z0-9_-]{16,}|bench-[A-Za-z0-9_-]{40,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}
    |AIza[A-Za-z0-9_-]{30,}|hf_[A-Za-z0-9]{30,}|AKIA[A-Z0-9]{16}|xox[abprs]-[A-Za-z0-9-]{20,}
    |eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})""",
    re.VERBOSE,
)


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
