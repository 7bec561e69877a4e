"""First process of a container: takes its orders and its streams from a socket of the runner's, then is like any other.

Nothing of the orders stands in the container's description, which other users of the machine can read. The socket
stays: it tells the runner what is seen here, and its end is the order to end.
"""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.guest import first_process

del sys.path[0]
_START_S = 30
STREAMS = 3


def main() -> None:
    runner = socket.socket(socket.AF_UNIX)
    runner.connect(sys.argv[1])
    orders = receive(runner)
    # Before any other code runs: a process that can look into this one can forge what it reports, or end it.
    first_process.hide()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.chdir(orders["folder"])
    for python in orders["interpreters"]:
        if fault := does_not_start(python, orders):
            os.write(2, f"{python} does not start in the image: {fault}\n".encode())
            os._exit(125)
    go_on = threading.Event()
    code = first_process.run({**orders, "status": runner.fileno(), "adopt": False}, lambda: end_with(runner, go_on))
    # The runner reads the kernel's counters first: they end with the processes they count.
    go_on.wait()
    os._exit(code if code >= 0 else 128 - code)


def receive(runner: socket.socket) -> Any:
    """The orders, and with their first byte the three streams, which take the places of our own."""
    data, control, _, _ = runner.recvmsg(1, socket.CMSG_SPACE(STREAMS * array.array("i").itemsize))
    streams = array.array("i")
    for _, _, content in control:
        streams.frombytes(content)
    with runner.makefile("rb") as stream:
        line = data + stream.readline()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    return json.loads(line)


def does_not_start(python: str, orders: dict[str, Any]) -> str:
    """Why an interpreter of the machine cannot be used in this image; empty when it can.

    Asked as the command is run, and with nothing of it left.
    """
    import subprocess

    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", "import ctypes, ssl, zlib"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_START_S,
            check=False,
            # There are no threads yet.
            preexec_fn=lambda: first_process.confine(orders),
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    finally:
        first_process.end_descendants()
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if done.returncode == 0 else (said or [f"status {done.returncode}"])[-1]


def end_with(runner: socket.socket, go_on: threading.Event) -> None:
    """End when the runner's side of the socket does; one byte of it says that the report was read."""

    def watch() -> None:
        while runner.recv(1):
            go_on.set()
        os._exit(137)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()
