"""SHA256SUMS of a run folder: what was written, so that what is found can be told from it. `sha256sum -c` reads it."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

NAME = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")


@dataclass(frozen=True)
class Sums:
    """The sums of the files below `root`. A file that was written anew has several, each of them good."""

    root: Path

    def add(self, name: str, data: bytes) -> None:
        """Note that `name` is about to hold `data`; to be called before it is written."""
        self.root.mkdir(parents=True, exist_ok=True)
        line = f"{hashlib.sha256(data).hexdigest()}  {name}\n".encode()
        descriptor = os.open(self.root / NAME, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                # A full disk or a kill has cut the last line off.
                line = b"\n" + line
            if os.write(descriptor, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.root / NAME))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def known(self) -> dict[str, set[str]]:
        """The good digests (`sha256:<hex>`) by name; lines that are none are left out."""
        found: dict[str, set[str]] = {}
        try:
            text = (self.root / NAME).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return found
        for line in text.splitlines():
            if match := _LINE.fullmatch(line):
                found.setdefault(match[2], set()).add(f"sha256:{match[1]}")
        return found
