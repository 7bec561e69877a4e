"""All back ends: the same limits, the same ends, nothing left behind; and what those that isolate hide."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bench
import bench.sandbox.choose as choose_module
from bench.base.errors import InfraError, UserError
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.choose import choose_sandbox, probe_bubblewrap, probe_docker
from bench.sandbox.job import EndReason, Mount, Sandbox
from bench.sandbox.process import ProcessSandbox
from bench.sandbox.running import Tail, run_job, start
from tests.helpers.cells import (
    ROOT,
    make_job,
    make_limits,
    new_token,
    processes_with,
    python,
    run_code,
    wait_until_gone,
    write_files,
)
from tests.helpers.faults import wait_for

_OWN_VARIABLES = {
    "PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "LANG", "PWD", "TZ", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
    "OMP_WAIT_POLICY", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "BENCH_JOB", "LC_CTYPE",
}  # fmt: skip

# Leaves the session and the process group, forgets its environment, ignores every signal it can; ends by itself.
_DAEMON = """
import os, signal, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(40)", sys.argv[1]], {})
    os._exit(0)
import time; time.sleep(0.3)
"""


# --- what a job is given ---------------------------------------------------------------------------------------------


def test_the_environment_holds_nothing_of_the_runner(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVIDER_API_KEY", "secret-of-the-runner")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    ended = run_code(sandbox, tmp_path, "import os; print(*os.environ, *os.environ.values())", env={"GIVEN": "yes"})
    words = ended.stdout.decode().split()
    assert ended.code == 0
    assert "yes" in words
    assert "secret-of-the-runner" not in ended.stdout.decode()
    names = {word for word in words if word.isupper() or ("_" in word and word.upper() == word)}
    assert names - _OWN_VARIABLES <= {"GIVEN", "C.UTF-8", "PASSIVE"}


def test_no_descriptor_of_the_runner_is_inherited(sandbox: Sandbox, tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        code = """
import os
paths = [f"/proc/self/fd/{n}" for n in range(3, 64)]
print([os.readlink(path) for path in paths if os.path.exists(path)])
"""
        ended = run_code(sandbox, tmp_path, code)
    assert ended.stdout.decode().strip() == "[]"


def test_standard_input_is_empty(sandbox: Sandbox, tmp_path: Path) -> None:
    assert run_code(sandbox, tmp_path, "import sys; print(repr(sys.stdin.read()))").stdout == b"''\n"


def test_the_job_starts_in_its_folder_and_may_write_it(sandbox: Sandbox, tmp_path: Path) -> None:
    ended = run_code(sandbox, tmp_path, "open('made.txt', 'w').write('x')")
    assert (ended.reason, ended.code) == ("exit", 0)
    assert (tmp_path / "made.txt").read_text() == "x"


def test_home_and_tmp_are_empty_and_writable(sandbox: Sandbox, tmp_path: Path) -> None:
    code = """
import os
for name in ("HOME", "TMPDIR"):
    open(os.path.join(os.environ[name], "x"), "w").write("x")
print(os.listdir(os.environ["HOME"]))
"""
    ended = run_code(sandbox, tmp_path, code)
    assert (ended.code, ended.stdout) == (0, b"['x']\n")


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("raise SystemExit(0)", 0),
        ("raise SystemExit(3)", 3),
        ("import os; os._exit(255)", 255),
        ("import os; os.kill(os.getpid(), 9)", 137),
        ("import os; os.kill(os.getpid(), 15)", 143),
        ("import os; os.abort()", 134),
    ],
)
def test_the_status_is_the_commands_own(sandbox: Sandbox, tmp_path: Path, code: str, status: int) -> None:
    ended = run_code(sandbox, tmp_path, code)
    assert (ended.reason, ended.code) == ("exit", status)


def test_a_command_that_is_not_there_is_status_127_with_its_name(sandbox: Sandbox, tmp_path: Path) -> None:
    ended = run_job(sandbox, make_job(tmp_path, ["no-such-program-here"]))
    assert (ended.reason, ended.code) == ("exit", 127)
    assert b"no-such-program-here" in ended.stderr


def test_python_is_the_jobs_own_interpreter(sandbox: Sandbox, tmp_path: Path) -> None:
    write_files(tmp_path, {"python": "#!/bin/sh\nexit 9\n"})
    (tmp_path / "python").chmod(0o755)
    ended = run_job(sandbox, make_job(tmp_path, ["python", "-c", "import numpy"], env={"PATH": f"{tmp_path}:/usr/bin"}))
    assert ended.code == 0, ended.stderr


# --- limits ----------------------------------------------------------------------------------------------------------


def test_time_is_limited_and_the_tree_ends_with_it(sandbox: Sandbox, tmp_path: Path) -> None:
    token = new_token()
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(30)', sys.argv[1]])"
    ended = run_code(sandbox, tmp_path, code, token, limits=make_limits(wall_s=1))
    assert ended.reason == "time_limit"
    assert processes_with(token) == []


_TAKE = """
import sys, time
kept = []
while len(kept) < 60:
    {take}
    time.sleep(0.02)
