"""The sandboxed interpreter of a grading: every call is fresh, and comes to an end, whatever the code does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

from bench.judge.deadline import Deadline
from bench.judge.hidden_files import Hidden
from bench.judge.subject import Subject, SubjectError
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.job import Sandbox
from tests.helpers.cells import make_limits, new_token, processes_with, write_files

Start = Callable[..., Subject]


@pytest.fixture
def start(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> Iterator[Start]:
    """Starts a subject on a workspace with the given text as `answer.py`."""
    with _starter(bubblewrap, tmp_path) as made:
        yield made


@pytest.fixture
def start_anywhere(sandbox: Sandbox, tmp_path: Path) -> Iterator[Start]:
    """The same in each sandbox, for what the sandbox itself must see to."""
    with _starter(sandbox, tmp_path) as made:
        yield made


@contextlib.contextmanager
def _starter(sandbox: Sandbox, tmp_path: Path) -> Iterator[Start]:
    subjects: list[Subject] = []

    def make(text: str, preload: tuple[str, ...] = (), seconds: float = 30, **limits: Any) -> Subject:
        write_files(tmp_path / "workspace", {"answer.py": text})
        made = Subject(sandbox, tmp_path / "workspace", preload, make_limits(**limits), Deadline(seconds))
        subjects.append(made)
        return made

    yield make
    for subject in subjects:
        subject.close()


def call(subject: Subject, target: str, *args: Any, timeout: float = 5, driver: Hidden | None = None, **kw: Any) -> Any:
    return subject.call(target, args, kw, timeout=timeout, driver=driver)


def test_a_value_goes_in_and_comes_out(start_anywhere: Start) -> None:
    subject = start_anywhere("def same(*args, **kwargs):\n    return [args, kwargs]\n")
    value = {"a": [1, 2.5, None, True, "x", b"y"], "t": "array"}
    assert call(subject, "answer:same", value, key=value) == [[value], {"key": value}]
    array = numpy.arange(6.0).reshape(2, 3)
    assert (call(subject, "answer:same", array)[0][0] == array).all()


def test_a_member_of_a_class_is_found(start: Start) -> None:
    subject = start("class A:\n    class B:\n        @staticmethod\n        def f():\n            return 3\n")
    assert call(subject, "answer:A.B.f") == 3


def test_modules_of_packages_and_of_each_other_are_found(start: Start, tmp_path: Path) -> None:
    subject = start("import helper\nimport pkg.part\ndef f():\n    return helper.x + pkg.part.y\n")
    write_files(tmp_path / "workspace", {
        "helper.py": "x = 1\n", "pkg/__init__.py": "", "pkg/part.py": "from . import more\ny = more.z\n",
        "pkg/more.py": "z = 10\n",
    })  # fmt: skip
    assert call(subject, "answer:f") == 11
    assert call(subject, "pkg.part:more.z.__int__") == 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f():\n    raise ValueError('out of luck')\n", "ValueError: out of luck"),
        ("raise SystemExit(0)\n", "SystemExit"),
        ("import os\nos._exit(0)\n", "ended without an answer"),
        ("import os\nos.kill(os.getpid(), 9)\n", "ended without an answer"),
        ("def g():\n    pass\n", "has no attribute 'f'"),
        ("syntax error\n", "SyntaxError"),
        ("def f():\n    return object()\n", "cannot cross"),
        ("def f():\n    x = []\n    x.append(x)\n    return x\n", "nested too deeply"),
        ("def f():\n    return f()\n", "RecursionError"),
        ("def f():\n    print('a word before'); raise KeyError('x')\n", "a word before"),
        ("import sys\ndef f():\n    sys.set_int_max_str_digits(0); return 10**20000\n", "cannot be read"),
        ("def f():\n    return 10**20000\n", "ended without an answer"),
    ],
)
def test_a_failure_of_the_code_is_a_failed_check_with_its_reason(start: Start, text: str, message: str) -> None:
    subject = start(text)
    for _ in range(2):
        with pytest.raises(SubjectError, match=message):
            call(subject, "answer:f")


def test_a_module_that_is_not_there_is_named(start: Start) -> None:
    with pytest.raises(SubjectError, match="no module 'absent'"):
        call(start(""), "absent:f")


def test_what_preloading_lacks_is_the_cases_fault(start_anywhere: Start) -> None:
    with pytest.raises(RuntimeError, match="no_such_library"):
        call(start_anywhere("def f():\n    return 1\n", preload=("no_such_library",)), "answer:f")


# --- every call is fresh ---------------------------------------------------------------------------------------------

_LEFT = """
import os
count = 0
def f():
    global count
    count += 1
    found = []
    for folder in ("TMPDIR", "HOME"):
        path = os.path.join(os.environ[folder], "left")
        found.append(os.path.exists(path))
        os.makedirs(path + "/deep/er", exist_ok=True)
        os.chdir(path)
        for _ in range(40):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
        os.chmod(path, 0)
        link = os.path.join(os.environ[folder], "link")
        found.append(os.path.lexists(link))
        if not os.path.lexists(link):
            os.symlink("/usr", link)
    return [count, *found]
