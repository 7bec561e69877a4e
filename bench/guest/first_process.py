"""First process of every sandbox: sets limits, forwards sockets, runs one command, leaves no process behind.

Started as a script, inside the sandbox, with an interpreter without third-party packages. Reads its orders
from the environment variable BENCH_INIT and ends with the status of the command.
"""

from __future__ import annotations

import marshal
import os
import resource
import signal
import sys
import time

if __name__ == "__main__":
    sys.path.insert(0, __file__.removesuffix("/bench/guest/first_process.py"))
from bench.guest import kernel
from bench.guest.forwarding import answer_names, forward, lent_name_server, listen, name_server
from bench.guest.kernel import Kernel

if __name__ == "__main__":
    del sys.path[0]
# Importing `typing` would take a third of the time that this process needs to start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

MAX_DESCRIPTORS = 4096
_REPORTED = {"status": range(-64, 256), "addresses": range(1 << 63), "names": range(1 << 63)}
"""What a report holds: the status of the command, or -n for signal n, and what the kernel counted."""
NAMES = "@names"
"""The socket to which queries for names are passed on: the name that no service can have."""


def set_limits(limits: dict[str, int]) -> None:
    """Set the resource limits by name, as far as this process may raise them."""
    for name, value in limits.items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def confine(orders: dict[str, Any]) -> None:
    """Give this process the limits and the filter of the command."""
    set_limits(orders["limits"])
    if orders["filter"]:
        Kernel().filter_calls(bytes.fromhex(orders["filter"]))


def hide() -> None:
    """Have /proc keep what this process has open from the job, which has the same user."""
    Kernel().prctl(kernel.PR_SET_DUMPABLE, 0)


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


def end_descendants(child: int = 0) -> int:
    """Kill and reap until no child is left; new ones made meanwhile are met in the next round.

    Returns the status of `child`.
    """
    status = 0
    for _ in range(10_000):
        for pid in descendants(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        try:
            while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
                if reaped[0] == child:
                    status = os.waitstatus_to_exitcode(reaped[1])
        except ChildProcessError:
            break
        time.sleep(0.001)
    return status


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


def let_go_of_streams() -> None:
    """They are the command's: kept open here, every process of the sandbox could reach them through /proc."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.close(null)


def run(orders: dict[str, Any], begun: Callable[[], None] | None = None) -> int:
    """Run the command to its end and report it to the runner; returns its status."""
    sockets, status = orders["sockets"], orders["status"]
    environment = orders.get("environment") or dict(os.environ)
    environment.pop("BENCH_INIT", None)
    names = sockets.pop(NAMES, "")
    servers = name_server() if names and not orders["adopt"] else []
    if (outside := orders.get("ports", -1)) >= 0:
        servers = servers or lent_name_server(outside)
    listeners = [(listen(), path) for path in sockets.values()]
    for name, (listener, _) in zip(sockets, listeners, strict=True):
        port = str(listener.getsockname()[1])
        for key, value in environment.items():
            environment[key] = value.replace("{port:" + name + "}", port)
    os.write(status, b"1\n")
    gate, opened = os.pipe()
    child = os.fork()
    if child == 0:
        _become_command(orders, environment, gate, opened)
    let_go_of_streams()
    # Only now: a process that has threads must not fork.
    for listener, path in listeners:
        forward(listener, path)
    answer_names(servers, names)
    if begun is not None:
        begun()
    os.close(gate)
    os.close(opened)
    while True:
        pid, ended = os.wait()
        if pid == child:
            # Also says that we were there to see the end.
            code = os.waitstatus_to_exitcode(ended)
            report = {"status": code}
            if not orders["adopt"]:
                report["addresses"], report["names"] = network_counters("/proc/self/net")
            facts = ", ".join(f'"{name}": {count}' for name, count in report.items())
            os.write(status, f"{{{facts}}}".encode())
            return code


def read_report(said: bytes) -> dict[str, int]:
    """The report of `run`; empty where it is none, as from a process that has taken the place of ours."""
    import json

    try:
        found = json.loads(said)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict) or "status" not in found:
        return {}
    sound = all(type(value) is int and value in _REPORTED.get(name, ()) for name, value in found.items())
    return found if sound else {}


def _become_command(orders: dict[str, Any], environment: dict[str, str], gate: int, opened: int) -> NoReturn:
    """In the child: wait until the gate is closed, give up what is not the command's, and become it."""
    argv = orders["argv"]
    try:
        # Not before its connections are served: it could take all threads there are.
        os.close(opened)
        os.read(gate, 1)
        os.closerange(3, MAX_DESCRIPTORS)
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        confine(orders)
        os.execvpe(argv[0], argv, environment)
    except BaseException as error:
        os.write(2, f"cannot start {argv[0]!r}: {error}\n".encode())
    os._exit(127)


def main() -> None:
    # Importing `json` would take as long as everything else here. The runner alone writes this variable.
    orders = marshal.loads(bytes.fromhex(os.environ["BENCH_INIT"]))  # noqa: S302
    hide()
    # The only signal that Python answers by ending: the job may send it, and is not to end what watches it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if orders["adopt"]:
        # Without a PID namespace: be the parent of every orphan, and end with the runner.
        Kernel().prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        Kernel().prctl(kernel.PR_SET_PDEATHSIG, signal.SIGTERM)

        def leave(*_: object) -> None:
            end_descendants()
            os._exit(137)

        signal.signal(signal.SIGTERM, leave)
        # The runner may have ended before the kernel was asked for a signal at its end.
        if os.getppid() != orders["parent"]:
            os._exit(137)
    code = run(orders)
    if orders["adopt"]:
        end_descendants()
    sys.stdout.flush()
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