time.sleep(3)
"""


@pytest.mark.parametrize(
    "take",
    [
        "kept.append(bytearray(b'x' * (10 << 20)))",
        "import mmap; block = mmap.mmap(-1, 10 << 20); block.write(b'x' * (10 << 20)); kept.append(block)",
        "import os; f = os.memfd_create('x'); os.write(f, b'x' * (10 << 20)); import mmap;"
        " kept.append(mmap.mmap(f, 10 << 20)); sum(kept[-1][::4096])",
    ],
    ids=["private", "shared", "memfd"],
)
def test_memory_is_limited_however_it_is_taken(sandbox: Sandbox, tmp_path: Path, take: str) -> None:
    ended = run_code(sandbox, tmp_path, _TAKE.format(take=take), limits=make_limits(memory_mb=200))
    assert ended.reason == "memory_limit", (ended.code, ended.stderr)
    assert ended.peak_memory_mb > 200


def test_memory_of_all_processes_counts_together(sandbox: Sandbox, tmp_path: Path) -> None:
    code = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        block = bytearray(b"x" * (80 << 20))
        time.sleep(5)
        os._exit(0)
time.sleep(5)
"""
    ended = run_code(sandbox, tmp_path, code, limits=make_limits(memory_mb=200))
    assert ended.reason == "memory_limit"


def test_pages_that_forks_share_count_once(sandbox: Sandbox, tmp_path: Path) -> None:
    code = """
import os, time
block = bytearray(b"x" * (80 << 20))
for _ in range(5):
    if os.fork() == 0:
        time.sleep(1)
        os._exit(0)
time.sleep(1)
"""
    ended = run_code(sandbox, tmp_path, code, limits=make_limits(memory_mb=200))
    assert (ended.reason, ended.code) == ("exit", 0)
    assert ended.peak_memory_mb < 200


def test_processes_are_limited(sandbox: Sandbox, tmp_path: Path) -> None:
    code = """
import os, time
for _ in range(60):
    if os.fork() == 0:
        time.sleep(8)
        os._exit(0)
time.sleep(8)
"""
    ended = run_code(sandbox, tmp_path, code, limits=make_limits(processes=20))
    assert ended.reason == "process_limit"
    assert ended.peak_processes > 20


def test_open_files_are_limited(sandbox: Sandbox, tmp_path: Path) -> None:
    code = "files = [open('/dev/null') for _ in range(200)]"
    ended = run_code(sandbox, tmp_path, code, limits=make_limits(open_files=64))
    assert ended.code == 1
    assert b"Too many open files" in ended.stderr


@pytest.mark.parametrize(
    "write",
    [
        "f.write(b'x' * (4 << 20))",
        "f.truncate(6 << 20)",
        "os.link(f.name, f'link{n}'); f.write(b'x' * (8 << 20)) if n == 0 else os.link('0', f'more{n}')",
    ],
    ids=["written", "sparse", "linked"],
)
@pytest.mark.parametrize("rest", [0, 5], ids=["ends at once", "stays"])
def test_disk_is_limited_for_all_files_together(sandbox: Sandbox, tmp_path: Path, write: str, rest: int) -> None:
    code = f"""
import os, time
for n in range(10):
    with open(str(n), "wb") as f:
        {write}
time.sleep({rest})
"""
    ended = run_code(sandbox, tmp_path, code, limits=make_limits(disk_mb=16))
    assert ended.reason == "disk_limit", (ended.code, ended.stderr)