"""


def test_no_call_sees_what_another_left(start_anywhere: Start) -> None:
    subject = start_anywhere(_LEFT)
    for _ in range(3):
        assert call(subject, "answer:f") == [1, False, False, False, False]


def test_memory_files_are_no_way_either(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    text = "import os\ndef f():\n    a = os.listdir('/dev/shm'); open('/dev/shm/left', 'w'); return a\n"
    write_files(tmp_path, {"answer.py": text})
    subject = Subject(bubblewrap, tmp_path, (), make_limits(), Deadline(30))
    assert [call(subject, "answer:f") for _ in range(2)] == [[], []]
    subject.close()


_DAEMON = """
import os, signal, sys, time
def f(token):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            for n in range(3, 64):
                try: os.close(n)
                except OSError: pass
            os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(40)", token], {})
        os._exit(0)
    time.sleep(0.2)
    return "started"
def g():
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
"""


def test_a_daemon_does_not_outlive_its_call(start_anywhere: Start) -> None:
    subject, token = start_anywhere(_DAEMON), new_token()
    assert call(subject, "answer:f", token) == "started"
    assert call(subject, "answer:g")
    assert processes_with(token) == []


def test_a_child_that_holds_every_descriptor_does_not_delay_the_answer(start: Start) -> None:
    text = "import os, time\ndef f():\n    if os.fork() == 0:\n        time.sleep(30)\n    return 'answer'\n"
    assert call(start(text), "answer:f", timeout=3) == "answer"


def test_closing_and_writing_all_descriptors_forges_nothing(start_anywhere: Start) -> None:
    text = """
import os, struct
text = b'{"value": "forged", "error": null, "sizes": []}'
for n in range(64):
    try: os.write(n, struct.pack("<Q", len(text)) + text)
    except OSError: pass
def f():
    return "own"
def g():
    return 1
"""
    subject = start_anywhere(text)
    # A call may say what it likes about itself; no other call hears of it.
    assert call(subject, "answer:f") in ("forged", "own")
    text_of_another = "def f():\n    return 2\n"
    start_anywhere(text_of_another)
    assert call(subject, "answer:f") == 2


_FORGE = """
import json, os, struct
def write(tree, *buffers):
    text = json.dumps({"value": tree, "sizes": [len(b) for b in buffers]}).encode()
    raw(struct.pack("<Q", len(text)) + text + b"".join(buffers))
def raw(data):
    for n in range(3, 64):
        try:
            while data: data = data[os.write(n, data):]
        except OSError: pass
    os._exit(0)
