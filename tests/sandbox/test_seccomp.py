"""The filter of system calls: what the program decides, and what the kernel makes of it."""

from __future__ import annotations

import errno
import json
import os
import platform
import stat
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.sandbox import seccomp
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.job import Sandbox
from bench.sandbox.running import run_job
from bench.sandbox.system_calls import ABSENT, LAST_REVIEWED, LOOKED_INTO, REFUSED
from tests.helpers.cells import make_job, make_limits, not_here, run_code

if platform.machine() not in ("x86_64", "aarch64"):
    pytest.skip("no filter for this architecture", allow_module_level=True)

X86_64, AARCH64 = (0, 0xC000003E), (1, 0xC00000B7)
ALLOWED, KILLED = 0x7FFF0000, 0x80000000
_SPECIAL = stat.S_ISUID | stat.S_ISGID


def decide(column: int, architecture: int, number: int, *arguments: int, called_as: int | None = None) -> int | str:
    """What the program answers, run here as the kernel runs it: an error's name, `allowed` or `killed`."""
    program = list(struct.iter_unpack("=HBBI", seccomp._assemble(column, architecture, _SPECIAL)))
    words = [*arguments, *([0] * (6 - len(arguments)))]
    data = struct.pack("=IIQ6Q", number, architecture if called_as is None else called_as, 0, *words)
    place, value = 0, 0
    while True:
        code, when_true, when_false, operand = program[place]
        place += 1
        if code == 0x20:
            value = struct.unpack_from("=I", data, operand)[0]
        elif code == 0x54:
            value &= operand
        elif code == 0x06:
            named = {ALLOWED: "allowed", KILLED: "killed"}
            return named.get(operand) or (errno.errorcode[it] if (it := operand & 0xFFFF) else "done nothing")
        else:
            true = {0x15: value == operand, 0x25: value > operand, 0x45: bool(value & operand)}[code]
            place += when_true if true else when_false


@pytest.mark.parametrize("kind", [X86_64, AARCH64], ids=["x86_64", "aarch64"])
def test_each_call_of_the_tables_gets_its_answer(kind: tuple[int, int]) -> None:
    for table, answer in ((REFUSED, "EPERM"), (ABSENT, "ENOSYS")):
        for name, numbers in table.items():
            number = numbers[kind[0]]
            assert number is None or decide(*kind, number) == answer, name
    everything = [found[kind[0]] for table in (REFUSED, ABSENT, LOOKED_INTO) for found in table.values()]
    known = [number for number in everything if number is not None]
    assert len(known) == len(set(known)), "two calls of one number"


@given(st.integers(0, 2**32 - 1))
def test_every_other_number_is_allowed_or_does_not_exist(number: int) -> None:
    for column, architecture in (X86_64, AARCH64):
        named = {found[column] for table in (REFUSED, ABSENT, LOOKED_INTO) for found in table.values()}
        wanted = "allowed" if number <= LAST_REVIEWED else "ENOSYS"
        assert number in named or decide(column, architecture, number) == wanted


@given(st.integers(0, 2**32 - 1), st.integers(0, 500))
def test_another_architecture_is_killed(architecture: int, number: int) -> None:
    if architecture != X86_64[1]:
        assert decide(*X86_64, number, called_as=architecture) == "killed"


