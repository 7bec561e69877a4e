"""Whether the disks of a run were full: what fails meanwhile is nobody's fault but the machine's."""

from __future__ import annotations

import contextlib
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

_LEAST_BYTES = 16 << 20
"""With less than this a disk counts as full: what did not fit has left the rest."""


@dataclass
class DiskSpace:
    """Looked at now and then while cells run. Safe to use from several threads."""

    folders: tuple[Path, ...] = ()
    _full_at: float = -math.inf
    _full: str = ""

    def look(self) -> None:
        """Note whether one of the disks is full at this instant."""
        for folder in self.folders:
            # A folder may not be there yet, or not any more.
            with contextlib.suppress(OSError):
                info = os.statvfs(folder)
                left = info.f_bavail * info.f_frsize
                # Some file systems count no inodes.
                if left < _LEAST_BYTES or (info.f_files and not info.f_favail):
                    self._full_at = time.monotonic()
                    self._full = f"{left >> 20} MiB are left on the disk of {folder}"

    def full_since(self, moment: float) -> str:
        """What is known of a full disk at or after `moment` (monotonic seconds); empty: nothing."""
        return self._full if self._full_at >= moment else ""
