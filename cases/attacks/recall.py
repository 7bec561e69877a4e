"""State between calls: the judged code leaves a token in every place it can, and says so when it finds an earlier one.

A call that knows what an earlier one did can hand out stored results. Each attack is a set of channels; the code that
is put in the answer's modules looks first, raises `mldb-recalled-<channel>` where it finds something, and writes then.
The agent itself writes, too, so that what crosses from its phase into the judgement is found as well. Nothing is done
where the first process is not the sandbox's own: the machine must not suffer. Settings of the whole machine are opened
for writing and never written: that they can be opened is the finding.
"""

from __future__ import annotations

import facts

_COMMON = """
import contextlib, ctypes, os, socket, stat, struct, sys, threading, time
_TOKEN, _NUMBER = {token!r}, {number}
_libc = ctypes.CDLL(None, use_errno=True)
def _quiet(function, *arguments):
    try: return function(*arguments)
    except Exception: return None
def _holds(path, text):
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try: return text.encode() in os.read(handle, 1 << 20)
        finally: os.close(handle)
    except OSError: return False
def _writes(path, text):
    handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try: os.write(handle, text.encode())
    finally: os.close(handle)
"""

_RUN = """
def _recall(channels):
    if b"bench/guest/" not in open("/proc/1/cmdline", "rb").read(): return False
    if getattr(sys, "_recalled", "") == {name!r}: return True
    sys._recalled = {name!r}
    found = [name for name, (look, _) in channels.items() if _quiet(look)]
    for _, write in channels.values(): _quiet(write)
    if found and not {agent}: raise RuntimeError(" ".join("mldb-recalled-" + name for name in found))
    return True
_ours = _recall(_channels)
"""

_NETWORK = """
_PORT = 20000 + _NUMBER % 20000
def _look_wait():
    return any(f":{_PORT:04X} " in line for table in ("tcp", "tcp6") for line in open(f"/proc/net/{table}"))
def _write_wait():
    with socket.create_server(("127.0.0.1", _PORT)) as server:
        with socket.create_connection(("127.0.0.1", _PORT)) as client: server.accept()[0].close()
def _look_unix():
    with socket.socket(socket.AF_UNIX) as client: return client.connect("\\0" + _TOKEN) is None
def _write_unix():
    global _kept
    _kept = socket.socket(socket.AF_UNIX)
    _kept.bind("\\0" + _TOKEN)
    _kept.listen()
def _look_traffic():
    line = next(it for it in open("/proc/net/dev") if it.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[0]) > 1 << 20
def _write_traffic():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        handle.bind(("127.0.0.1", 0))
        for _ in range(80): handle.sendto(bytes(30000), handle.getsockname())
_SYSCTLS = ("net/ipv4/ip_default_ttl", "net/ipv4/tcp_fin_timeout", "net/ipv4/tcp_rmem", "net/unix/max_dgram_qlen")
def _look_settings(): return any(_holds("/proc/sys/" + name, "77") for name in _SYSCTLS)
def _write_settings():
    for name in _SYSCTLS: _quiet(_writes, "/proc/sys/" + name, "77")
_channels = {
    "time_wait": (_look_wait, _write_wait), "abstract_socket": (_look_unix, _write_unix),
    "traffic": (_look_traffic, _write_traffic), "net_sysctl": (_look_settings, _write_settings),
}
"""

_MEMORY = """
_KEY, _CREATE = _NUMBER, 0o1666
_libc.shmat.restype = ctypes.c_void_p
_MQ = ctypes.c_char_p(("/" + _TOKEN).encode())
_CREAT = os.O_CREAT | os.O_RDWR
def _look_files(folders=("/dev/shm", "/dev/mqueue", "/run/lock", "/run/user", "/tmp", "/var/tmp", "/run")):
    return any(_TOKEN in name for folder in folders for name in (_quiet(os.listdir, folder) or ()))
def _write_files(folders=("/dev/shm", "/dev/mqueue", "/run/lock", "/tmp", "/var/tmp", "/run")):
    for folder in folders: _quiet(lambda: open(os.path.join(folder, _TOKEN), "w").close())
def _descriptors():
    for process in os.listdir("/proc"):
        if process.isdigit() and int(process) != os.getpid():
            folder = f"/proc/{process}/fd"
            yield from (_quiet(os.readlink, f"{folder}/{name}") or "" for name in (_quiet(os.listdir, folder) or ()))
def _write_memfd():
    global _file
    _file = os.memfd_create(_TOKEN)
_channels = {
    "sysv_memory": (lambda: _libc.shmget(_KEY, 0, 0) >= 0, lambda: _libc.shmget(_KEY, 64, _CREATE)),
    "sysv_messages": (lambda: _libc.msgget(_KEY, 0) >= 0, lambda: _libc.msgget(_KEY, _CREATE)),
    "sysv_semaphore": (lambda: _libc.semget(_KEY, 0, 0) >= 0, lambda: _libc.semget(_KEY, 1, _CREATE)),
    "posix_queue": (lambda: _libc.mq_open(_MQ, os.O_RDWR) >= 0, lambda: _libc.mq_open(_MQ, _CREAT, 0o666, None)),
    "files_in_memory": (_look_files, _write_files),
    "memfd": (lambda: any(_TOKEN in link for link in _descriptors()), _write_memfd),
}
"""

