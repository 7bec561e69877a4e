"""Attacks on the bubblewrap sandbox from inside: each is really tried, and stops by itself if it should succeed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.judge.deadline import Deadline
from bench.judge.subject import Subject
from bench.sandbox import cgroup_location
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.cgroup import memory_cap_mb, remove_abandoned, tasks_cap
from bench.sandbox.running import run_job
from tests.helpers.cells import ROOT, make_job, make_limits, new_token, not_here, run_code, wait_until_gone, write_files


@pytest.fixture
def kernel() -> None:
    """For tests of what only the kernel can stop; ordinary users may have no group for it, root always."""
    found = cgroup_location.probe_cgroups()
    if not found.works:
        if os.geteuid() == 0:
            not_here(f"control groups: {found.detail}")
        pytest.skip(f"control groups: {found.detail} (run these tests as root, too)")


# --- limits, by the kernel -------------------------------------------------------------------------------------------

_FORKS = """
import os, time
def fork(depth):
    for _ in range(8):
        if os.fork() == 0:
            if depth:
                fork(depth - 1)
            time.sleep(10)
            os._exit(0)
try:
    fork(3)
except OSError:
    open("met", "w").close()
time.sleep(10)
"""


def test_a_fork_bomb_ends_the_job(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    """Some four thousand processes, if nobody stops it: the watchers or the kernel, whoever comes first."""
    ended = run_code(bubblewrap, tmp_path, _FORKS, limits=make_limits(processes=20))
    assert ended.reason == "process_limit"
    assert ended.peak_processes < 1000


def test_threads_meet_the_kernel(kernel: None, bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    code = """
import os, threading, time
made = 0
try:
    for made in range(600):
        threading.Thread(target=time.sleep, args=(10,), daemon=True).start()
except RuntimeError:
    pass
os.write(1, str(made).encode())
time.sleep(5)
"""
    limits = make_limits(processes=20)
    ended = run_code(bubblewrap, tmp_path, code, limits=limits)
    assert ended.reason == "process_limit"
    assert int(ended.stdout or b"0") < tasks_cap(limits)


_AT_ONCE = "kept = bytearray(700 << 20)\nfor place in range(0, len(kept), 4096): kept[place] = 1"
_IN_FILES = """
import os
for number in range(14):
    with open(f"/{folder}/x{{number}}", "wb") as file:
        file.write(b"x" * (50 << 20))
"""
_UNMAPPED = """
import os
kept = [os.memfd_create(str(number)) for number in range(14)]
for descriptor in kept:
    for _ in range(50):
        os.write(descriptor, b"x" * (1 << 20))
"""


@pytest.mark.parametrize(
    "code",
    [_AT_ONCE, _IN_FILES.format(folder="tmp"), _IN_FILES.format(folder="dev/shm"), _UNMAPPED],
    ids=["at once", "tmp", "shm", "memfd"],
)
def test_a_memory_bomb_meets_the_kernel(kernel: None, bubblewrap: BubblewrapSandbox, tmp_path: Path, code: str) -> None:
    limits = make_limits(memory_mb=150, disk_mb=1024)
    ended = run_code(
        bubblewrap, tmp_path, f"{code}\nprint('survived', flush=True)\nimport time; time.sleep(3)", limits=limits
    )
    assert ended.reason == "memory_limit", (ended.code, ended.stderr)
    assert b"survived" not in ended.stdout
    assert 150 < ended.peak_memory_mb <= memory_cap_mb(limits)


def test_reading_files_is_no_use_of_memory(kernel: None, bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    code = """
for turn in range(2):
    for number in range(4):
        with open(str(number), "wb") as file:
            for _ in range(60):
                file.write(b"x" * (1 << 20))
        with open(str(number), "rb") as file:
            while file.read(1 << 20):
                pass
import time; time.sleep(0.3)
"""
    ended = run_code(bubblewrap, tmp_path, code, limits=make_limits(memory_mb=100, disk_mb=1024))
    assert (ended.reason, ended.code) == ("exit", 0)
    assert ended.peak_memory_mb < 100


def test_processors_are_limited(kernel: None, bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    """Two busy processes for a second of wall time, on one processor's worth: not two seconds of work."""
    code = """
import os, time
began = time.monotonic()
child = os.fork()
while time.monotonic() - began < 1:
    pass
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
used = os.times()
print(used.user + used.system + used.children_user + used.children_system)
"""
    ended = run_code(bubblewrap, tmp_path, code, limits=make_limits(cpus=1))
    assert ended.code == 0, ended.stderr
    assert float(ended.stdout) < 1.5


# --- the first process -----------------------------------------------------------------------------------------------

