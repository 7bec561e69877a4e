"""The fork server: one trusted child of the runner that has imported what judging needs, and forks for each request.

It imports this package and libraries, never anything of a case, and opens nothing of an agent's. It has one thread, so
that a fork is whole. Each fork leads a session of its own and ends with the server; the server ends with the runner.

A request names a module of this package with a function `serve(orders, answers)`, which runs in the fork. Orders that
name libraries to preload lease a warm process, whose socket the fork inherits.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from bench.guest.kernel import PR_SET_PDEATHSIG, Kernel
from bench.judge.warm_pool import Lease, WarmPool

_PACKAGE = __name__.partition(".")[0]
_IMPORTED = ("bench.judge.process", "bench.sandbox.choose", "csv", "random", "zipfile", "numpy")
"""Before the first request. What is not installed is left out: only some cases need it."""
_HEAD_BYTES = 4096


@dataclass
class _Fork:
    """A fork at work, as the server sees it."""

    pid: int
    handle: int
    """Its pidfd."""
    line: socket.socket
    """To the runner: tells the process id, then how it ended. Anything the runner says, or its end, ends the fork."""
    lease: Lease | None


def main() -> None:
    """Serve requests from the socket that is standard input until the runner is gone."""
    control = socket.socket(fileno=os.dup(0))
    for name in _IMPORTED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    # Asked here once, the answer is every fork's: a fork is in a group of its own and would look there.
    importlib.import_module("bench.sandbox.cgroup_location").probe_cgroups()
    gc.collect()
    # What is shared with the forks is not written to any more.
    gc.freeze()
    _Server(control).run()


class _Server:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._forks: dict[int, _Fork] = {}
        """By each descriptor that is watched for it."""
        self._warm = WarmPool()
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def run(self) -> None:
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._control.fileno():
                    if not self._accept():
                        return self._end_all()
                elif (fork := self._forks.get(descriptor)) is None:
                    continue
                elif descriptor == fork.handle:
                    self._reap(fork)
                else:
                    self._poll.unregister(descriptor)
                    del self._forks[descriptor]
                    _kill(fork)

    def _accept(self) -> bool:
        """Take one request; False at the end of the runner."""
        head, descriptors, _, _ = socket.recv_fds(self._control, _HEAD_BYTES, 8)
        if not head:
            return False
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        orders_file, line_end, answers, log = descriptors
        line = socket.socket(fileno=line_end)
        try:
            with os.fdopen(orders_file, "rb") as file:
                orders = json.load(file)
            name = head.decode()
            if name.partition(".")[0] != _PACKAGE:
                raise ValueError(f"{name} is not a module of {_PACKAGE}")
            module = importlib.import_module(name)
            lease = self._warm.lease(orders)
            inherited = () if lease is None else (lease.descriptor,)
            orders["warm"] = None if lease is None else (lease.descriptor, lease.enforcement)
            server, pid = os.getpid(), os.fork()
            if pid == 0:
                _be_fork(module, orders, (answers, log, *inherited), server)
        except Exception:
            os.write(log, traceback.format_exc().encode())
            line.close()
        else:
            fork = _Fork(pid, os.pidfd_open(pid), line, lease)
            with contextlib.suppress(OSError):
                line.send(b"forked %d\n" % pid)
            for watched in (fork.handle, line.fileno()):
                self._forks[watched] = fork
                self._poll.register(watched, select.POLLIN)
        os.close(answers)
        os.close(log)
        return True

    def _reap(self, fork: _Fork) -> None:
        """Note the end of a fork, end what it has started, and tell the runner."""
        # Its number is its group's until it is waited for, so no other group can be met.
        _kill(fork)
        status = os.waitpid(fork.pid, 0)[1]
        for watched in (fork.handle, fork.line.fileno()):
            if self._forks.pop(watched, None) is not None:
                self._poll.unregister(watched)
        os.close(fork.handle)
        with contextlib.suppress(OSError):
            fork.line.send(b"ended %d\n" % os.waitstatus_to_exitcode(status))
        fork.line.close()
        if fork.lease is not None:
            fork.lease.release()

    def _end_all(self) -> None:
        for fork in self._forks.values():
            _kill(fork)
        self._warm.close()


def _kill(fork: _Fork) -> None:
    # It may not lead its session yet.
    for send, target in ((os.killpg, fork.pid), (os.kill, fork.pid)):
        with contextlib.suppress(ProcessLookupError):
            send(target, signal.SIGKILL)


def _be_fork(module: ModuleType, orders: dict[str, Any], kept: Sequence[int], server: int) -> None:
    """Become the process of one request, and never return; `kept`: descriptors for its answers, its log, and others."""
    code = 1
    try:
        answers, log = kept[:2]
        os.setsid()
        Kernel().prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:
            # It ended before it could be told to take this process with it.
            os._exit(code)
        _keep_only(set(kept))
        for printed in (1, 2):
            os.dup2(log, printed)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _join(orders.get("cgroup", ()))
        _be_new(orders["environment"])
        with os.fdopen(answers, "wb") as stream:
            module.serve(orders, stream)
        code = 0
    except SystemExit as wish:
        code = wish.code if isinstance(wish.code, int) else int(wish.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        # Past the interpreter's own end, which would wait for threads that a check has left.
        os._exit(code)


def _keep_only(wanted: set[int]) -> None:
    """Close the server's own descriptors: its sockets, and what other gradings were given."""
    for name in os.listdir("/proc/self/fd"):
        if (descriptor := int(name)) > 2 and descriptor not in wanted:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _join(groups: Sequence[str]) -> None:
    """Enter the control group that the runner has made; where that fails, the runner's own look is what limits it."""
    for folder in groups:
        with contextlib.suppress(OSError), open(f"{folder}/cgroup.procs", "w", encoding="ascii") as file:
            file.write("0")


def _be_new(environment: dict[str, str]) -> None:
    """Take over nothing of the server that another fork has, too: environment, folders, random numbers."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir("/")
    tempfile.tempdir = None
    for name in ("random", "numpy.random"):
        if (library := sys.modules.get(name)) is not None:
            seed: Callable[[], None] = library.seed
            seed()


if __name__ == "__main__":
    main()