def test_the_numbers_of_x32_do_not_exist() -> None:
    assert decide(*X86_64, 0x40000000 | 39) == "ENOSYS"


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("clone", (17,), "allowed"),
        ("clone", (0x003D0F00,), "allowed"),
        ("clone", (0x10000000 | 17,), "EPERM"),
        ("clone", (0x00020000 | 17,), "EPERM"),
        ("clone", (0x40000000 | 17,), "EPERM"),
        ("socket", (1, 1, 0), "allowed"),
        ("socket", (2, 1, 6), "allowed"),
        ("socket", (10, 2, 17), "allowed"),
        ("socket", (16, 3, 0), "allowed"),
        ("socket", (16, 3, 9), "EPROTONOSUPPORT"),
        ("socket", (2, 1, 132), "EPROTONOSUPPORT"),
        ("socket", (17, 3, 0), "EAFNOSUPPORT"),
        ("socket", (38, 5, 0), "EAFNOSUPPORT"),
        ("socket", (40, 1, 0), "EAFNOSUPPORT"),
        ("ioctl", (0, 0x5401), "allowed"),
        ("ioctl", (0, 0x5412), "EPERM"),
        ("ioctl", (0, 0x5412 | 1 << 32), "EPERM"),
        ("ioctl", (0, 0x541C), "EPERM"),
        ("ioctl", (0, 0x541B), "allowed"),
        ("ioctl", (0, 0x8910), "allowed"),
        ("ioctl", (0, 0xC020462A), "allowed"),
        ("ioctl", (0, 0x30000001), "allowed"),
        ("ioctl", (0, 0x40305828), "ENOTTY"),
        ("ioctl", (0, 0x4030582A), "ENOTTY"),
        ("ioctl", (0, 0x4030582A | 1 << 32), "ENOTTY"),
        ("ioctl", (0, 0x40305839), "ENOTTY"),
        ("ioctl", (0, 0xC0045877), "ENOTTY"),
        ("ioctl", (0, 0x40086602), "ENOTTY"),
        ("ioctl", (0, 0x50009417), "ENOTTY"),
        ("personality", (0,), "allowed"),
        ("personality", (0xFFFFFFFF,), "allowed"),
        ("personality", (0x40000,), "EPERM"),
        ("fcntl", (3, 2, 1), "allowed"),
        ("fcntl", (3, 1024, 1), "EPERM"),
        ("prlimit64", (0, 7), "allowed"),
        ("prlimit64", (1, 7), "EPERM"),
        ("prlimit64", (0, 4, 0, 1 << 40), "allowed"),
        ("prlimit64", (0, 4, 1 << 40), "done nothing"),
        ("prlimit64", (0, 4, 1 << 20), "done nothing"),
        ("prlimit64", (0, 7, 1 << 20), "allowed"),
        ("setrlimit", (4, 1 << 20), "done nothing"),
        ("setrlimit", (7, 1 << 20), "allowed"),
        ("setpriority", (0, 0, 19), "allowed"),
        ("setpriority", (0, 1, 19), "EPERM"),
        ("setpriority", (2, 0, 19), "EPERM"),
        ("ioprio_set", (1, 0), "allowed"),
        ("ioprio_set", (3, 0), "EPERM"),
        ("sched_setscheduler", (1, 5), "EPERM"),
        ("chmod", (0, 0o755), "allowed"),
        ("chmod", (0, 0o4755), "EPERM"),
        ("fchmodat", (0, 0, 0o2755), "EPERM"),
        ("openat", (0, 0, os.O_RDONLY, 0o4755), "allowed"),
        ("openat", (0, 0, os.O_CREAT, 0o644), "allowed"),
        ("openat", (0, 0, os.O_CREAT, 0o4755), "EPERM"),
        ("openat", (0, 0, 0x410000, 0o4755), "EPERM"),
        ("mknodat", (0, 0, 0o104755), "EPERM"),
        ("fallocate", (3, 0, 0, 1 << 30), errno.errorcode[errno.EOPNOTSUPP]),
        ("fallocate", (3, 1, 0, 1 << 30), errno.errorcode[errno.EOPNOTSUPP]),
        ("fallocate", (3, 3, 0, 1 << 30), "allowed"),
    ],
)
def test_arguments_decide(name: str, arguments: tuple[int, ...], answer: str) -> None:
    for kind in (X86_64, AARCH64):
        number = LOOKED_INTO[name][kind[0]]
        assert number is None or decide(*kind, number, *arguments) == answer


_CALLS = """
import ctypes, errno, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
answers = {}
for name, number, arguments in json.loads(sys.argv[1]):
    ctypes.set_errno(0)
    value = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(word) for word in arguments))
    answers[name] = errno.errorcode[ctypes.get_errno()] if value < 0 else "allowed"
print(json.dumps(answers))
"""


