"""What the attendant of a container notes for the runner, without an engine."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any, cast

import pytest

from bench.guest.first_process import read_report
from bench.sandbox.docker.attendant import Attendant


class _Waiting:
    """The engine's answer to who waits for a container: it has ended."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def more(self) -> bool:
        return False


class _Meeting:
    """An attendant whose container has called, with what its first process says until it ends."""

    def __init__(self, folder: Path, said: bytes, own_image: bool = False) -> None:
        self._pipes = notes, lifeline, ended = os.pipe(), os.pipe(), os.pipe()
        ours, self.first = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        orders = {"engine": str(folder / "none"), "name": "one", "own_image": own_image, "container": {}, "guest": {}}
        self.attendant = Attendant(orders, notes[1], lifeline[0], socket.socket())
        self.attendant._job = ours
        self.first.sendall(said)
        os.close(ended[1])
        self.attendant._watch(cast("Any", _Waiting(ended[0])))

    def noted(self) -> dict[str, Any]:
        notes, lifeline, ended = self._pipes
        os.write(notes[1], b"{}\n")
        said: dict[str, Any] = {}
        for line in os.read(notes[0], 4096).splitlines():
            said |= json.loads(line)
        for descriptor in (*notes, *lifeline, ended[0]):
            os.close(descriptor)
        return said


def test_a_job_that_ends_before_it_is_heard_has_come_up(tmp_path: Path) -> None:
    """On a busy machine the attendant reads both in one piece: that the job runs, and how it ended."""
    meeting = _Meeting(tmp_path, b'up\n{"status": 127}')
    said = meeting.noted()
    assert said["up"] is True and said["report"] == {"status": 127}
    assert meeting.first.recv(1) == b"g", "it is let go"


FORGED = [
    b'{"status": {}, "addresses": "x"}', b"[1, 2}", b"[]", b"{}", b'{"status": true}', b'{"status": 0.5}',
    b'{"status": 256}', b'{"status": -65}', b'{"status": 0, "addresses": -1}', b'{"status": 0, "names": 1e3}',
    b'{"status": 0, "more": 1}', b'{"addresses": 1}', b"[" * 4000 + b"}", b"\xff}", b'{"status": ' + b"9" * 4000 + b"}",
    b'{"status": 0, "names": 99999999999999999999999}',
]  # fmt: skip


@pytest.mark.parametrize("said", FORGED)
def test_a_report_that_no_first_process_of_ours_gives_is_none(said: bytes, tmp_path: Path) -> None:
    assert read_report(said) == {}
    meeting = _Meeting(tmp_path, b"1\n" + said)
    assert meeting.noted() == {"up": True}


@pytest.mark.parametrize("report", [{"status": -9}, {"status": 255, "addresses": 3, "names": 0}])
def test_a_report_is_read_as_it_was_given(report: dict[str, int]) -> None:
    assert read_report(json.dumps(report).encode()) == report


@pytest.mark.parametrize("said", [b"", b"1\n", b"1\n[1, 2}"])
def test_in_an_agents_image_a_first_process_without_a_report_is_the_agents_end(said: bytes, tmp_path: Path) -> None:
    """It cannot be told from one that the image has taken over: so it is not the machine's fault."""
    meeting = _Meeting(tmp_path, said, own_image=True)
    meeting.attendant.conclude(3)
    noted = meeting.noted()
    assert (noted["up"], noted["report"]) == (True, {"status": 3})
    meeting = _Meeting(tmp_path, said)
    meeting.attendant.conclude(3)
    assert "report" not in meeting.noted()