"""


@pytest.mark.parametrize(
    "text",
    [
        "write({'t': 'array', 'd': [], 's': [1], 'b': 0}, b'x' * 8)",
        "write({'t': 'array', 'd': '|O', 's': [1], 'b': 0}, b'x' * 8)",
        "write({'t': 'array', 'd': '<f8', 's': [0, 1 << 30, 1 << 30, 1 << 30], 'b': 0}, b'')",
        "write({'t': 'bytes', 'b': 99})",
        "write([[]])",
        "write({'t': 'file', 'n': '/etc/passwd', 'b': 0}, b'x')",
        "raw(struct.pack('<Q', 1 << 62))",
        "raw(b'short')",
        "raw(struct.pack('<Q', 100000) + b'[' * 100000)",
        "raw(struct.pack('<Q', 2) + b'{}')",
        "raw(struct.pack('<Q', 14) + b'{\"sizes\": [9]}')",
        'raw(struct.pack(\'<Q\', 27) + b\'{"error": {"a":1},"sizes":[]}\'[:27])',
        "raw(struct.pack('<Q', 8) + b'\\x80\\x04K\\x01.' * 2)",
    ],
)
def test_a_forged_answer_is_a_failed_check(start: Start, text: str) -> None:
    subject = start(f"{_FORGE}\ndef f():\n    {text}\n")
    with pytest.raises(SubjectError):
        call(subject, "answer:f")


def test_huge_answers_are_refused_within_the_memory_limit(start_anywhere: Start) -> None:
    subject = start_anywhere(
        "def big():\n    return 'x' * (70 << 20)\ndef many():\n    return [0] * 2_100_000\ndef f():\n    return 1\n"
    )
    for name in ("big", "many"):
        with pytest.raises(SubjectError):
            call(subject, f"answer:{name}")
    assert call(subject, "answer:f") == 1


# --- limits ----------------------------------------------------------------------------------------------------------


def test_a_call_that_takes_too_long_is_a_failed_check(start_anywhere: Start) -> None:
    subject = start_anywhere("import time\ndef f(s):\n    time.sleep(s); return s\n")
    with pytest.raises(SubjectError, match=r"longer than 0\.5 s"):
        call(subject, "answer:f", 300, timeout=0.5)
    assert call(subject, "answer:f", 0) == 0


def test_all_calls_share_the_time_of_the_grading(start: Start) -> None:
    subject = start("import time\ndef f(s):\n    while time.process_time() < s: pass\n", seconds=0.5)
    with pytest.raises(SubjectError, match=r"more than 0\.5 s of CPU time"):
        call(subject, "answer:f", 300)
    with pytest.raises(AssertionError, match="used up"):
        call(subject, "answer:f", 0)


def test_the_time_of_a_call_is_cpu_time_of_all_its_processes(start_anywhere: Start) -> None:
    text = """
import os, time
def spin():
    while True: pass
def together():
    for _ in range(3):
        os.fork() or spin()
    time.sleep(60)
def work(s):
    while time.process_time() < s: pass
    return s
