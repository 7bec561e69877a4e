"""First process of every sandbox: sets limits, forwards sockets, runs one command, leaves nobody behind.

Started as a script, inside the sandbox, with an interpreter that knows no third-party package. Reads its
orders from the environment variable BENCH_INIT (JSON) and ends with the status of the command.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from types import FrameType

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
MAX_DESCRIPTORS = 4096
MAX_CONNECTIONS = 200
"""Of one socket at a time: more wait."""


def set_limits(limits: dict[str, int]) -> None:
    for name, value in limits.items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def hide() -> None:
    """Have /proc keep what this process has open from the job, which has the same user."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def adopt_orphans() -> None:
    """Without a PID namespace: be the parent of every orphan, and end with the runner."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def children(pid: int) -> list[int]:
    """The processes that `pid` has started."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += [int(child) for child in file.read().split()]
        except OSError:
            continue
    return found


def descendants(pid: int) -> list[int]:
    """All processes below `pid`, nearest first."""
    found: list[int] = []
    pending = [pid]
    while pending:
        below = children(pending.pop())
        found += below
        pending += below
    return found


def end_descendants() -> None:
    """Kill and reap until no child is left; new ones made meanwhile are met in the next round."""
    for _ in range(10_000):
        for pid in descendants(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def network_counters(folder: str) -> tuple[int, int]:
    """Packets without a route and queries to absent name servers, in the network of `folder` (/proc/*/net)."""
    addresses = names = 0
    try:
        with open(f"{folder}/snmp") as file:
            lines = [line.split() for line in file]
        for titles, values in zip(lines[::2], lines[1::2], strict=False):
            found = dict(zip(titles, values, strict=False))
            addresses += int(found.get("OutNoRoutes", 0)) if titles[0] == "Ip:" else 0
            names += int(found.get("NoPorts", 0)) if titles[0] == "Udp:" else 0
        with open(f"{folder}/snmp6") as file:
            addresses += sum(int(line.split()[1]) for line in file if line.startswith("Ip6OutNoRoutes"))
    except (OSError, ValueError):
        pass
    return addresses, names


def listen() -> socket.socket:
    """A listener on a free port of loopback."""
    import socket

    return socket.create_server(("127.0.0.1", 0), backlog=128)


def forward(listener: socket.socket, path: str) -> None:
    """Copy each connection to the Unix socket at `path`."""
    import socket
    import threading

    def copy(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for end, how in ((sink, socket.SHUT_WR), (source, socket.SHUT_RD)):
            try:
                end.shutdown(how)
            except OSError:
                continue

    def serve(client: socket.socket) -> None:
        upstream = socket.socket(socket.AF_UNIX)
        try:
            upstream.connect(path)
        except OSError:
            client.close()
            upstream.close()
            return
        back = threading.Thread(target=copy, args=(upstream, client), daemon=True)
        try:
            back.start()
            copy(client, upstream)
            back.join()
        except RuntimeError:
            # The job has taken all threads there are.
            pass
        client.close()
        upstream.close()

    room = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def serve_one(client: socket.socket) -> None:
        try:
            serve(client)
        finally:
            room.release()

    def accept() -> None:
        while True:
            room.acquire()
            try:
                client, _ = listener.accept()
            except OSError:
                room.release()
                time.sleep(0.05)
                continue
            try:
                threading.Thread(target=serve_one, args=(client,), daemon=True).start()
            except RuntimeError:
                client.close()
                room.release()

    threading.Thread(target=accept, daemon=True).start()


def let_go_of_streams() -> None:
    """They are the command's: kept open here, every process of the sandbox could reach them through /proc."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.close(null)


def run(orders: dict[str, object], begun: Callable[[], None] | None = None) -> int:
    argv = orders["argv"]
    sockets = orders["sockets"]
    limits = orders["limits"]
    assert isinstance(argv, list) and isinstance(sockets, dict) and isinstance(limits, dict)
    environment = orders.get("environment") or dict(os.environ)
    assert isinstance(environment, dict)
    environment.pop("BENCH_INIT", None)
    listeners = [(listen(), path) for path in sockets.values()]
    for name, (listener, _) in zip(sockets, listeners, strict=True):
        port = str(listener.getsockname()[1])
        for key, value in environment.items():
            environment[key] = value.replace("{port:" + name + "}", port)
    status = orders["status"]
    assert isinstance(status, int)
    os.write(status, b"1\n")
    child = os.fork()
    if child == 0:
        try:
            os.closerange(3, MAX_DESCRIPTORS)
            os.setsid()
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            set_limits(limits)
            os.execvpe(argv[0], argv, environment)
        except BaseException as error:
            os.write(2, f"cannot start {argv[0]!r}: {error}\n".encode())
        os._exit(127)
    let_go_of_streams()
    # Only now: a process that has threads must not fork.
    for listener, path in listeners:
        forward(listener, path)
    if begun is not None:
        begun()
    while True:
        pid, ended = os.wait()
        if pid == child:
            # Also says that we were there to see the end.
            report: dict[str, int] = {}
            if not orders["adopt"]:
                report["addresses"], report["names"] = network_counters("/proc/self/net")
            os.write(status, json.dumps(report).encode())
            return os.waitstatus_to_exitcode(ended)


def main() -> None:
    orders = json.loads(os.environ["BENCH_INIT"])
    hide()
    # The only signal that Python answers by ending: the job may send it, and is not to end what watches it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if orders["adopt"]:
        adopt_orphans()

        def leave(number: int, frame: FrameType | None) -> None:
            del number, frame
            end_descendants()
            os._exit(137)

        signal.signal(signal.SIGTERM, leave)
        if os.getppid() != orders["parent"]:
            os._exit(137)
    code = run(orders)
    if orders["adopt"]:
        end_descendants()
    sys.stdout.flush()
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
