"""The filter of system calls in a sandbox: a classic BPF program, made here, that the kernel runs before each call.

It refuses what no work on machine learning needs, and what widens the kernel's attack surface, changes the machine
or lets processes reach past each other. See seccomp(2) for the data the program reads. Standard library only.
"""

from __future__ import annotations

import errno
import functools
import os
import platform
import resource
import socket
import stat
import struct
from collections.abc import Callable, Mapping, Sequence

from bench.sandbox.system_calls import ABSENT, LAST_REVIEWED, LOOKED_INTO, REFUSED, Numbers

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column in the tables of numbers, and the kernel's name in struct seccomp_data."""
_LOAD, _EQUAL, _ABOVE, _ANY_BIT, _KEEP_BITS, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NEW_NAMESPACE = 0x7E020000
"""CLONE_NEW* in the flags of clone; the flag of time namespaces cannot be given there."""
_CREATES = os.O_CREAT | 0x400000
"""O_CREAT, and O_TMPFILE without the bit that it shares with O_DIRECTORY."""
_TIOCSTI, _TIOCLINUX, _F_SETLEASE, _IOPRIO_WHO_PROCESS = 0x5412, 0x541C, 1024, 1
_IOCTL_KIND, _IOCTL_KINDS = 0xFF00, (0x5400, 0x8900, 0x4600, 0x0000)
"""The byte of a command that says whose it is: terminals and pipes, sockets, NVIDIA's devices, and those of its
unified memory, which have none. File systems have others, by which they reserve a disk without writing and freeze it.
"""
_FALLOC_PUNCH_HOLE = 2
_DONE = 0
"""The error that is none: the caller takes the call for done."""
_NO_CHANGE = 0xFFFFFFFF
_AF_NETLINK, _NETLINK_ROUTE = 16, 0
_PROTOCOLS = (0, socket.IPPROTO_TCP, socket.IPPROTO_UDP, socket.IPPROTO_ICMP, socket.IPPROTO_ICMPV6)
Instruction = tuple[int, int, int, int]
"""Code, distance when true, distance when false, operand."""


def filter_program() -> bytes | None:
    """The program for this machine and user; None for an architecture that is not known."""
    known = _ARCHITECTURES.get(platform.machine())
    return None if known is None else _assemble(*known, _special_modes())


def encoded_filter() -> str:
    """The program as text for the orders of a guest; empty where there is none."""
    return (filter_program() or b"").hex()


def _special_modes() -> int:
    """Bits of a mode that would let others act as the runner's user, from files that a job leaves on its disk.

    The bit for the group also stands on folders of shared disks, whence programs copy it; only root's group is kept.
    """
    return stat.S_ISUID | (stat.S_ISGID if os.geteuid() == 0 else 0)


