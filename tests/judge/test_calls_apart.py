"""Nothing passes from one call to the next: neither in memory nor in files nor in the kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.judge.deadline import Deadline
from bench.judge.subject import Subject
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.job import Job, Launch, Sandbox
from bench.sandbox.warm import probe_forks
from tests.helpers.cells import make_limits, write_files

_CHANNELS = '''
import ctypes, errno, fcntl, glob, mmap, os, random, resource, signal, socket, struct, sys, tempfile, threading, time

PORT, WORD, NICE = 34567, b"a word", int(open("nice").read())
libc = ctypes.CDLL(None, use_errno=True)


class Channels:
    """Each leaves a word and says whether one was there before."""

    def module_state(self):
        found = getattr(sys, "left", None)
        sys.left = WORD
        return found

    def files(self):
        found = []
        for folder, _, _ in os.walk("/", onerror=None):
            if folder.startswith(("/proc", "/usr", "/sys", "/run/bench/library")):
                continue
            path = os.path.join(folder, "left")
            found += [path] if os.path.lexists(path) else []
            try:
                open(path, "w").close()
            except OSError:
                pass
        return found

    def times(self):
        """Of files that cannot be written."""
        found = []
        places = ["/", "/tmp", "/dev", "/workspace", "/workspace/channels.py", "/home/agent", "/usr", "/proc", "/etc",
                  "/run", "/run/bench", sys.executable, *glob.glob("/dev/*")]
        for path in {os.path.realpath(place) for place in places if place not in ("/dev/stdout", "/dev/stderr")}:
            try:
                if os.stat(path).st_mtime_ns == 987654321000000000 or os.stat(path).st_atime_ns == 987654321000000000:
                    found.append(path)
                os.utime(path, ns=(987654321000000000, 987654321000000000))
            except OSError:
                pass
        return found

    def attributes(self):
        found = []
        for path in ["/", "/tmp", "/workspace", "/workspace/channels.py", "/dev/shm", "/dev/null", sys.executable]:
            try:
                found += [path] if "user.left" in os.listxattr(path) else []
                os.setxattr(path, "user.left", WORD)
            except OSError:
                pass
        return found

    def closing_ports(self):
        """In TIME_WAIT a port is taken for a minute, also when its process has ended."""
        server = socket.socket()
        try:
            server.bind(("127.0.0.1", PORT))
        except OSError as error:
            return str(error)
        server.listen()
        client = socket.create_connection(("127.0.0.1", PORT))
        other, _ = server.accept()
        other.close()
        client.close()
        server.close()
        again = socket.socket()
        try:
            again.bind(("127.0.0.1", PORT))
        except OSError:
            return None
        return "the channel itself does not work"

    def network_counters(self):
        lines = open("/proc/net/dev").read().split("lo:")[1].split()
        before = int(lines[1])
        ours = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        ours.bind(("127.0.0.1", 0))
        for _ in range(50):
            ours.sendto(WORD, ours.getsockname())
        after = int(open("/proc/net/dev").read().split("lo:")[1].split()[1])
        assert after - before >= 50
        return before if before >= 50 else None

    def abstract_socket(self):
        ours = socket.socket(socket.AF_UNIX)
        try:
            ours.connect("\\0left")
            return "it answers"
        except OSError:
            pass
        ours = socket.socket(socket.AF_UNIX)
        ours.bind("\\0left")
        ours.listen()
        if os.fork() == 0:
            os.setsid()
            time.sleep(60)
        return None

    def processes(self):
        found = [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) > 3]
        return found or None

    def shared_memory(self):
        found = libc.shmget(0x1eaf, 4096, 0)
        libc.shmget(0x1eaf, 4096, 0o1600)
        return found if found >= 0 else None

    def semaphores(self):
        found = libc.semget(0x1eaf, 1, 0)
        libc.semget(0x1eaf, 1, 0o1600)
        return found if found >= 0 else None

    def message_queues(self):
        found = libc.msgget(0x1eaf, 0)
        libc.msgget(0x1eaf, 0o1600)
        return found if found >= 0 else None

    def posix_queues(self):
        found = ctypes.CDLL("librt.so.1", use_errno=True).mq_open(b"/left", os.O_RDWR)
        ctypes.CDLL("librt.so.1").mq_open(b"/left", os.O_RDWR | os.O_CREAT, 0o600, None)
        return found if found >= 0 else None

    def keys(self):
        """The user's keyring, by keyctl(2) itself."""
        found = libc.syscall(249, b"user", b"left", None, -4)
        libc.syscall(248, b"user", b"left", WORD, len(WORD), -4)
        return found if found >= 0 else None

    def memory_files(self):
        found = [os.readlink(path) for path in glob.glob("/proc/[0-9]*/fd/*") if "left" in os.readlink(path)]
        self.kept = os.memfd_create("left", 0)
        os.set_inheritable(self.kept, True)
        if os.fork() == 0:
            os.setsid()
            time.sleep(60)
        return found or None

    def watches(self):
        handle = libc.inotify_init1(0)
        found = None if handle >= 0 else "no instance left"
        for _ in range(200):
            libc.inotify_init1(0)
        return found

    def standing(self):
        cpus = sorted(os.sched_getaffinity(0))
        found = [os.nice(0) - NICE, cpus if len(cpus) < self.cpus() else None]
        os.nice(3)
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
        return found if found != [0, None] else None

    def cpus(self):
        return open("/proc/cpuinfo").read().count("processor\\t")

    def settings(self):
        found = []
        for path in glob.glob("/proc/sys/**", recursive=True):
            if os.path.isfile(path):
                try:
                    text = open(path).read()
                    open(path, "w").write(text)
                    found.append(path)
                except OSError:
                    pass
        return found or None

    def open_files(self):
        """Settings of an open file are those of all who share it."""
        found = [number for number in (0, 1, 2) if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_NONBLOCK]
        found += [number for number in (0, 1, 2) if fcntl.fcntl(number, fcntl.F_GETSIG) == 12]
        for number in (0, 1, 2):
            fcntl.fcntl(number, fcntl.F_SETFL, fcntl.fcntl(number, fcntl.F_GETFL) | os.O_NONBLOCK)
            fcntl.fcntl(number, fcntl.F_SETSIG, 12)
        return found or None

    def names(self):
        found = socket.gethostname()
        try:
            socket.sethostname("left")
        except OSError:
            pass
        return found if found == "left" else None

    def machine_counters(self):
        """What the whole machine counts stands still, or the number of forks would be a number of words."""
        before = open("/proc/stat").read(), open("/proc/loadavg").read(), open("/proc/vmstat").read()
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
        after = open("/proc/stat").read(), open("/proc/loadavg").read(), open("/proc/vmstat").read()
        return None if before == after else "they move"

    def page_cache(self):
        return None if libc.syscall(451, 0, 0, 0, 0) < 0 and ctypes.get_errno() == errno.ENOSYS else "cachestat"

    def random_numbers(self):
        found = random.random(), threading.get_native_id()
        return None if found[0] != self.__dict__.get("last") else found


