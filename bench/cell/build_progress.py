"""How far the build of an environment is: packages and bytes, said at once and then every few seconds."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.base.text import printable

_EVERY_S = 4.0
_FIRST_S = 0.5
_LONGEST_LINE = 1000
_FOUND = re.compile(rb"(?:Collecting ([A-Za-z0-9][\w.-]*)|Processing (?:\S*/)?([A-Za-z0-9][\w.+-]*))")
_DOWNLOADING = re.compile(rb"\s*Downloading (?:\S*/)?([A-Za-z0-9][\w.+-]*)")
_SKIPPED = re.compile(rb"Ignoring [A-Za-z0-9][\w.-]*: markers")
_DOING = {
    b"Building wheel": "building a wheel",
    b"Installing collected packages": "unpacking packages",
    b"Successfully installed": "looking over what was installed",
}
"""How a line of pip begins, and what that means."""


@dataclass
class BuildProgress:
    """Call `look` often while the installer works, and `read` with what it says; nothing of that is trusted."""

    tell: Callable[[str, bool], None]
    """A line, and whether it is more than how far the build is."""
    packages: int
    """To install at least: those that the requirements name."""
    complete: bool
    """The requirements name everything."""
    download_mb: int
    """As the agent's folder says; 0: it does not say."""
    received: Callable[[], int]
    """Bytes from the network so far."""
    doing: str = "preparing"
    _began: float = field(default_factory=time.monotonic)
    _next_line: float = 0.0
    _rest: bytes = b""
    _found: int = 0

    def begin(self) -> None:
        """Say what will be done, and how much it is."""
        if not self.packages:
            self.tell("making its environment", True)
        else:
            count = (
                f"{self.packages} package{'s' * (self.packages > 1)}{'' if self.complete else ' and what they need'}"
            )
            size = f", about {self.download_mb} MB to download" if self.download_mb else ", size not known"
            self.tell(f"building its environment: {count}{size}; done once for this content", True)
        self._next_line = time.monotonic() + _EVERY_S

    def look(self) -> bool:
        """Say how far it is if that was not said for a while. Never asks the build to stop."""
        if (now := time.monotonic()) >= self._next_line:
            self._next_line = now + _EVERY_S
            self.tell(self._line(now), False)
        return False

    def read(self, data: bytes) -> None:
        """What pip says, and what installs npm's packages in pip's words."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-_LONGEST_LINE:]
        for line in lines:
            self._note(line[:_LONGEST_LINE])

    def end(self) -> None:
        self.tell(f"environment built in {_spoken(time.monotonic() - self._began)}", True)

    def _line(self, now: float) -> str:
        facts = [self.doing]
        if self._found:
            most = f" of {self.packages}" if self._found <= self.packages else ""
            facts.append(f"{self._found}{most} packages found")
        if received := self.received():
            most = f" of about {self.download_mb}" if received < self.download_mb * 1_000_000 else ""
            facts.append(f"{received / 1e6:.0f}{most} MB received")
        return f"environment: {', '.join(facts)}, {_spoken(now - self._began)}"

    def _note(self, line: bytes) -> None:
        if match := _FOUND.match(line):
            self._found += 1
            self.doing = f"resolving {_name(match[1] or match[2])}"
        elif match := _DOWNLOADING.match(line):
            self.doing = f"downloading {_name(match[1])}"
        elif _SKIPPED.match(line):
            self.packages -= 1
        else:
            self.doing = next((text for begin, text in _DOING.items() if line.startswith(begin)), self.doing)


@dataclass
class Waiting:
    """Says from time to time that another process builds the same environment."""

    tell: Callable[[str, bool], None]
    _next: float = field(default_factory=lambda: time.monotonic() + _FIRST_S)

    def __call__(self) -> None:
        if (now := time.monotonic()) >= self._next:
            self._next = now + _EVERY_S
            self.tell("waiting: another process builds the same environment", False)


def _name(text: bytes) -> str:
    return printable(text.decode("ascii", "replace"), 40)


def _spoken(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"