@functools.lru_cache(maxsize=4)
def _assemble(column: int, architecture: int, special: int) -> bytes:
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        # Among the numbers above are those of x32, the second way into a kernel for x86_64.
        (_ABOVE, 0, 1, LAST_REVIEWED),
        _error(errno.ENOSYS),
    ]

    def add(table: Mapping[str, Numbers], body: Callable[[str], Sequence[Instruction]]) -> None:
        for name, numbers in table.items():
            if (number := numbers[column]) is not None:
                rest = body(name)
                program.append((_EQUAL, 0, len(rest), number))
                program.extend(rest)

    rules = _rules(special)
    add(LOOKED_INTO, rules.__getitem__)
    add(REFUSED, lambda _: [_error(errno.EPERM)])
    add(ABSENT, lambda _: [_error(errno.ENOSYS)])
    program.append(_allow())
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _rules(special: int) -> dict[str, list[Instruction]]:
    """What happens in each call whose arguments decide; every list ends in a verdict."""
    creates = [_load(1), (_ANY_BIT, 1, 0, _CREATES), _allow()]
    creates_at = [_load(2), (_ANY_BIT, 1, 0, _CREATES), _allow()]
    return {
        "clone": _none_of(0, _NEW_NAMESPACE),
        "socket": _families(),
        "ioctl": _commands(),
        "personality": _only(0, 0, _NO_CHANGE),
        # A lease on a file of the machine makes every process that opens it wait.
        "fcntl": _not(1, _F_SETLEASE),
        # 0 is the caller: limits and priorities of others, the first process among them, are out of reach.
        "prlimit64": [_load(0), (_EQUAL, 1, 0, 0), _error(errno.EPERM), *_keeping_cores()],
        "setrlimit": [_load(0), (_EQUAL, 0, 1, resource.RLIMIT_CORE), _error(_DONE), _allow()],
        "setpriority": [_load(0), (_EQUAL, 1, 0, os.PRIO_PROCESS), _error(errno.EPERM), *_only(1, 0)],
        "ioprio_set": [_load(0), (_EQUAL, 1, 0, _IOPRIO_WHO_PROCESS), _error(errno.EPERM), *_only(1, 0)],
        "sched_setscheduler": _only(0, 0),
        "sched_setparam": _only(0, 0),
        "sched_setattr": _only(0, 0),
        "chmod": _none_of(1, special),
        "fchmod": _none_of(1, special),
        "fchmodat": _none_of(2, special),
        "fchmodat2": _none_of(2, special),
        "open": creates + _none_of(2, special),
        "openat": creates_at + _none_of(3, special),
        "creat": _none_of(1, special),
        "mknod": _none_of(1, special),
        "mknodat": _none_of(2, special),
        # Without waiting for the disk it would tell what is in memory.
        "preadv2": [_load(5), (_ANY_BIT, 0, 1, os.RWF_NOWAIT), _error(errno.EOPNOTSUPP), _allow()],
        # It takes the whole disk in a millisecond, before any watch. C libraries write zeros instead, which takes time.
        "fallocate": [_load(1), (_ANY_BIT, 1, 0, _FALLOC_PUNCH_HOLE), _error(errno.EOPNOTSUPP), _allow()],
    }


def _keeping_cores() -> list[Instruction]:
    """Limits may be asked for and set, but that on cores only asked for: see `bench.sandbox.orders`."""
    unset = [instruction for half in (0, 4) for instruction in (_load(2, half), (_EQUAL, 1, 0, 0), _error(_DONE))]
    return [_load(1), (_EQUAL, 1, 0, resource.RLIMIT_CORE), _allow(), *unset, _allow()]


def _load(argument: int, half: int = 0) -> Instruction:
    """The low half of an argument: the kernel takes flags, commands and numbers of processes as 32 bits.

    half: 4 for the high one, of an address.
    """
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * argument + half)


def _allow() -> Instruction:
    return (_RETURN, 0, 0, _ALLOW)


def _error(number: int) -> Instruction:
    return (_RETURN, 0, 0, _ERROR | number)


def _none_of(argument: int, bits: int) -> list[Instruction]:
    return [_load(argument), (_ANY_BIT, 0, 1, bits), _error(errno.EPERM), _allow()]


def _only(argument: int, *values: int, otherwise: int = errno.EPERM) -> list[Instruction]:
    tests = [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [_load(argument), *tests, _error(otherwise), _allow()]


def _not(argument: int, *values: int) -> list[Instruction]:
    tests = [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [_load(argument), *tests, _allow(), _error(errno.EPERM)]


def _commands() -> list[Instruction]:
    """Of the known kinds; for the others a file is of a kind that has none, as a program expects that tries them."""
    tests = [(_EQUAL, len(_IOCTL_KINDS) - place, 0, kind) for place, kind in enumerate(_IOCTL_KINDS)]
    kinds = [_load(1), (_KEEP_BITS, 0, 0, _IOCTL_KIND), *tests, _error(errno.ENOTTY)]
    return kinds + _not(1, _TIOCSTI, _TIOCLINUX)


def _families() -> list[Instruction]:
    """Unix sockets, the internet's common protocols, and of netlink what lists interfaces and addresses.

    Asking for a rare protocol makes the kernel load it.
    """
    internet = _only(2, *_PROTOCOLS, otherwise=errno.EPROTONOSUPPORT)
    netlink = _only(2, _NETLINK_ROUTE, otherwise=errno.EPROTONOSUPPORT)
    return [
        _load(0),
        (_EQUAL, 0, 1, socket.AF_UNIX),
        _allow(),
        (_EQUAL, 1, 0, socket.AF_INET),
        (_EQUAL, 0, len(internet), socket.AF_INET6),
        *internet,
        (_EQUAL, 0, len(netlink), _AF_NETLINK),
        *netlink,
        _error(errno.EAFNOSUPPORT),
    ]
