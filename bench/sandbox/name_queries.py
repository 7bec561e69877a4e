"""The names that a job asks a name server for: answered inside with "no such name", listed out here.

A sandbox without a network has no name server either. In a container the first process stands in for one and passes
each query on to the socket of `NameQueries`; bubblewrap gives no process a port that low, so there queries are only
counted. Nothing that is asked leaves this machine, so what somebody smuggles in a name ends in the list.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from bench.guest.first_process import NAMES

MOST_NAMES = 100
"""Of one job; further ones are counted together."""
OTHERS = "others"
_LONGEST_NAME = 100
_LARGEST_QUERY = 4096
_HEADER = 12
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
_LOOK_S = 0.1
__all__ = ["MOST_NAMES", "NAMES", "OTHERS", "NameQueries", "asked_name"]


def asked_name(query: bytes) -> str | None:
    """The name in a DNS query, in lower case, bytes that no name has as `?`; None where it cannot be read."""
    labels: list[str] = []
    at = _HEADER
    while at < len(query) and (size := query[at]):
        label = query[at + 1 : at + 1 + size].lower()
        if size > 63 or len(label) < size:
            return None
        labels.append("".join(chr(byte) if byte in _PLAIN else "?" for byte in label))
        at += size + 1
    if at >= len(query) or not labels:
        return None
    name = ".".join(labels)
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


class NameQueries:
    """Listens on the Unix socket `path` while it is open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: Counter[str] = Counter()
        self._open = True
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> NameQueries:
        self.path.unlink(missing_ok=True)
        self._socket.bind(os.fspath(self.path))
        self.path.chmod(0o600)
        self._socket.settimeout(_LOOK_S)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._open = False
        self._thread.join()
        self._socket.close()
        self.path.unlink(missing_ok=True)

    def counts(self) -> Mapping[str, int]:
        """How many queries there were for each name, in the order of the first; whole after the end."""
        return dict(self._seen)

    def _listen(self) -> None:
        while True:
            try:
                query = self._socket.recv(_LARGEST_QUERY)
            except TimeoutError:
                # Only when nothing is left of what was sent before the end.
                if not self._open:
                    return
                continue
            name = asked_name(query)
            if name is not None:
                known = name in self._seen or len(self._seen) < MOST_NAMES
                self._seen[name if known else OTHERS] += 1