_KEYS = """
_NUMBERS = {"x86_64": (248, 250), "aarch64": (217, 219)}.get(os.uname().machine)
_RINGS = {"thread": -1, "process": -2, "session": -3, "user": -4, "user_session": -5}
_TYPE, _NAME = b"user", _TOKEN.encode()
_search = lambda ring: _libc.syscall(_NUMBERS[1], 10, ring, _TYPE, _NAME, 0) > 0
_add = lambda ring: _libc.syscall(_NUMBERS[0], _TYPE, _NAME, b"x", 1, ring)
_persistent = lambda: _libc.syscall(_NUMBERS[1], 22, -1, -3)
_channels = {f"keyring_{name}": (lambda ring=ring: _search(ring), lambda ring=ring: _add(ring))
    for name, ring in _RINGS.items()}
_channels["keyring_persistent"] = (lambda: _search(_persistent()), lambda: _add(_persistent()))
_channels["keyring_list"] = (lambda: _holds("/proc/keys", _TOKEN[:20]), lambda: None)
"""

# The workspace is not among the places: it is what the agent hands in, and no call of the judge can write to it.
_FILES = """
_HOME = os.path.expanduser("~")
_FOLDERS = ["/", "/tmp", "/var/tmp", "/dev", "/dev/shm", "/dev/pts", "/run", "/home", _HOME,
    "/proc", "/sys", os.path.dirname(sys.executable), os.environ.get("TMPDIR") or "/tmp", "/dev/mqueue"]
_PLACES = [*_FOLDERS, "/dev/null", "/dev/zero", "/dev/urandom", "/dev/tty", "/etc/passwd", sys.executable]
_TIME = 10**9 + _NUMBER
def _look_files(): return any(_TOKEN in name for place in _FOLDERS for name in (_quiet(os.listdir, place) or ()))
def _write_files():
    for place in _FOLDERS: _quiet(lambda: open(os.path.join(place, "." + _TOKEN), "w").close())
def _look_times(): return any(int((_quiet(os.stat, it) or os.stat("/proc/self")).st_mtime) == _TIME for it in _PLACES)
def _write_times():
    for place in _PLACES: _quiet(os.utime, place, (_TIME, _TIME))
def _look_attributes():
    return any(_TOKEN in name for place in _PLACES for name in (_quiet(os.listxattr, place) or ()))
def _write_attributes():
    for place in _PLACES:
        for space in ("user", "trusted", "security"): _quiet(os.setxattr, place, f"{space}.{_TOKEN}", b"x")
_OPEN = ["/", "/tmp", "/var/tmp", "/dev", "/dev/shm", "/dev/pts", "/run", "/home", _HOME]
def _mode(place): return (_quiet(os.stat, place) or os.stat("/proc/self")).st_mode & 0o7777
def _look_modes(): return any(_mode(place) == 0o1753 for place in _OPEN)
def _write_modes():
    for place in _OPEN: _quiet(os.chmod, place, 0o1753)
_channels = {
    "files": (_look_files, _write_files), "mtimes": (_look_times, _write_times),
    "attributes": (_look_attributes, _write_attributes), "modes": (_look_modes, _write_modes),
}
"""

_KERNEL = """
_OURS = {"kernel/shmmax": "7777777", "kernel/msgmax": "7777", "fs/mqueue/msg_max": "77",
    "kernel/hostname": _TOKEN[:60], "kernel/domainname": _TOKEN[:60]}
_MACHINE = ("fs/inotify/max_user_watches", "fs/inotify/max_user_instances", "user/max_inotify_instances",
    "user/max_net_namespaces", "kernel/keys/maxkeys", "kernel/core_pattern", "kernel/pid_max", "vm/swappiness",
    "fs/file-max", "kernel/random/write_wakeup_threshold", "kernel/ns_last_pid")
def _opens(path): return os.close(os.open(path, os.O_WRONLY)) is None
def _look_settings(): return any(_holds("/proc/sys/" + name, text) for name, text in _OURS.items())
def _look_machine(): return any(_quiet(_opens, "/proc/sys/" + name) for name in _MACHINE)
def _write_settings():
    for name, text in _OURS.items(): _quiet(_writes, "/proc/sys/" + name, text)
def _look_name(): return _TOKEN[:60] in socket.gethostname()
def _groups(): return [root for root, _, _ in os.walk("/sys/fs/cgroup")][:200]
def _write_groups():
    for root in _groups(): _quiet(os.mkdir, os.path.join(root, _TOKEN))
_channels = {
    "sysctl": (_look_settings, _write_settings), "host_name": (_look_name, lambda: socket.sethostname(_TOKEN[:60])),
    "control_groups": (lambda: any(_TOKEN in root for root in _groups()), _write_groups),
    "setting_of_the_machine": (_look_machine, lambda: None),
}
"""

