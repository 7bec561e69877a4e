"""Binds a name server's port in the network of a sandbox that may not do so itself, and hands the sockets in.

Bubblewrap's jobs live in a user namespace below the one that owns their network, so no process of theirs gets a port
that low. This one is started outside, as a script with the descriptor of a socket: it receives the network from the
first process, before any command of the job runs, enters it, sends back the bound sockets, and ends. Standard library
only.
"""

from __future__ import annotations

import ctypes
import fcntl
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.guest.forwarding import name_server
from bench.guest.kernel import CLONE_NEWNET, CLONE_NEWUSER

if __name__ == "__main__":
    del sys.path[0]
_OWNER_OF = 0xB701
"""NS_GET_USERNS of linux/nsfs.h."""
_PATIENCE_S = 60


@dataclass
class LentPorts:
    """The process that waits for one sandbox's network."""

    process: subprocess.Popen[bytes]
    guest: int
    """Descriptor for the first process; closed by whoever starts the sandbox."""

    @classmethod
    def start(cls) -> LentPorts:
        ours, theirs = socket.socketpair()
        with ours:
            script = [sys.executable, "-I", "-S", "-B", str(Path(__file__).resolve()), str(ours.fileno())]
            # What it cannot do it does not tell: the sandbox then counts queries, and lists no names.
            null = subprocess.DEVNULL
            process = subprocess.Popen(script, stdin=null, stdout=null, stderr=null, pass_fds=[ours.fileno()], cwd="/")
        return cls(process, theirs.detach())

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def lend(helper: socket.socket) -> None:
    """Serve the one request; raises `OSError` where the kernel does not allow it."""
    _, received, _, _ = socket.recv_fds(helper, 1, 1)
    if not received:
        return
    (network,) = received
    libc = ctypes.CDLL(None, use_errno=True)
    for namespace, kind in ((fcntl.ioctl(network, _OWNER_OF), CLONE_NEWUSER), (network, CLONE_NEWNET)):
        if libc.setns(namespace, kind) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    servers = name_server()
    socket.send_fds(helper, [b"1"], [server.fileno() for server in servers])


if __name__ == "__main__":
    signal.alarm(_PATIENCE_S)
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        lend(asked)
