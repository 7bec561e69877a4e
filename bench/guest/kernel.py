"""System calls that Python does not offer: namespaces, mounts, capabilities, filters. Standard library only."""

from __future__ import annotations

import ctypes
import os

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_FILTER = 2

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_NOATIME = 1024
MS_NODIRATIME = 2048
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_RELATIME = 1 << 21

_MADV_COLLAPSE = 25
_HUGE_PAGE = 1 << 21
_CAPABILITY_VERSION = 0x20080522
_SIOCSIFFLAGS = 0x8914
_INTERFACE_UP = 1


class _Instructions(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("count", ctypes.c_ushort), ("first", ctypes.c_char_p))


class Kernel:
    """The C library of this process; every refusal is an `OSError` that names the call."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)

    def _check(self, result: int, what: str) -> None:
        if result != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{what}: {os.strerror(number)}")

    def prctl(self, option: int, value: int) -> None:
        self._check(self._library.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl {option}")

    def unshare(self, flags: int) -> None:
        self._check(self._library.unshare(flags), f"unshare {flags:#x}")

    def mount(self, source: str, target: str, kind: str, flags: int, options: str = "") -> None:
        done = self._library.mount(
            source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()
        )
        self._check(done, f"mount {target}")

    def gather_memory(self) -> int:
        """Have the kernel keep this process's own memory in huge pages, and return how many were made.

        A fork copies one entry for each of them, instead of 512. Before Linux 6.1, and where a page has no room,
        nothing changes.
        """
        advise = self._library.madvise
        advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        with open("/proc/self/maps") as file:
            regions = [line.split() for line in file]
        made = 0
        for place, rights, *rest in regions:
            # Of no file: the heap, and what has no name.
            if rights != "rw-p" or rest[3:] not in ([], ["[heap]"]):
                continue
            first, end = (int(number, 16) for number in place.split("-"))
            for address in range(-(-first // _HUGE_PAGE) * _HUGE_PAGE, end - _HUGE_PAGE + 1, _HUGE_PAGE):
                made += advise(address, _HUGE_PAGE, _MADV_COLLAPSE) == 0
        return made

    def drop_capabilities(self) -> None:
        """For good: no privileged program gives them back to a process of `filter_calls`."""
        header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
        self._check(self._library.capset(header, (ctypes.c_uint32 * 6)()), "capset")

    def filter_calls(self, program: bytes) -> None:
        """Have the kernel ask this classic BPF program before each system call, from now on."""
        self.prctl(PR_SET_NO_NEW_PRIVS, 1)
        instructions = _Instructions(len(program) // 8, program)
        done = self._library.prctl(PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(instructions), 0, 0)
        self._check(done, "seccomp")


def raise_loopback() -> None:
    """Bring the loopback interface of this network namespace up."""
    import fcntl
    import socket
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _INTERFACE_UP))