def test_the_kernel_answers_so(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    """With arguments with which, but for the filter, an ordinary user would be served or told something else."""
    column = 0 if platform.machine() == "x86_64" else 1
    calls = {
        "unshare": (0,), "setns": (-1,), "ptrace": (1, 0, 0, 0), "process_vm_readv": (0, 0, 0, 0, 0, 0),
        "kcmp": (0, 0, 0, 0, 0), "pidfd_getfd": (-1, 0, 0), "perf_event_open": (0, 0, -1, -1, 0),
        "keyctl": (0, -3, 0), "add_key": (0, 0, 0, 0, 0), "name_to_handle_at": (-1, 0, 0, 0, 0),
        "syslog": (10, 0, 0), "adjtimex": (0,), "userfaultfd": (1,), "mount": (0, 0, 0, 0, 0),
    }  # fmt: skip
    wanted = {name: ("EPERM", REFUSED[name][column], list(arguments)) for name, arguments in calls.items()}
    wanted |= {name: ("ENOSYS", numbers[column], []) for name, numbers in ABSENT.items()}
    listed = [(name, number, words) for name, (_, number, words) in wanted.items() if number is not None]
    ended = run_code(bubblewrap, tmp_path, _CALLS, json.dumps(listed))
    assert ended.code == 0, ended.stderr
    assert json.loads(ended.stdout) == {name: wanted[name][0] for name, _, _ in listed}


def test_no_file_of_a_job_gets_the_rights_of_its_owner(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    code = """
import os
def attempt(action):
    try:
        action()
    except PermissionError:
        return
    print("done")
open("x", "w").close()
attempt(lambda: os.chmod("x", 0o4755))
attempt(lambda: os.close(os.open("y", os.O_CREAT | os.O_WRONLY, 0o4755)))
attempt(lambda: os.mknod("z", 0o104755))
os.chmod("x", 0o755)
"""
    ended = run_code(bubblewrap, tmp_path, code)
    assert (ended.code, ended.stdout) == (0, b""), ended.stderr
    assert [path.name for path in tmp_path.iterdir() if path.stat().st_mode & stat.S_ISUID] == []


_RESERVES = """
import fcntl, os, struct
held = os.open("held", os.O_RDWR | os.O_CREAT)
try:
    fcntl.ioctl(held, 0x4030582A, struct.pack("=hhqqii16x", 0, 0, 0, 1 << 24, 0, 0))
except OSError as error:
    print(error.errno, os.fstat(held).st_blocks)
print(len(os.listdir(".")), os.get_inheritable(held), os.isatty(held))
"""


def test_no_room_is_taken_on_a_disk_by_a_command_to_its_file_system(isolating: Sandbox, tmp_path: Path) -> None:
    ended = run_code(isolating, tmp_path, _RESERVES)
    assert (ended.code, ended.stdout.decode()) == (0, f"{errno.ENOTTY} 0\n1 False False\n"), ended.stderr


_WORK = """
import multiprocessing, os, subprocess
import numpy, torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score

data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,)))
model = torch.nn.Linear(4, 2)
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
for inputs, labels in torch.utils.data.DataLoader(data, batch_size=16, num_workers=2):
    optimiser.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), labels).backward()
    optimiser.step()
features, labels = numpy.random.rand(60, 4), numpy.arange(60) % 2
print("forest", len(cross_val_score(RandomForestClassifier(10, n_jobs=2), features, labels, cv=2, n_jobs=2)))
with multiprocessing.get_context("fork").Pool(2) as pool:
    print("pool", sum(pool.map(abs, range(-4, 4))))
with multiprocessing.Manager() as manager:
    print("manager", len(manager.list([1, 2])))
print("shell", subprocess.run("nice -n 5 sh -c 'echo a | tr a b'", shell=True, capture_output=True).stdout)
import wandb
run = wandb.init(mode="offline", project="p", dir="/tmp", settings=wandb.Settings(silent=True))
run.log({"x": 1})
run.finish()
print("wandb", len(os.listdir("/tmp/wandb")) > 0)
"""


@pytest.mark.slow
@pytest.mark.nightly
def test_machine_learning_works_under_it(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    try:
        import sklearn  # noqa: F401
        import torch  # noqa: F401
        import wandb  # noqa: F401
    except ImportError as error:
        not_here(str(error))
    (tmp_path / "work.py").write_text(_WORK)
    limits = make_limits(wall_s=240, memory_mb=4096, cpus=2, processes=64, open_files=1024, disk_mb=512)
    ended = run_job(bubblewrap, make_job(tmp_path, ["python", "work.py"], limits=limits))
    assert (ended.reason, ended.code) == ("exit", 0), ended.stderr.decode()[-2000:]
    assert [line.split()[0] for line in ended.stdout.decode().splitlines()[-5:]] == [
        "forest", "pool", "manager", "shell", "wandb",
    ]  # fmt: skip


def test_an_interpreter_made_for_another_architecture_has_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert seccomp.filter_program() is None


def test_no_crash_of_a_job_starts_a_program_of_the_machine(isolating: Sandbox, tmp_path: Path) -> None:
    """A kernel that pipes cores to a program does so at a limit of 0, too, and never at 1."""
    code = """
import resource
for limits in ((0, 0), (0, 1), (1, 1)):
    try:
        resource.setrlimit(resource.RLIMIT_CORE, limits)
    except ValueError:
        pass
print(resource.getrlimit(resource.RLIMIT_CORE))
"""
    ended = run_code(isolating, tmp_path, code)
    assert ended.stdout == b"(1, 1)\n", ended.stderr
