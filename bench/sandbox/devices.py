"""Keeping the machine's device files from the jobs of a runner that is root."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

_CAP_SYS_ADMIN = 21
_SHIELD = '"$1" -o rbind,ro /dev /dev || exit 125; shift; exec "$@"'


def shielded(argv: Sequence[str]) -> list[str]:
    """`argv`, started where /dev is read-only: devices can be used, and their permissions and names not be changed.

    The jobs of a root runner own what root owns, also behind other ids inside: without this, one could take
    /dev/null from everybody. Bubblewrap itself mounts the files of devices writable.
    """
    unshare, mount = shutil.which("unshare"), shutil.which("mount")
    if os.geteuid() != 0 or not _may_mount() or unshare is None or mount is None:
        return list(argv)
    return [unshare, "--mount", "--", "/bin/sh", "-c", _SHIELD, "sh", mount, *argv]


def _may_mount() -> bool:
    """Root of a container often may not, and has no devices of the machine to lose."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    return False
