"""The system calls that a sandbox does not have, or not for all arguments, by number: see `bench.sandbox.seccomp`."""

from __future__ import annotations

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
