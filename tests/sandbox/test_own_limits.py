"""What jobs of the runner's own user can use up, and the runner still has."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

from bench.sandbox.choose import choose_sandbox, open_sandbox
from tests.helpers.cells import not_here
from tests.helpers.readable import readable_package

_OF_JOBS = 300
_BOTH = """
import os, resource, socket, sys
sys.path.insert(0, sys.argv[1])
from bench.sandbox.own_limits import make_room
def send():
    ours, theirs = socket.socketpair()
    try:
        socket.send_fds(ours, [b"1"], [0])
        return "sent"
    except OSError as error:
        return error.strerror
ours, theirs = socket.socketpair()
try:
    while True:
        socket.send_fds(ours, [b"1"], [0] * 100)
except OSError:
    pass
before = send()
make_room()
print(before, send(), sep="; ")
"""


def test_a_job_that_fills_the_sockets_of_its_user_stops_no_runner() -> None:
    """Nobody receives what it has sent, and to the kernel it is the runner's, too."""
    argv = [sys.executable]
    if os.geteuid() == 0:
        # Root may send whatever is under way.
        if not os.access("/usr/bin/python3", os.X_OK) or shutil.which("setpriv") is None:
            not_here("a Python of the system, and setpriv")
        argv = ["setpriv", "--reuid=65003", "--regid=65003", "--clear-groups", "--", "/usr/bin/python3", "-B"]
    limited = ["prlimit", f"--nofile={_OF_JOBS}:{resource.getrlimit(resource.RLIMIT_NOFILE)[1]}"]
    with readable_package() as package:
        argv = [*limited, *argv, "-c", _BOTH, str(package)]
        done = subprocess.run(argv, cwd="/", capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "Too many references: cannot splice; sent\n", done.stderr[-2000:]


@pytest.mark.parametrize("opened", [choose_sandbox, open_sandbox])
def test_who_opens_a_sandbox_may_have_more_open_than_its_jobs(
    opened: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1 << 20))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: set_to.append(limits))
    opened("process")
    assert set_to == [(65_536, 1 << 20)]