@pytest.mark.parametrize("limit", ["time_limit", "memory_limit", "output_limit"])
def test_who_fills_the_disk_and_meets_another_limit_has_filled_the_disk(
    bubblewrap: BubblewrapSandbox, tmp_path: Path, limit: EndReason
) -> None:
    """Whatever came first: only one of them makes the runner fail, too."""
    script = """
import os, time
for name in ("big", "part"):
    open(name, "wb").truncate(6 << 20)
os.rename("part", "small")
time.sleep(60)
"""
    job = make_job(tmp_path, python("-c", script), limits=make_limits(disk_mb=8))
    null = subprocess.DEVNULL
    with start(bubblewrap, job, stdin=null, stdout=null, stderr=null) as running:
        wait_for((tmp_path / "small").exists)
        running.stop(limit)
        running.settle()
    assert running.reason == "disk_limit"


def test_a_single_file_is_limited_at_once(sandbox: Sandbox, tmp_path: Path) -> None:
    code = "f = open('big', 'wb', 0)\nfor _ in range(64): f.write(b'x' * (1 << 20))"
    ended = run_code(sandbox, tmp_path, code, limits=make_limits(disk_mb=8))
    assert ended.code != 0
    assert (tmp_path / "big").stat().st_size <= 8 << 20


def test_files_too_deep_to_be_counted_are_over_the_limit(sandbox: Sandbox, tmp_path: Path) -> None:
    code = """
import os
for _ in range(60):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
for n in range(10):
    open(str(n), "wb").write(b"x" * (4 << 20))
"""
    ended = run_code(sandbox, tmp_path, code, limits=make_limits(disk_mb=16))
    assert ended.reason == "disk_limit"
    subprocess.run(["rm", "-rf", str(tmp_path / ("d" * 200))], check=True)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_flood_of_output_ends_the_job_and_is_bounded_in_memory(sandbox: Sandbox, tmp_path: Path, stream: str) -> None:
    code = f"import sys\nfor _ in range(300): sys.{stream}.buffer.write(b'x' * (1 << 20))"
    ended = run_code(sandbox, tmp_path, code, limits=make_limits(output_mb=1))
    assert ended.reason == "output_limit"
    assert len(ended.stdout) + len(ended.stderr) < 3 << 20
    assert ended.dropped_bytes > 0


def test_much_output_keeps_its_beginning_and_its_end(sandbox: Sandbox, tmp_path: Path) -> None:
    code = "import sys; sys.stdout.write('first' + 'x' * (5 << 20) + 'last')"
    ended = run_code(sandbox, tmp_path, code, limits=make_limits(output_mb=1))
    assert (ended.reason, ended.code) == ("exit", 0)
    assert ended.stdout.startswith(b"first")
    assert ended.stdout.endswith(b"last")
    assert ended.dropped_bytes == (5 << 20) + 9 - (1 << 20)
    assert f"{ended.dropped_bytes} bytes left out".encode() in ended.stdout


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(2, 60))
def test_the_kept_part_of_a_stream(parts: list[bytes], limit: int) -> None:
    tail = Tail(limit)
    for part in parts:
        tail.feed(part)
        assert len(tail.head) + len(tail.tail) <= limit + limit // 2 + 1
    whole, half = b"".join(parts), limit // 2
    if len(whole) <= 2 * half:
        assert tail.value() == whole
        assert tail.dropped == 0
    elif tail.dropped:
        assert tail.value().startswith(whole[:half])
        assert tail.value().endswith(whole[-half:])
        assert tail.dropped == len(whole) - 2 * half


# --- nothing is left -------------------------------------------------------------------------------------------------


def test_a_daemon_is_gone_afterwards(sandbox: Sandbox, tmp_path: Path) -> None:
    token = new_token()
    ended = run_code(sandbox, tmp_path, _DAEMON, token)
    assert (ended.reason, ended.code) == ("exit", 0), ended.stderr
    assert processes_with(token) == []