def leave():
    channels, found = Channels(), {}
    for name in sorted(vars(Channels)):
        if not name.startswith("_") and name != "cpus":
            try:
                result = getattr(channels, name)()
            except OSError:
                continue
            if result:
                found[name] = str(result)
    return found


def drawn():
    import numpy
    return [random.random(), float(numpy.random.random())]
'''


def _files() -> dict[str, str | bytes]:
    """Of the workspace; the tests may themselves be run by `nice`."""
    return {"channels.py": _CHANNELS, "nice": str(os.nice(0))}


@pytest.fixture
def subject(isolating: Sandbox, tmp_path: Path) -> Iterator[Subject]:
    write_files(tmp_path / "workspace", _files())
    made = Subject(isolating, tmp_path / "workspace", ("numpy",), make_limits(), Deadline(120))
    yield made
    made.close()


def _call(subject: Subject, target: str) -> object:
    return subject.call(target, (), {}, timeout=60, driver=None)


def test_no_channel_carries_a_word_from_one_call_to_the_next(subject: Subject) -> None:
    assert [_call(subject, "channels:leave") for _ in range(3)] == [{}, {}, {}]


def test_no_two_calls_draw_the_same_numbers(subject: Subject) -> None:
    first, second = _call(subject, "channels:drawn"), _call(subject, "channels:drawn")
    assert isinstance(first, list) and isinstance(second, list)
    assert not set(first) & set(second)


_LOOK = """
import os
def f():
    mounts = [line.split() for line in open("/proc/self/mountinfo")]
    top = {words[4]: words[5].split(",") for words in mounts}
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    executable = os.open("/proc/self/exe", os.O_RDONLY)
    try:
        os.fchmod(executable, 0o777)
        changed = True
    except OSError:
        changed = False
    return {
        "writable": sorted(place for place, options in top.items() if "rw" in options and os.path.isdir(place)),
        "capabilities": [int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")],
        "filters": [status[name].strip() for name in ("NoNewPrivs", "Seccomp")],
        "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
        "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1],
        "arena": os.listdir("/run/bench/arena"),
        "workspace": os.listdir("/workspace"),
        "orders": [name for name in os.environ if name.startswith("BENCH")],
        "changed": changed,
    }
"""


def test_a_call_holds_nothing_of_the_process_that_it_is_a_fork_of(isolating: Sandbox, tmp_path: Path) -> None:
    write_files(tmp_path / "arena", {"a/workspace/look.py": _LOOK, "b/workspace/secret.py": "", "a/journals/x": ""})
    subject = Subject(isolating, tmp_path / "arena/a/workspace", (), make_limits(), Deadline(60))
    found = _call(subject, "look:f")
    subject.close()
    assert isinstance(found, dict)
    kept = [place for place in found.pop("writable") if place not in ("/dev/shm", "/home/agent", "/tmp")]
    # Those below are hidden by the ones above them.
    assert set(kept) <= {"/proc", "/dev/pts", "/dev/mqueue", "/sys/fs/cgroup"}
    assert len(found.pop("descriptors")) <= 5
    assert found == {
        "capabilities": [0, 0, 0, 0],
        "filters": ["1", "2"],
        "processes": [1, 2],
        "arena": [],
        "workspace": ["look.py"],
        "orders": [],
        "changed": False,
    }


class _WithoutNamespaces(BubblewrapSandbox):
    """Like a machine on which a process in a sandbox may make no namespaces."""

    def launch(self, job: Job) -> Launch:
        return super().launch(replace(job, trusted=False))


def test_doctor_can_tell_how_calls_are_made(bubblewrap: Sandbox) -> None:
    assert probe_forks(bubblewrap).works
    refused = probe_forks(_WithoutNamespaces())
    assert not refused.works
    assert "Operation not permitted" in refused.detail
    assert "sysctl" in refused.remedy


def test_where_no_process_may_make_namespaces_each_call_has_a_sandbox(tmp_path: Path, bubblewrap: Sandbox) -> None:
    del bubblewrap
    write_files(tmp_path / "workspace", _files())
    subject = Subject(_WithoutNamespaces(), tmp_path / "workspace", ("numpy",), make_limits(), Deadline(120))
    try:
        assert [_call(subject, "channels:drawn") != _call(subject, "channels:drawn")] == [True]
        ports = "import channels\ndef f():\n    return channels.Channels().closing_ports()\n"
        write_files(tmp_path / "workspace", {"ports.py": ports})
        assert [_call(subject, "ports:f") for _ in range(2)] == [None, None]
    finally:
        subject.close()