"""
    subject = start_anywhere(text)
    for name in ("spin", "together"):
        with pytest.raises(SubjectError, match=r"more than 1 s of CPU time"):
            call(subject, f"answer:{name}", timeout=1)
    timed = subject.timed_call("answer:work", (0.5,), {}, timeout=5, driver=None)
    assert timed.value == 0.5
    assert 0.3 < timed.cpu_s < 1.5


def test_memory_is_limited_and_the_next_call_works(start_anywhere: Start) -> None:
    text = "import time\ndef f(n):\n    b = bytearray(b'x' * (n << 20)); time.sleep(3 if n > 9 else 0); return len(b)\n"
    subject = start_anywhere(text, memory_mb=200)
    with pytest.raises(SubjectError, match="memory limit"):
        call(subject, "answer:f", 300)
    assert call(subject, "answer:f", 1) == 1 << 20


def test_processes_are_limited(start_anywhere: Start) -> None:
    text = "import os, time\ndef f():\n    for _ in range(50):\n        os.fork() or (time.sleep(8), os._exit(0))\n"
    text += "    time.sleep(8)\n"
    with pytest.raises(SubjectError, match="process limit"):
        call(start_anywhere(text, processes=20), "answer:f", timeout=10)


@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP"])
def test_a_signal_to_the_guard_of_a_call_is_no_way_to_lose_it(start_anywhere: Start, number: str) -> None:
    subject = start_anywhere(
        f"import os, signal\ndef f(s):\n    s and os.kill(os.getppid(), signal.{number})\n    return 1\n"
    )
    for _ in range(2):
        # Where nothing isolates, it may be an end of the call.
        with contextlib.suppress(SubjectError):
            assert call(subject, "answer:f", True) == 1
        assert call(subject, "answer:f", False) == 1


# --- files and drivers -----------------------------------------------------------------------------------------------


def test_a_hidden_file_becomes_a_path_inside(start_anywhere: Start, tmp_path: Path) -> None:
    write_files(tmp_path / "hidden", {"a/x.txt": "first", "b/x.txt": "second"})
    subject = start_anywhere("def f(*paths, **named):\n    return [open(p).read() for p in (*paths, *named['more'])]\n")
    a, b = (Hidden(tmp_path / "hidden" / name / "x.txt") for name in "ab")
    assert call(subject, "answer:f", a, b, more=[a]) == ["first", "second", "first"]


def test_a_driver_sees_the_workspace_but_no_shadow_of_a_library(start: Start, tmp_path: Path) -> None:
    subject = start("def f():\n    return 'the answer'\n")
    shadow = "raise RuntimeError('shadow')\n"
    shadows = {f"{name}.py": shadow for name in ("json", "random", "numpy", "bench", "statistics", "driver", "codec")}
    write_files(tmp_path / "workspace", shadows)
    text = "import json, random, statistics, numpy\nimport answer\ndef go(x):\n    return [answer.f(), json.dumps(x)]\n"
    write_files(tmp_path, {"driver.py": text})
    assert call(subject, "driver.py:go", 1, driver=Hidden(tmp_path / "driver.py")) == ["the answer", "1"]


def test_the_workspace_is_read_only_and_no_bytecode_is_written(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    write_files(tmp_path, {"answer.py": "def f():\n    open('x', 'w')\n", "other.py": ""})
    subject = Subject(bubblewrap, tmp_path, (), make_limits(), Deadline(30))
    with pytest.raises(SubjectError, match="Read-only"):
        call(subject, "answer:f")
    subject.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answer.py", "other.py"]


def test_the_memory_of_the_subject_is_out_of_reach(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    text = """
import os
def f():
    found = []
    for name in ("mem", "maps", "environ", "fd/1", "fd/4"):
        try:
            open(f"/proc/{os.getppid()}/{name}", "rb").read(1)
            found.append(name)
        except OSError:
            pass
    return found
"""
    write_files(tmp_path, {"answer.py": text})
    subject = Subject(bubblewrap, tmp_path, (), make_limits(), Deadline(30))
    assert call(subject, "answer:f") == []
    subject.close()


@pytest.fixture
def no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner that may not make control groups, as ordinary users mostly may not."""
    monkeypatch.setattr("bench.sandbox.fork.new_group", lambda limits: None)


def test_what_is_timed_is_no_fork_where_nothing_counts_forks(
    start: Start, no_groups: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that nobody waits for is in no sum; a sandbox of its own may have an engine that counts."""
    del no_groups
    subject = start("def f():\n    return 1\n")
    cold: list[bool] = []
    usual = Subject._cold

    def counted(self: Subject, *args: Any) -> Any:
        cold.append(True)
        return usual(self, *args)

    monkeypatch.setattr(Subject, "_cold", counted)
    assert subject.timed_call("answer:f", (), {}, timeout=5, driver=None).value == 1
    assert cold == []
    for _ in range(2):
        timed = subject.timed_call("answer:f", (), {}, timeout=5, driver=None, counted=True)
        assert (timed.value, timed.trusted) == (1, True)
    assert cold == [True, True]


def test_a_call_that_fills_what_all_forks_share_has_failed(
    start: Start, no_groups: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel then ends the largest process, which is another one; the next call starts with another warm one."""
    del no_groups
    subject = start("import time\ndef f():\n    time.sleep(60)\ndef g():\n    return 2\n")
    assert call(subject, "answer:g") == 2
    warm = subject._warm
    assert warm is not None
    warm.hit = lambda: "memory_limit"
    # It is found out while the call is at work, and not before it.
    monkeypatch.setattr(subject, "close", lambda: None)
    with pytest.raises(SubjectError, match="memory limit"):
        call(subject, "answer:f")
    monkeypatch.undo()
    assert call(subject, "answer:g") == 2
    assert subject._warm is not warm