def test_a_daemon_is_gone_after_a_limit(sandbox: Sandbox, tmp_path: Path) -> None:
    token = new_token()
    ended = run_code(sandbox, tmp_path, _DAEMON + "time.sleep(20)", token, limits=make_limits(wall_s=1))
    assert ended.reason == "time_limit"
    assert processes_with(token) == []


def test_a_daemon_that_keeps_the_output_open_does_not_hold_the_job(sandbox: Sandbox, tmp_path: Path) -> None:
    ended = run_code(
        sandbox, tmp_path, "import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(30)\nprint('x')"
    )
    assert (ended.reason, ended.code, ended.stdout) == ("exit", 0, b"x\n")


def test_no_folder_of_the_job_is_left(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, scratch = tmp_path / "work", tmp_path / "scratch"
    work.mkdir()
    scratch.mkdir()
    code = """
import os
os.chdir(os.environ["TMPDIR"])
for _ in range(40):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
os.mkdir("locked")
os.chmod("locked", 0)
"""
    ended = run_code(sandbox, work, code, scratch=scratch)
    assert ended.code == 0, ended.stderr
    assert list(scratch.iterdir()) == []


_RUNNER = """
import sys
from pathlib import Path
from bench.sandbox.choose import open_sandbox
from tests.helpers.cells import run_code
sandbox = open_sandbox(sys.argv[1])
place = Path(sys.argv[2])
code = open(sys.argv[3]).read() + "print(); open('up', 'w'); time.sleep(20)"
run_code(sandbox, place, code, sys.argv[4], scratch=place)
"""


def test_all_end_when_the_runner_is_killed(sandbox: Sandbox, tmp_path: Path) -> None:
    token = new_token()
    write_files(tmp_path, {"daemon.py": _DAEMON})
    argv = python("-c", _RUNNER, sandbox.name, str(tmp_path), str(tmp_path / "daemon.py"), token)
    with subprocess.Popen(argv, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}) as runner:
        while not (tmp_path / "up").exists():
            assert runner.poll() is None, "the runner ended before its job was up"
        assert len(processes_with(token)) >= 2
        runner.send_signal(signal.SIGKILL)
    assert wait_until_gone(token) == []


def test_a_probe_that_takes_too_long_does_not_blame_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = write_files(tmp_path, {"bwrap": "#!/bin/sh\nexec sleep 60\n"}) / "bwrap"
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(choose_module, "_TRIAL_S", 0.5)
    probe = probe_bubblewrap.__wrapped__()
    assert not probe.works
    assert "did not end within 0.5 s on this machine" in probe.detail


@pytest.mark.parametrize("code", [0, 7])
def test_a_sandbox_killed_after_its_command_says_nothing_of_the_command(
    bubblewrap: BubblewrapSandbox, tmp_path: Path, code: int
) -> None:
    script = f"import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nos._exit({code})"
    null = subprocess.DEVNULL
    with start(bubblewrap, make_job(tmp_path, python("-c", script)), stdin=null, stdout=null, stderr=null) as running:
        wait_for(running.control.came_up)
        os.kill(running.popen.pid, signal.SIGSTOP)
        (tmp_path / "go").touch()
        wait_for(lambda: running.control.seen_status() is not None)
        os.kill(running.popen.pid, signal.SIGKILL)
        assert running.popen.wait() == -signal.SIGKILL
        assert (running.code(), running.lost()) == (code, False)


# --- sockets ---------------------------------------------------------------------------------------------------------