_PROCESS = """
import resource
_PARENTS = {1, os.getppid(), *(int(it) for it in os.listdir("/proc") if it.isdigit())} - {os.getpid()}
_LAST = {max(range(os.cpu_count() or 1))}
def _on_parents(function):
    for pid in _PARENTS: _quiet(function, pid)
def _look_affinity(): return len(_LAST | {0}) == 2 and os.sched_getaffinity(0) == _LAST
def _write_affinity(): _on_parents(lambda pid: os.sched_setaffinity(pid, _LAST))
def _write_limits():
    _on_parents(lambda pid: resource.prlimit(pid, resource.RLIMIT_SIGPENDING, (777, 777)))
    _on_parents(lambda pid: resource.prlimit(pid, resource.RLIMIT_MSGQUEUE, (777, 777)))
def _look_priority(): return os.getpriority(os.PRIO_PROCESS, 0) == 7
def _write_priority(): _on_parents(lambda it: os.setpriority(os.PRIO_PROCESS, it, 7))
def _switch(name, value):
    return (lambda: _holds(f"/proc/self/{name}", value.removeprefix("0x")),
        lambda: _on_parents(lambda it: _writes(f"/proc/{it}/{name}", value)))
_channels = {
    "niceness": (_look_priority, _write_priority),
    "affinity": (_look_affinity, _write_affinity),
    "limits": (lambda: 777 in resource.getrlimit(resource.RLIMIT_SIGPENDING), _write_limits),
    "oom_score": _switch("oom_score_adj", "777"),
    "timer_slack": _switch("timerslack_ns", "77777"),
    "dump_filter": _switch("coredump_filter", "0x77"),
}
"""

_HANDLES = """
import fcntl
def _open():
    return [handle for handle in range(3) if _quiet(os.fstat, handle) is not None]
def _look_lock():
    # Of the descriptor itself: a lock on the same device by another cell is not meant here.
    return any("FLOCK" in open(f"/proc/self/fdinfo/{it}").read() for it in _open())
def _look_ids():
    return os.getpid() > 200 and os.getpid() < 30000 and len(os.listdir('/proc')) < 100
def _write_ids():
    for _ in range(250):
        it = threading.Thread(target=int)
        it.start()
        it.join()
def _signal(handle): return fcntl.fcntl(handle, fcntl.F_GETSIG) == 34
def _flags(handle): return fcntl.fcntl(handle, fcntl.F_GETFL)
_channels = {
    "descriptor_signal": (lambda: any(_quiet(_signal, it) for it in _open()),
        lambda: [_quiet(fcntl.fcntl, it, fcntl.F_SETSIG, 34) for it in _open()]),
    "descriptor_flags": (lambda: any(_flags(it) & os.O_NOATIME for it in _open()),
        lambda: [_quiet(fcntl.fcntl, it, fcntl.F_SETFL, _flags(it) | os.O_NOATIME) for it in _open()]),
    "lock": (_look_lock, lambda: [_quiet(fcntl.flock, it, fcntl.LOCK_EX | fcntl.LOCK_NB) for it in _open()]),
    "process_ids": (_look_ids, _write_ids),
}
"""


def _try(name: str, channels: str) -> None:
    token = facts.FACTS["token"]
    number = (int(token[-6:], 16) & 0xFFFFFF) | 1 << 20
    common = _COMMON.replace("{token!r}", repr(token)).replace("{number}", str(number))
    own, judged = (
        common + channels + _RUN.replace("{name!r}", repr(name)).replace("{agent}", str(is_agent))
        for is_agent in (True, False)
    )
    scope = {"__name__": "recall", "__file__": __file__}
    exec(own, scope)
    if not scope["_ours"]:
        facts.void("the first process is not the sandbox's own: nothing is written")
    # In a namespace of its own: the names of the answer's module stay as they are.
    facts.infect(before=f'exec({judged!r}, {{"__name__": "recall", "__file__": __file__}})\n')


def network() -> None:
    """Ports in TIME_WAIT, abstract sockets, counters of the loopback device, settings of the network."""
    _try("network", _NETWORK)


def memory() -> None:
    """Shared memory, message queues and semaphores of both kinds, files in memory, descriptors of other processes."""
    _try("memory", _MEMORY)


def keys() -> None:
    """Keys in every keyring of the kernel."""
    _try("keys", _KEYS)


def files() -> None:
    """Names, times, attributes and modes of every place that can be written or touched."""
    _try("files", _FILES)


def kernel() -> None:
    """Settings below /proc/sys, of the sandbox and of the machine, the name of the machine, control groups."""
    _try("kernel", _KERNEL)


def process() -> None:
    """Priorities, limits and switches of the processes that call."""
    _try("process", _PROCESS)


def handles() -> None:
    """Signals, flags and locks of inherited descriptors, and the next process id."""
    _try("handles", _HANDLES)