_FIRST = """
import ctypes, os, resource, signal, socket
libc = ctypes.CDLL(None, use_errno=True)
descriptors = [f"{folder}/{number}" for folder in ("fd", "fdinfo") for number in range(64)]
for name in ("environ", "mem", "maps", "cwd", "root", "exe", "io", "stack", "auxv", "pagemap", *descriptors):
    for look in (lambda path: open(path, "rb").read(1), os.readlink):
        try:
            print("seen:", name, look("/proc/1/" + name))
        except OSError:
            pass
for number in range(1, 65):
    try:
        os.kill(1, number)
    except OSError:
        pass
try:
    resource.prlimit(1, resource.RLIMIT_CPU, (0, 0))
    print("limits")
except OSError:
    pass
for number in (17, 16, 0x4206):
    if libc.ptrace(number, 1, 0, 0) == 0:
        print("traced")
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("203.0.113.9", 80))
except OSError:
    pass
raise SystemExit(7)
"""


def test_the_first_process_is_out_of_reach_and_sees_the_end(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    """A job that could end it would be taken for a fault of the machine, and its tries to leave forgotten."""
    ended = run_code(bubblewrap, tmp_path, _FIRST)
    assert (ended.reason, ended.code, ended.stdout) == ("exit", 7, b""), ended.stderr
    assert ended.network_attempts.addresses == 1


def test_many_connections_do_not_end_the_forwarding(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    import socketserver
    import threading

    class Echo(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(self.rfile.readline())

    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True
        request_queue_size = 64

    code = """
import os, socket
address = ("127.0.0.1", int(os.environ["PORT"]))
idle = []
for _ in range(300):
    connection = socket.socket()
    connection.settimeout(0.2)
    try:
        connection.connect(address)
    except OSError:
        break
    idle.append(connection)
for connection in idle:
    connection.close()
with socket.create_connection(address, 15) as connection:
    connection.sendall(b"still there\\n")
    print(connection.recv(100))
"""
    with Server(str(tmp_path / "echo.sock"), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (tmp_path / "work").mkdir()
        limits = make_limits(open_files=1000, wall_s=120)
        sockets = {"echo": tmp_path / "echo.sock"}
        ended = run_code(
            bubblewrap, tmp_path / "work", code, sockets=sockets, env={"PORT": "{port:echo}"}, limits=limits
        )
        server.shutdown()
    assert ended.stdout == b"b'still there\\n'\n", ended.stderr


_STARTER = """
import os, subprocess, sys, time
from pathlib import Path
from bench.sandbox.bubblewrap import BubblewrapSandbox
from tests.helpers.cells import make_job
job = make_job(Path(sys.argv[1]), ["python", "-c", "import time; time.sleep(30)", sys.argv[2]])
launch = BubblewrapSandbox().launch(job)
subprocess.Popen(launch.argv, env=launch.env, pass_fds=launch.descriptors, start_new_session=True)
time.sleep(float(sys.argv[3]))
os._exit(0)
"""


@pytest.mark.parametrize("rest", [0, 0.01, 0.03])
def test_a_job_does_not_begin_when_its_runner_died_before(
    bubblewrap: BubblewrapSandbox, tmp_path: Path, rest: float
) -> None:
    """Before bubblewrap has asked to be told of that death: the first process finds nobody to speak to."""
    token = new_token()
    argv = [sys.executable, "-c", _STARTER, str(tmp_path), token, str(rest)]
    subprocess.run(argv, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    assert wait_until_gone(token) == []
    # What bubblewrap leaves half made stands still, until the next runner removes its group.
    remove_abandoned(cgroup_location._branches())
    assert not cgroup_location._branches() or wait_until_gone(str(tmp_path)) == []


# --- the machine -----------------------------------------------------------------------------------------------------


def test_variables_of_a_job_do_not_reach_programs_outside(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    """The loader of each program that is started outside would write a trace there, or load an agent's library."""
    outside = tmp_path / "outside"
    work = tmp_path / "work"
    outside.mkdir()
    work.mkdir()
    env = {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": f"{outside}/trace", "LD_PRELOAD": "/nowhere/planted.so"}
    ended = run_code(bubblewrap, work, "import os; print(os.environ['LD_PRELOAD'])", env=env)
    assert b"/nowhere/planted.so\n" in ended.stdout
    assert list(outside.iterdir()) == []


def test_programs_in_the_workspace_are_not_run_outside(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    work, mark = tmp_path / "work", tmp_path / "ran"
    names = ("bwrap", "sh", "mount", "unshare", "true")
    write_files(work, dict.fromkeys(names, f"#!/bin/sh\ntouch {mark}\n"))
    for name in names:
        (work / name).chmod(0o755)
    run_job(bubblewrap, make_job(work, ["true"], env={"PATH": f"{work}:.:/usr/bin"}))
    assert not mark.exists()


def test_devices_are_used_and_not_changed(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    code = """
import os
open("/dev/null", "w").write("x")
assert len(open("/dev/urandom", "rb").read(4)) == 4 and open("/dev/zero", "rb").read(2) == b"\\0\\0"
for name in sorted(os.listdir("/dev")):
    path = "/dev/" + name
    if os.path.isdir(path) or os.path.islink(path):
        continue
    before = os.stat(path)
    # The same mode and times as before: should it be allowed, nothing is lost.
    times = (before.st_atime_ns, before.st_mtime_ns)
    for change, value in ((os.chmod, before.st_mode & 0o7777), (lambda path, ns: os.utime(path, ns=ns), times)):
        try:
            change(path, value)
            print(path)
        except OSError:
            pass
print(sorted(os.listdir("/dev")))
"""
    ended = run_code(bubblewrap, tmp_path, code)
    wanted = ["core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty"]
    assert ended.stdout.decode() == f"{[*wanted, 'urandom', 'zero']}\n", ended.stderr


def test_what_only_root_may_read_is_not_there(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    code = """
import os
for name in ("kcore", "keys", "kmsg", "kpagecount", "slabinfo", "timer_list", "vmallocinfo", "pagetypeinfo"):
    try:
        if open("/proc/" + name, "rb").read(1):
            print("read", name)
    except OSError:
        pass
for place in ("/etc", "/run"):
    for folder, folders, files in os.walk(place):
        for name in files:
            path = os.path.join(folder, name)
            if not os.path.islink(path) and not os.stat(path).st_mode & 0o004 and not path.endswith(".sock"):
                print("private", path)
import ssl
print(len(ssl.create_default_context().get_ca_certs()) > 10, os.path.exists("/etc/ssl/private"))
"""
    ended = run_code(bubblewrap, tmp_path, code)
    trusted = Path("/etc/ssl/certs/ca-certificates.crt").exists()
    assert ended.stdout.decode() == f"{trusted} False\n", ended.stderr


def test_it_sees_no_group_and_no_filesystem_of_the_kernel(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    code = """
print({line.strip().rsplit(":", 1)[1] for line in open("/proc/self/cgroup")})
print(sorted({line.split()[2] for line in open("/proc/mounts")} & {"cgroup", "cgroup2", "sysfs", "debugfs", "mqueue"}))
"""
    assert run_code(bubblewrap, tmp_path, code).stdout == b"{'/'}\n[]\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's jobs could")
def test_debuggers_and_nested_sandboxes_do_not_work(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    for program, argv in (("strace", ["strace", "true"]), ("bwrap", ["bwrap", "--ro-bind", "/", "/", "true"])):
        if shutil.which(program):
            assert run_job(bubblewrap, make_job(tmp_path, argv)).code != 0, program


# --- between the calls of one subject --------------------------------------------------------------------------------


@pytest.fixture
def subject(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> Iterator[Subject]:
    text = """
import ctypes, os, resource
def changes(what):
    parent = os.getppid()
    try:
        if what == "affinity":
            os.sched_setaffinity(parent, {min(os.sched_getaffinity(0))})
        elif what == "limits":
            resource.prlimit(parent, resource.RLIMIT_NOFILE, (20, 20))
        elif what == "priority":
            os.setpriority(os.PRIO_PROCESS, parent, 19)
        elif what == "policy":
            os.sched_setscheduler(parent, os.SCHED_IDLE, os.sched_param(0))
    except PermissionError:
        return "refused"
    return "done"
def standing():
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return [sorted(os.sched_getaffinity(0)), os.nice(0), os.sched_getscheduler(0), files]
def leave():
    open("/dev/shm/left", "w").close()
    libc = ctypes.CDLL(None, use_errno=True)
    return [libc.shmget(7, 4096, 0o1666), libc.semget(7, 1, 0o1666), libc.msgget(7, 0o1666)]
def find():
    return os.listdir("/dev/shm")
"""
    write_files(tmp_path / "workspace", {"answer.py": text})
    made = Subject(bubblewrap, tmp_path / "workspace", (), make_limits(), Deadline(30))
    yield made
    made.close()


def _call(subject: Subject, name: str, *arguments: object) -> object:
    return subject.call(f"answer:{name}", arguments, {}, timeout=5, driver=None)


@pytest.mark.parametrize("what", ["limits", "priority", "policy"])
def test_a_call_cannot_slow_or_starve_the_next(subject: Subject, what: str) -> None:
    before = _call(subject, "standing")
    assert _call(subject, "changes", what) == "refused"
    assert _call(subject, "standing") == before


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_a_call_takes_processors_from_itself_alone(subject: Subject) -> None:
    before = _call(subject, "standing")
    _call(subject, "changes", "affinity")
    assert _call(subject, "standing") == before


def test_a_call_leaves_nothing_in_memory_for_the_next(subject: Subject) -> None:
    assert _call(subject, "leave") == [-1, -1, -1]
    assert _call(subject, "find") == []


def test_the_runners_own_tools_find_the_same(tmp_path: Path) -> None:
    """The module that a sandbox imports needs nothing but the standard library."""
    code = (
        "import json, dataclasses, bench.sandbox.cgroup_location as c\n"
        "print(json.dumps(dataclasses.asdict(c.probe_cgroups())))"
    )
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-S", "-c", code],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(cgroup_location.__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["works"] == cgroup_location.probe_cgroups().works
