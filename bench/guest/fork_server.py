"""A warm process in a sandbox: imports what it is told to, then forks for everyone who asks, and runs nothing itself.

Standard input is a socket of packets. Each packet is a request for one fork and carries the descriptors of its streams:
a connection for the call, one for the report of its guard, and a pipe for what it prints. A fork is two processes: the
guard, first process of new namespaces, which ends whatever the call leaves and reports how it ended; and the call.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.guest import kernel
from bench.guest.first_process import MAX_DESCRIPTORS, end_descendants, network_counters, set_limits
from bench.guest.forwarding import forward, listen
from bench.guest.namespaces import View, leave_namespaces, machine_counters, make_view
from bench.guest.subject import answer_call, run_program
from bench.guest.trees import remove_tree

del sys.path[0]
PACKET = 1 << 16
STREAMS = 3
MOST_SERVICES = 16
"""Of one call."""
MOST_CONNECTIONS = 32
"""Of one call to all its services at a time."""
_FIRST_TO_GO = b"1000"
"""Of `oom_score_adj`: the most that there is."""


class ForkServer:
    """What every fork starts from."""

    def __init__(self, orders: dict[str, Any], requests: socket.socket) -> None:
        self._calls = kernel.Kernel()
        self._requests = requests
        self._view: dict[str, Any] | None = orders["view"]
        self._filter = bytes.fromhex(orders["filter"])
        self._variables: dict[str, str] = orders["variables"]
        # What a library makes when it is imported stays: to look for rubbish in it takes a fifth of the import, and in
        # a fork a copy of what is looked at.
        gc.disable()
        self._missing = [fault for name in orders["preload"] if (fault := _preload(name))]
        gc.freeze()
        gc.enable()
        if orders["preload"]:
            # Most of what a fork costs is the copy of the tables of this memory, three times a call.
            self._calls.gather_memory()
        self._counters = machine_counters() if self._view else {}

    def serve(self) -> None:
        """Fork for each request until the other side has gone."""
        while True:
            packet, descriptors, _, _ = socket.recv_fds(self._requests, PACKET, STREAMS + MOST_SERVICES)
            self._reap()
            if not packet:
                return
            if os.fork() == 0:
                self._requests.close()
                self._fork(json.loads(packet), *descriptors)
            for descriptor in descriptors:
                os.close(descriptor)

    @staticmethod
    def _reap() -> None:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue

    def _fork(self, request: dict[str, Any], data: int, report: int, log: int, *doors: int) -> NoReturn:
        try:
            if self._missing:
                os.write(report, json.dumps({"missing": self._missing}).encode())
                os._exit(0)
            if self._view is not None:
                leave_namespaces(self._calls)
                if os.fork() != 0:
                    os._exit(0)
            self._guard(request, data, report, log, doors)
        except BaseException as error:
            os.write(report, json.dumps({"fault": f"{type(error).__name__}: {error}"}).encode())
        os._exit(0)

    def _guard(self, request: dict[str, Any], data: int, report: int, log: int, doors: Sequence[int]) -> None:
        """Prepare the call's world, start the call, wait for its end or for that of who asked, and end what is left."""
        workspace, room = request["workspace"], ""
        mark = _open_oom_mark()
        self._calls.prctl(kernel.PR_SET_DUMPABLE, 0)
        if self._view is not None:
            view = View(
                workspace=workspace,
                private_mb=request["private_mb"],
                writable=request["program"] is not None,
                **self._view,
            )
            make_view(self._calls, view, self._counters)
            workspace = self._view["place"]
        else:
            self._calls.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
            room = tempfile.mkdtemp(prefix="call-")
            os.mkdir(f"{room}/home")
        os.setsid()
        # In the call's own network.
        listeners = {name: listen() for name in request["services"]}
        # With its sender's credentials, by which the other side knows whom to end.
        os.write(report, b" ")
        gate, opened = os.pipe()
        call = _fork_first_to_go(mark)
        if call == 0:
            os.close(report)
            os.close(opened)
            os.read(gate, 1)
            for name, listener in listeners.items():
                os.environ[name] = f"http://127.0.0.1:{listener.getsockname()[1]}"
            self._call(request, workspace, room, data, log)
        os.close(data)
        os.close(log)
        # Only now: a process that has threads must not fork.
        for listener, door in zip(listeners.values(), doors, strict=True):
            forward(listener, f"/proc/self/fd/{door}", MOST_CONNECTIONS // len(doors))
        os.close(gate)
        os.close(opened)
        status = _end_of(call, report)
        end_descendants()
        addresses, names = network_counters("/proc/self/net") if self._view is not None else (0, 0)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        if room:
            remove_tree(Path(room))
        facts = {"status": status, "addresses": addresses, "names": names, "cpu_s": used.ru_utime + used.ru_stime}
        os.write(report, json.dumps(facts).encode())

    def _call(self, request: dict[str, Any], workspace: str, room: str, data: int, log: int) -> NoReturn:
        """Become the agent's: from `answer_call` or `run_program` on, everything here is under its control."""
        try:
            # Opened anew: what is set on an open file is set for all who share it.
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.dup2(data, 3)
            os.closerange(4, MAX_DESCRIPTORS)
            os.setsid()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if room:
                os.environ |= {"TMPDIR": room, "HOME": f"{room}/home"}
                tempfile.tempdir = None
            os.environ |= self._variables
            set_limits(request["limits"])
            with socket.socket(fileno=3) as connection:
                # With its sender's credentials, by which the kernel tells our id on the other side.
                connection.send(b"!")
                connection.recv(1)
                _reseed()
                if self._view is not None:
                    self._calls.drop_capabilities()
                if self._filter:
                    self._calls.filter_calls(self._filter)
                self._calls.prctl(kernel.PR_SET_DUMPABLE, 1)
                if request["program"] is None:
                    answer_call(workspace, connection)
            run_program(workspace, request["program"])
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)


def _open_oom_mark() -> int:
    """How soon the kernel ends this process for want of memory, while /proc can still be written; -1: nobody may."""
    try:
        return os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return -1


def _fork_first_to_go(mark: int) -> int:
    """Fork a process that the kernel ends before this one, where the machine has no memory left."""
    before = b""
    with contextlib.suppress(OSError):
        before = os.pread(mark, 16, 0)
        os.pwrite(mark, _FIRST_TO_GO, 0)
    child = os.fork()
    if child and before:
        with contextlib.suppress(OSError):
            os.pwrite(mark, before, 0)
        os.close(mark)
    return child


def _end_of(call: int, report: int) -> int:
    """Status of the process `call`; it is killed when the other end of `report` is closed."""
    ended = os.pidfd_open(call)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(report, select.POLLIN | select.POLLHUP)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if report in ready:
            os.kill(call, signal.SIGKILL)
            poll.unregister(report)
        if ended in ready:
            return os.waitstatus_to_exitcode(os.waitpid(call, 0)[1])


def _reseed() -> None:
    """No two forks draw the same numbers where a fresh interpreter would not either."""
    import random

    random.seed()
    numpy: Any = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()


def _preload(name: str) -> str:
    try:
        importlib.import_module(name)
    except Exception as error:
        return f"{name}: {error}"
    return ""


def main() -> None:
    orders = json.loads(sys.argv[1])
    requests = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    # The only signal that Python answers: from inside, the first process of namespaces gets no other.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    calls = kernel.Kernel()
    calls.prctl(kernel.PR_SET_DUMPABLE, 0)
    # Guards lose their parent at once.
    calls.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    ForkServer(orders, requests).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