class _Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        data = self.rfile.read()
        self.wfile.write(data[::-1])


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@contextmanager
def _echo(path: Path) -> Iterator[Path]:
    with _Server(str(path), _Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield path
        server.shutdown()


_TALK = """
import os, socket, sys
for turn in range(3):
    with socket.create_connection(("127.0.0.1", int(os.environ["PORT"].split(":")[1]))) as peer:
        peer.sendall(b"ab" * 300_000)
        peer.shutdown(socket.SHUT_WR)
        data = b""
        while part := peer.recv(65536):
            data += part
    assert data == b"ba" * 300_000, len(data)
print("ok")
"""


def test_a_unix_socket_is_reached_at_a_port_of_loopback(sandbox: Sandbox, tmp_path: Path) -> None:
    with _echo(tmp_path / "echo.sock") as path:
        (tmp_path / "work").mkdir()
        ended = run_code(
            sandbox,
            tmp_path / "work",
            _TALK,
            sockets={"echo": path},
            env={"PORT": "x:{port:echo}", "O": "{port:other}"},
        )
    assert (ended.code, ended.stdout, ended.stderr) == (0, b"ok\n", b"")


def test_a_socket_nobody_answers_closes_the_connection(sandbox: Sandbox, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead.sock"))
    code = "import os, socket; print(socket.create_connection(('127.0.0.1', int(os.environ['PORT']))).recv(1))"
    ended = run_code(sandbox, tmp_path, code, sockets={"dead": tmp_path / "dead.sock"}, env={"PORT": "{port:dead}"})
    assert ended.stdout == b"b''\n" or b"ConnectionResetError" in ended.stderr


# --- a sandbox that does not come up ---------------------------------------------------------------------------------


def test_a_sandbox_that_fails_to_start_is_an_infra_error(tmp_path: Path) -> None:
    broken = write_files(tmp_path, {"bwrap": "#!/bin/sh\necho no namespaces for you >&2\nexit 1\n"}) / "bwrap"
    broken.chmod(0o755)
    with pytest.raises(InfraError, match="no namespaces for you") as caught:
        run_job(BubblewrapSandbox(str(broken)), make_job(tmp_path, ["true"]))
    assert caught.value.cause == "sandbox_error"


def test_a_sandbox_program_that_is_not_there_is_an_infra_error(tmp_path: Path) -> None:
    with pytest.raises(InfraError, match="no-such-bwrap") as caught:
        run_job(BubblewrapSandbox("/nowhere/no-such-bwrap"), make_job(tmp_path, ["true"]))
    assert caught.value.cause == "sandbox_error"


def test_a_mount_that_is_not_there_is_an_infra_error(isolating: Sandbox, tmp_path: Path) -> None:
    mount = Mount(tmp_path, "/workspace")
    job = make_job(tmp_path, ["true"], mounts=[mount, Mount(tmp_path / "absent", "/absent")])
    with pytest.raises(InfraError, match="absent"):
        run_job(isolating, job)


def test_a_folder_that_is_not_there_is_an_infra_error(sandbox: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(InfraError):
        run_job(sandbox, make_job(tmp_path / "absent", ["true"]))


def test_the_strongest_sandbox_is_the_default_and_the_weak_one_must_be_named() -> None:
    assert choose_sandbox("process").name == "process"
    if probe_docker().works:
        assert choose_sandbox("auto").name == "docker"
    elif probe_bubblewrap().works:
        assert choose_sandbox("auto").name == "bubblewrap"
    else:
        with pytest.raises(UserError, match="--sandbox process"):
            choose_sandbox("auto")


def test_a_machine_without_bubblewrap_says_what_to_do(tmp_path: Path) -> None:
    code = "from bench.sandbox.choose import choose_sandbox\nchoose_sandbox('auto')"
    env = {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT), "DOCKER_HOST": f"unix://{tmp_path}/nobody.sock"}
    done = subprocess.run(python("-c", code), env=env, capture_output=True, text=True, check=False)
    assert "apt-get install bubblewrap" in done.stderr.splitlines()[-1]


# --- what is hidden ---------------------------------------------------------------------------------------------


def test_a_listener_on_the_machines_loopback_is_not_reachable(isolating: Sandbox, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        code = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 3)"
        assert run_code(ProcessSandbox(), tmp_path, code, port).code == 0
        ended = run_code(isolating, tmp_path, code, port)
    assert b"ConnectionRefusedError" in ended.stderr


def test_there_is_no_network_interface_but_loopback(isolating: Sandbox, tmp_path: Path) -> None:
    ended = run_code(isolating, tmp_path, "import socket; print([name for _, name in socket.if_nameindex()])")
    assert ended.stdout == b"['lo']\n"


def test_an_abstract_socket_of_the_machine_is_not_reachable(isolating: Sandbox, tmp_path: Path) -> None:
    name = new_token()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        ended = run_code(isolating, tmp_path, f"import socket; socket.socket(socket.AF_UNIX).connect('\\0{name}')")
    assert b"ConnectionRefusedError" in ended.stderr


def test_the_machines_files_are_invisible(isolating: Sandbox, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    secret = write_files(tmp_path, {"secret.txt": "x"}) / "secret.txt"
    interpreter = [Path(sys.prefix), Path(sys.base_prefix)]
    # The interpreter is there, and with it the empty folders that lead to it.
    beside = [*Path.home().iterdir(), *ROOT.iterdir()]
    unseen = [path for path in beside if not any(it.is_relative_to(path) for it in interpreter)]
    system = [Path("/etc/shadow"), Path("/var"), Path("/sys"), Path("/boot")]
    if isolating.image:
        # An image has such files of its own, and those of a new user in root's home.
        unseen, system = [path for path in unseen if path.name not in (".bashrc", ".profile")], []
    places = [secret, *unseen, *system]
    code = "import os, sys; print([path for path in sys.argv[1:] if os.path.exists(path)])"
    ended = run_code(isolating, work, code, *map(str, places))
    assert ended.stdout == b"[]\n"


def test_this_packages_folder_is_hidden(isolating: Sandbox, tmp_path: Path) -> None:
    package = Path(bench.__file__).parent
    code = """
import importlib.util, os, sys
print(os.listdir(sys.argv[1]) if os.path.isdir(sys.argv[1]) else [])
try:
    import bench.judge
    print("imported", bench.judge.__file__)
except ImportError:
    print("not there")
found = "/run/bench/library/bench"
empty = os.path.join(found, "__init__.py")
print(sorted(it for it in os.listdir(found) if it != "__init__.py" or os.path.getsize(empty)))
"""
    ended = run_code(isolating, tmp_path, code, str(package))
    assert ended.stdout.decode().split("\n")[:3] == ["[]", "not there", "['guest']"]


def test_an_installed_package_with_its_cases_is_hidden(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    """As from a wheel: the package lies inside the interpreter's own installation."""
    venv = tmp_path / "venv"
    packages = venv / "lib" / "site-packages"
    shutil.copytree(ROOT / "bench", packages / "bench", ignore=shutil.ignore_patterns("__pycache__"))
    write_files(packages, {"bench/data/cases/secret.txt": "solution", "other/visible.txt": "library"})
    (venv / "bin").mkdir()
    (venv / "bin" / "python").symlink_to(sys.executable)
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", venv)
    (tmp_path / "work").mkdir()
    code = """
import sys
from pathlib import Path
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.running import run_job
from bench.sandbox.job import Job, JobLimits, Mount
mount = Mount(Path(sys.argv[1]), "/workspace", True)
argv = ["find", sys.argv[2], "-type", "f"]
job = Job(argv, [mount], mount, JobLimits(wall_s=10), python=Path(sys.argv[3]))
ended = run_job(BubblewrapSandbox(), job)
print(ended.stdout.decode(), ended.stderr.decode(), ended.code)
"""
    argv = python("-c", code, str(tmp_path / "work"), str(packages), str(venv / "bin" / "python"))
    done = subprocess.run(
        argv, env={"PYTHONPATH": str(packages)}, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(packages / "other" / "visible.txt"), "0"]


def test_it_has_its_own_processes(isolating: Sandbox, tmp_path: Path) -> None:
    code = """
import os
print({int(n) for n in os.listdir("/proc") if n.isdigit()} == {1, os.getpid()}, os.getuid() > 0)
"""
    ended = run_code(isolating, tmp_path, code)
    assert ended.stdout == b"True True\n"


_WRITE = """
import os, sys
writable = []
for path in sys.argv[1:]:
    # Opened, never written to: a hole would be the machine's own.
    try:
        os.close(os.open(path, os.O_WRONLY | (0 if os.path.exists(path) else os.O_CREAT)))
        writable.append(path)
    except OSError:
        pass
print(writable)
"""


def test_the_system_is_read_only(isolating: Sandbox, tmp_path: Path) -> None:
    paths = ["/x", "/usr/x", "/usr/bin/env", "/etc/x", "/etc/passwd", "/run/x", "/run/bench/x", "/dev/x", "/proc/x"]
    paths += ["/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/proc/sysrq-trigger"]
    paths += [str(Path(os.__file__).parent / "x"), "/run/bench/library/bench/guest/first_process.py"]
    assert run_code(isolating, tmp_path, _WRITE, *paths).stdout == b"[]\n"


def test_nested_namespaces_do_not_make_it_writable(isolating: Sandbox, tmp_path: Path) -> None:
    inner = (
        "test -w /proc/sys/kernel/core_pattern && echo hole; mount -o remount,rw /proc && echo hole; "
        "mount -o remount,rw / && echo hole; umount -l /proc/irq && echo hole; true"
    )
    for options in ("-Urm", "-Urmpf --mount-proc"):
        ended = run_job(isolating, make_job(tmp_path, ["sh", "-c", f"unshare {options} sh -c '{inner}'"]))
        assert b"hole" not in ended.stdout


def test_a_read_only_mount_cannot_be_written(isolating: Sandbox, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    mount = Mount(tmp_path, "/workspace")
    ended = run_job(isolating, make_job(tmp_path, ["python", "-c", "open('x', 'w')"], mounts=[mount], cwd=mount))
    assert b"Read-only file system" in ended.stderr


@pytest.mark.parametrize("folder", ["/tmp", "/home/agent", "/dev/shm"])
def test_folders_in_memory_are_limited(isolating: Sandbox, tmp_path: Path, folder: str) -> None:
    code = f"for n in range(20): open('{folder}/x' + str(n), 'wb').write(b'x' * (1 << 20))"
    ended = run_code(isolating, tmp_path, code, limits=make_limits(disk_mb=8))
    assert b"No space left" in ended.stderr


def test_sandboxes_do_not_see_each_other(isolating: Sandbox, tmp_path: Path) -> None:
    ended = run_code(isolating, tmp_path, "import os; open('/tmp/left', 'w'); open('/dev/shm/left', 'w')")
    assert ended.code == 0
    ended = run_code(isolating, tmp_path, "import os; print(os.path.exists('/tmp/left'), os.listdir('/dev/shm'))")
    assert ended.stdout == b"False []\n"


# --- tries to leave ---------------------------------------------------------------------------------------------------

_TRIES = """
import socket, sys
def tries(family, address):
    try:
        socket.socket(family, socket.SOCK_DGRAM).sendto(b"x", address)
    except OSError:
        pass
{what}
"""


@pytest.mark.parametrize(
    ("what", "field"),
    [
        ("tries(socket.AF_INET, ('203.0.113.9', 80))", "addresses"),
        ("tries(socket.AF_INET, ('169.254.169.254', 80))", "addresses"),
        ("tries(socket.AF_INET6, ('2001:db8::9', 80))", "addresses"),
        ("tries(socket.AF_INET, ('127.0.0.1', 53))", "names"),
    ],
)
def test_tries_to_reach_a_network_are_counted(isolating: Sandbox, tmp_path: Path, what: str, field: str) -> None:
    ended = run_code(isolating, tmp_path, _TRIES.format(what=what))
    assert ended.code == 0, ended.stderr
    assert vars(ended.network_attempts) == {"addresses": 0, "names": 0, field: 1}


def test_tries_of_a_job_that_is_killed_are_counted_too(isolating: Sandbox, tmp_path: Path) -> None:
    code = _TRIES.format(what="tries(socket.AF_INET, ('203.0.113.9', 80)); import time; time.sleep(30)")
    ended = run_code(isolating, tmp_path, code, limits=make_limits(wall_s=3))
    assert ended.reason == "time_limit"
    assert ended.network_attempts.addresses == 1


def test_looking_for_oneself_is_no_try(isolating: Sandbox, tmp_path: Path) -> None:
    code = "import socket; socket.getaddrinfo(socket.gethostname(), 80); socket.getfqdn()"
    ended = run_code(isolating, tmp_path, code)
    assert ended.code == 0, ended.stderr
    assert vars(ended.network_attempts) == {"addresses": 0, "names": 0}
