"""Attends one container: makes it, hands it its streams and orders, waits for its end, removes it.

A process of its own, so that a job in a container is a child with pipes like every other job. Started as a script
with the descriptors of its orders, of its notes to the runner, of the lifeline that ends with the runner, and of the
socket that the container calls. Ends with the status of the job.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.sandbox.cgroup import Group

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from bench.guest.first_process import network_counters, read_report
from bench.sandbox.docker.engine import Engine, EngineError, Pending

del sys.path[0]
NOT_STARTED = 125
_CALL_S = 60.0
_REMOVE_S = 120.0
_REPORT_BYTES = 4096


class Attendant:
    """One container from its making to its removal."""

    def __init__(self, orders: dict[str, Any], notes: int, lifeline: int, listener: socket.socket) -> None:
        self._engine = Engine(Path(orders["engine"]))
        self._name: str = orders["name"]
        self._container: dict[str, Any] = orders["container"]
        self._own_image: bool = orders["own_image"]
        """Whether the agent's image is the file system in which the first process runs."""
        self._guest_orders: bytes = json.dumps(orders["guest"]).encode() + b"\n"
        self._notes = notes
        self._lifeline = lifeline
        self._listener = listener
        self._job: socket.socket | None = None
        self._process: int | None = None
        self._group: Group | None = None
        self._net = ""
        self._up = False
        self._reported = False
        self._ending = False
        self._made = False

    def attend(self) -> int:
        """Status of the job; raises `EngineError` when the container cannot be made or started."""
        self._engine.call("POST", "/containers/create", self._container, {"name": self._name})
        self._made = True
        self._engine.call("POST", f"/containers/{self._name}/start")
        with self._engine.send("POST", f"/containers/{self._name}/wait") as waiting:
            if self._meet(waiting):
                self._watch(waiting)
            try:
                code = int(waiting.answer()["StatusCode"])
            except (EngineError, TypeError, KeyError):
                # The engine is gone: nothing tells about the container any more, so it must not live on.
                self._end()
                return NOT_STARTED
        if self._job is None:
            os.write(2, f"the container ended with status {code} before its first process called\n".encode())
        self._look_back()
        self.conclude(code)
        return code

    def conclude(self, code: int) -> None:
        """Take the end of a container in an agent's image for the agent's, where its first process did not report it.

        The image has no part in our first process, as far as we know. If it found one, its agent could choose to be
        lost: so what the engine has started and has not been stopped by us counts as the agent's, however it ended.
        """
        if self._own_image and not self._reported and not self._ending:
            self._note({"up": True, "report": {"status": code}})

    def remove(self) -> None:
        """Remove the container; while the engine is away, go on trying in the background for a while."""
        if not self._made:
            return
        try:
            self._engine.remove(self._name)
            self._note({"removed": True})
            return
        except EngineError:
            if os.fork() != 0:
                return
        os.setsid()
        until = time.monotonic() + _REMOVE_S
        while time.monotonic() < until:
            time.sleep(0.5)
            with contextlib.suppress(EngineError):
                self._engine.remove(self._name)
                break
        os._exit(0)

    def _meet(self, waiting: Pending) -> bool:
        """Wait for the container's call and hand over streams and orders; False when it ended before."""
        # Here, where the container's first process is starting anyway.
        from bench.sandbox.docker.control import group_of, memberships

        until = time.monotonic() + _CALL_S
        sources: list[Any] = [self._listener, waiting, self._lifeline]
        while self._listener not in (ready := select.select(sources, [], [], 1.0)[0]):
            if waiting in ready and not waiting.more():
                return False
            if self._lifeline in ready or time.monotonic() > until:
                self._kill()
                return False
        self._job, _ = self._listener.accept()
        self._listener.close()
        peer = struct.unpack("3i", self._job.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        if peer > 0:
            self._process = os.pidfd_open(peer)
            groups = memberships(peer)
            self._group = group_of(groups, 0)
            self._note({"groups": groups})
            self._net = f"/proc/{peer}/net"
        socket.send_fds(self._job, [self._guest_orders], [0, 1, 2])
        # Kept open here, they would have no end.
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
        return True

    def _watch(self, waiting: Pending) -> None:
        """Pass on what the container says until it ends, or the runner does."""
        assert self._job is not None
        said = b""
        sources: list[Any] = [waiting, self._job, self._lifeline]
        while True:
            ready = select.select(sources, [], [])[0]
            if self._lifeline in ready:
                sources.remove(self._lifeline)
                self._end()
            if self._job in ready:
                part = self._hear()
                said = (said + part)[:_REPORT_BYTES]
                if b"\n" in said:
                    self._answer(said)
                if not part:
                    sources.remove(self._job)
            if waiting in ready and not waiting.more():
                return

    def _hear(self) -> bytes:
        assert self._job is not None
        try:
            return self._job.recv(_REPORT_BYTES)
        except OSError:
            return b""

    def _answer(self, said: bytes) -> None:
        """Note what the first process said; when it has reported, read the kernel's counters and let it go.

        On a busy machine both may come at once: that it runs, and how a quick job has ended.
        """
        assert self._job is not None
        _, _, report = said.partition(b"\n")
        if not self._up:
            self._up = True
            self._note({"up": True})
        if not self._reported and (found := read_report(report)):
            self._reported = True
            self._note({"hit": self._group.limit_hit() if self._group else None, "report": found})
            with contextlib.suppress(OSError):
                self._job.send(b"g")

    def _end(self) -> None:
        """End the container, after a last look at what only lives as long as it does."""
        if self._ending:
            return
        self._ending = True
        if self._net and not self._reported:
            addresses, names = network_counters(self._net)
            self._note({"seen": {"addresses": addresses, "names": names}})
        if self._process is not None:
            try:
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
                return
            except OSError:
                pass
        self._kill()

    def _kill(self) -> None:
        """Kill through the engine: slower, and in vain when the engine is gone."""
        if self._job is not None:
            self._job.close()
        with contextlib.suppress(EngineError):
            self._engine.call("POST", f"/containers/{self._name}/kill")

    def _look_back(self) -> None:
        """What the engine knows of the end of a container whose first process did not report."""
        if self._reported or self._ending:
            return
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            with contextlib.suppress(EngineError):
                state = self._engine.call("GET", f"/containers/{self._name}/json")["State"]
                if state["OOMKilled"]:
                    self._note({"hit": "memory_limit"})
                    return
            time.sleep(0.1)

    def _note(self, note: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            os.write(self._notes, json.dumps(note).encode() + b"\n")


def main() -> None:
    orders, notes, lifeline, listener = map(int, sys.argv[1:])
    # When the runner has ended, the pipe of the notes has no reader.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.chdir("/")
    with os.fdopen(orders, "rb") as file:
        attendant = Attendant(json.load(file), notes, lifeline, socket.socket(fileno=listener))
    try:
        code = attendant.attend()
    except (EngineError, OSError) as error:
        with contextlib.suppress(OSError):
            os.write(2, f"{error}\n".encode())
        code = NOT_STARTED
    attendant.remove()
    os._exit(code)


if __name__ == "__main__":
    main()
