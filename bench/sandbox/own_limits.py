"""What the runner itself may have open. Standard library only."""

from __future__ import annotations

import resource

_ROOM = 65_536


def make_room() -> None:
    """Allow this process, and those that it starts, more open files than any job has.

    The kernel counts by user what was sent through sockets and not yet received, and compares that with the sender's
    own limit. Jobs of this user can fill it up to theirs: with the same one, the runner could send its judge nothing.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _ROOM if hard == resource.RLIM_INFINITY else min(_ROOM, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
