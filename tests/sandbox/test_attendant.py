"""What the attendant of a container notes for the runner, without an engine."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any, cast

from bench.sandbox.docker.attendant import Attendant


class _Waiting:
    """The engine's answer to who waits for a container: it has ended."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def more(self) -> bool:
        return False


def test_a_job_that_ends_before_it_is_heard_has_come_up(tmp_path: Path) -> None:
    """On a busy machine the attendant reads both in one piece: that the job runs, and how it ended."""
    notes, lifeline, ended = os.pipe(), os.pipe(), os.pipe()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    orders = {"engine": str(tmp_path / "none"), "name": "one", "container": {}, "guest": {}}
    attendant = Attendant(orders, notes[1], lifeline[0], socket.socket())
    attendant._job = ours
    theirs.sendall(b'up\n{"status": 127}')
    os.close(ended[1])
    attendant._watch(cast("Any", _Waiting(ended[0])))
    said: dict[str, Any] = {}
    for line in os.read(notes[0], 4096).splitlines():
        said |= json.loads(line)
    assert said["up"] is True and said["report"] == {"status": 127}
    assert theirs.recv(1) == b"g", "it is let go"
    for descriptor in (*notes, *lifeline, ended[0]):
        os.close(descriptor)
