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

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column in the tables of numbers, and the kernel's name in struct seccomp_data."""
_LOAD, _EQUAL, _ABOVE, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NEW_NAMESPACE = 0x7E020000
"""CLONE_NEW* in the flags of clone; the flag of time namespaces cannot be given there."""
_CREATES = os.O_CREAT | 0x400000
"""O_CREAT, and O_TMPFILE without the bit that it shares with O_DIRECTORY."""
_TIOCSTI, _TIOCLINUX, _F_SETLEASE, _IOPRIO_WHO_PROCESS = 0x5412, 0x541C, 1024, 1
_FALLOC_PUNCH_HOLE = 2
_DONE = 0
"""The error that is none: the caller takes the call for done."""
_NO_CHANGE = 0xFFFFFFFF
_AF_NETLINK, _NETLINK_ROUTE = 16, 0
_PROTOCOLS = (0, socket.IPPROTO_TCP, socket.IPPROTO_UDP, socket.IPPROTO_ICMP, socket.IPPROTO_ICMPV6)
Instruction = tuple[int, int, int, int]
"""Code, distance when true, distance when false, operand."""
Numbers = tuple[int | None, int | None]
"""On x86_64, on aarch64."""
LAST_REVIEWED = 466
"""Numbers above it were not looked at when this list was made: such a call does not exist in the guest."""
REFUSED: dict[str, Numbers] = {
    # Namespaces and mounts: the way to privileges in the guest, and to most of the kernel's attack surface.
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    # Other processes: debuggers do not work in the guest.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    # The kernel itself.
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
    "syslog": (103, 116),
    # Keys and files by handle are not divided by namespaces.
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # The machine.
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "nfsservctl": (180, 42),
}
"""Answered with EPERM."""
ABSENT: dict[str, Numbers] = {
    # C libraries and programs fall back to what can be looked into: arguments behind pointers cannot.
    "clone3": (435, 435),
    "openat2": (437, 437),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # The older way to read and write beside other work: its places are the whole machine's, and one job can take all.
    "io_setup": (206, 0),
    # The newer way to mount.
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "statmount": (457, 457),
    "listmount": (458, 458),
    # Memory that no account shows.
    "memfd_secret": (447, 447),
    # They tell what of a file is in memory: what one process has read, another one learns.
    "cachestat": (451, 451),
    "mincore": (27, 232),
    # Long obsolete.
    "create_module": (174, None),
    "get_kernel_syms": (177, None),
    "query_module": (178, None),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "_sysctl": (156, None),
    # What outlives the process that made it, and so one call of a subject: POSIX shared memory, which is files in
    # /dev/shm, remains.
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "mq_timedsend": (242, 182),
    "mq_timedreceive": (243, 183),
    "mq_notify": (244, 184),
    "mq_getsetattr": (245, 185),
}
"""Answered with ENOSYS, as by a kernel without them."""
LOOKED_INTO: dict[str, Numbers] = {
    "clone": (56, 220),
    "socket": (41, 198),
    "ioctl": (16, 29),
    "personality": (135, 92),
    "fcntl": (72, 25),
    "prlimit64": (302, 261),
    "setrlimit": (160, 164),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "open": (2, None),
    "openat": (257, 56),
    "creat": (85, None),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "preadv2": (327, 286),
    "fallocate": (285, 47),
}
"""Allowed or refused by their arguments."""


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
        "ioctl": _not(1, _TIOCSTI, _TIOCLINUX),
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
