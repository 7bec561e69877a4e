"""A sign of life on a terminal while a command is loading: gone as soon as the command says something itself."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

_PATIENCE_S = 0.1
"""Most commands have said something by then."""
_CLEAR = "\r\x1b[K"


@contextlib.contextmanager
def start_note(command: Sequence[str]) -> Iterator[None]:
    """Name the command on standard error after a moment, until something else is written."""
    named = next((word for word in command if not word.startswith("-")), "")
    if not named or not _is_terminal(sys.stderr):
        yield
        return
    note = _Note(f"ml-dev-bench {named}: starting…")
    try:
        yield
    finally:
        note.end()


def _is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"


class _Note:
    def __init__(self, text: str) -> None:
        self._text = text
        self._shown = False
        self._over = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(_PATIENCE_S, self._show)
        self._timer.daemon = True
        self._streams = [it for it in (sys.stdout, sys.stderr) if it.isatty()]
        for stream in self._streams:
            stream.write = _ending(self, stream.write)  # type: ignore[method-assign]
        self._timer.start()

    def end(self) -> None:
        """Take the note away; what is written from now on is written as ever."""
        with self._lock:
            if self._over:
                return
            self._over = True
            self._timer.cancel()
            for stream in self._streams:
                # The instance's own attribute, below which the method of its class comes to light again.
                vars(stream).pop("write", None)
            if self._shown:
                sys.stderr.write(_CLEAR)
                sys.stderr.flush()

    def _show(self) -> None:
        with self._lock:
            if not self._over:
                self._shown = True
                data = self._text.encode(sys.stderr.encoding or "ascii", "replace")
                with contextlib.suppress(OSError):
                    os.write(sys.stderr.fileno(), data)


def _ending(note: _Note, write: Any) -> Any:
    def first(text: str) -> int:
        note.end()
        count: int = write(text)
        return count

    return first
