"""Whether a machine has starved a job: by counters that no agent can move, and never by what the job does."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from bench.sandbox import bubblewrap as bubblewrap_module
from bench.sandbox import cgroup_location
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.cgroup import Group
from bench.sandbox.cgroup_files import write_file
from bench.sandbox.job import EndReason, JobLimits, Sandbox
from bench.sandbox.starvation import Processors, Witness, groups_like, own_counters, read_processors
from bench.sandbox.time_limits import TimeLimits, TimeMeter, any_runnable, judging_limits, wall_backstop
from tests.helpers.cells import make_limits, new_token, processes_with, run_code
from tests.helpers.sampling import on_push

_STAT = """cpu  700 20 300 9000 50 7 8 40 0 0
cpu0 400 10 100 4000 30 3 4 10 0 0
cpu1 300 10 200 5000 20 4 4 30 0 0
intr 1 2 3
"""


def test_the_counters_are_those_of_the_processors_that_one_may_use() -> None:
    tick = os.sysconf("SC_CLK_TCK")
    assert read_processors(_STAT, [0, 1]) == Processors(9050 / tick, 1020 / tick, 40 / tick, 2)
    assert read_processors(_STAT, [1]) == Processors(5020 / tick, 510 / tick, 30 / tick, 1)
    assert read_processors().count == len(os.sched_getaffinity(0))


class _Machine:
    """A stand-in whose processors do what a test says, second by second."""

    def __init__(self, count: int = 2) -> None:
        self.now, self.idle, self.busy, self.stolen, self.count = 0.0, 0.0, 0.0, 0.0, count
        self.own: dict[str, float] = {}
        self.job = 0.0
        self.runnable = True

    def pass_second(self, *, foreign: float = 0, stolen: float = 0, job: float = 0, others: float = 0) -> None:
        """others: of other cells of the same runner."""
        self.now += 1
        self.busy += foreign + job + others
        self.stolen += stolen
        self.idle += self.count - foreign - stolen - job - others
        self.job += job
        for name, used in (("job", job), ("others", others)):
            self.own[name] = self.own.get(name, 0.0) + used

    def processors(self) -> Processors:
        return Processors(self.idle, self.busy, self.stolen, self.count)

    def meter(self, limits: TimeLimits, cpus: int = 1, *, counted: bool = True) -> TimeMeter:
        def own(_: object) -> Mapping[str, float]:
            return dict(self.own)

        witness = Witness(cpus, processors=self.processors, own=own, clock=lambda: self.now)
        # This process runs, or waits: what it does stands for the job.
        meter = TimeMeter(
            limits,
            cpus,
            lambda: self.job,
            lambda: [os.getpid()] if self.runnable else [],
            counted=lambda: counted,
            witness=witness,
            processors=self.processors,
            clock=lambda: self.now,
        )
        return meter


def _end(machine: _Machine, meter: TimeMeter, **second: float) -> EndReason:
    """How work ends on a machine whose every second is like this one."""
    for _ in range(100_000):
        machine.pass_second(**second)
        if (over := meter.over()) is not None:
            return over
    raise AssertionError("it never ends")


_LIMITS = judging_limits(30, 1)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.05, 0.08])
@pytest.mark.parametrize("cpus", [1, 2])
def test_foreign_load_that_leaves_too_little_has_starved_the_job(share: float, cpus: int) -> None:
    machine = _Machine()
    assert _end(machine, machine.meter(judging_limits(30, cpus), cpus), foreign=2 - share, job=share) == "starved"
    assert machine.now == pytest.approx(_LIMITS.wall_s, abs=2)


@pytest.mark.parametrize("stolen", [1.92, 1.95, 2.0])
def test_time_that_a_hypervisor_steals_counts_as_foreign(stolen: float) -> None:
    machine = _Machine()
    assert _end(machine, machine.meter(_LIMITS), stolen=stolen, job=2 - stolen) == "starved"


@pytest.mark.parametrize("ours", [0.2, 0.3, 0.45])
def test_what_the_runner_itself_needs_beside_foreign_load_does_not_hide_it(ours: float) -> None:
    machine = _Machine()
    assert _end(machine, machine.meter(_LIMITS), foreign=1.99 - ours, job=0.01, others=ours) == "starved"


def test_four_busy_processes_a_core_leave_enough() -> None:
    machine = _Machine()
    assert _end(machine, machine.meter(_LIMITS), foreign=1.8, job=0.2) == "cpu_limit"
    assert machine.job == pytest.approx(30, abs=1)


@pytest.mark.parametrize("cpus", [1, 2])
def test_what_only_waits_on_an_idle_machine_ends_soon(cpus: int) -> None:
    machine = _Machine()
    machine.runnable = False
    assert _end(machine, machine.meter(judging_limits(30, cpus), cpus)) == "time_limit"
    assert machine.now <= 1.25 * 30 + 3


def test_time_for_which_others_hold_the_processors_is_not_available() -> None:
    machine = _Machine()
    meter = machine.meter(_LIMITS)
    for _ in range(100):
        machine.pass_second(foreign=1.9, job=0.1)
        assert meter.over() is None
    assert meter.available_s == pytest.approx(10)
    assert meter.cpu_s == pytest.approx(10)


@pytest.mark.parametrize(
    ("about", "second", "ends"),
    [
        ("busy loops", {"job": 1.0}, "cpu_limit"),
        ("a bomb of threads, held by its quota", {"job": 1.0, "others": 0.0}, "cpu_limit"),
        ("other cells of the agent take everything", {"job": 0.01, "others": 1.99}, "time_limit"),
        ("other cells take everything, and this one sleeps", {"others": 2.0}, "time_limit"),
        ("noise beside one foreign process", {"job": 0.02, "others": 0.98, "foreign": 1.0}, "time_limit"),
    ],
)
def test_noise_of_our_own_jobs_is_no_evidence(about: str, second: dict[str, float], ends: EndReason) -> None:
    machine = _Machine()
    assert _end(machine, machine.meter(_LIMITS), **second) == ends, about


def test_what_sleeps_on_a_starved_machine_was_not_starved() -> None:
    machine = _Machine()
    machine.runnable = False
    assert _end(machine, machine.meter(_LIMITS), foreign=2.0) == "time_limit"


def test_work_that_hides_from_the_count_starves_nobody() -> None:
    """Where the kernel does not count it, the time of children whose end is ignored looks like a stranger's."""
    machine = _Machine()
    assert _end(machine, machine.meter(_LIMITS, counted=False), foreign=1.95, job=0.05) == "time_limit"


def test_one_container_leads_to_all_of_its_engine(tmp_path: Path) -> None:
    """Other cells' containers are our own, whatever they do."""
    for name in ("docker/one", "docker/two", "docker-1.scope", "docker-2.scope", "ssh.service"):
        (tmp_path / name).mkdir(parents=True)
    assert {path.name for path in groups_like(tmp_path / "docker/one")} == {"one", "two"}
    assert {path.name for path in groups_like(tmp_path / "docker-1.scope")} == {"docker-1.scope", "docker-2.scope"}


def test_a_witness_that_has_not_looked_twice_says_nothing() -> None:
    witness = Witness(1, processors=_Machine().processors, own=lambda _: {}, clock=lambda: 0.0)
    assert not witness.starved()
    witness.look(runnable=True)
    assert not witness.starved()


def test_the_backstop_is_far_above_the_limit() -> None:
    assert wall_backstop(10) >= 10 * 10
    limits = judging_limits(10, 4)
    assert limits.cpu_s == 40
    assert limits.available_s is not None and 10 < limits.available_s <= 15


# --- the real counters -----------------------------------------------------------------------------------------------

_BURN = "import time\nwhile time.process_time() < {}: pass\n"


def _counted(work: Callable[[], object]) -> float:
    before = own_counters()
    work()
    return sum(max(0.0, used - before.get(name, 0.0)) for name, used in own_counters().items())


def test_jobs_are_our_own(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    if not cgroup_location.probe_cgroups().works:
        pytest.skip("control groups")
    counted: list[float] = []
    over = threading.Event()

    def watch() -> None:
        before = own_counters()
        over.wait(30)
        counted.append(sum(max(0.0, used - before.get(name, 0.0)) for name, used in own_counters().items()))

    token = new_token()
    watcher = threading.Thread(target=watch)
    watcher.start()
    job = threading.Thread(target=run_code, args=(bubblewrap, tmp_path, _BURN.format(1.2) + "time.sleep(3)", token))
    job.start()
    until = time.monotonic() + 60
    while time.monotonic() < until and not _used(token, 1.0):
        time.sleep(0.05)
    over.set()
    watcher.join()
    job.join()
    assert counted[0] >= 0.9


def _used(token: str, seconds: float) -> bool:
    ticks = os.sysconf("SC_CLK_TCK")
    for pid in processes_with(token):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            if (int(words[11]) + int(words[12])) / ticks >= seconds:
                return True
    return False


def test_the_runner_and_its_helpers_are_our_own() -> None:
    def burn() -> None:
        until = time.process_time() + 0.5
        while time.process_time() < until:
            pass

    assert _counted(burn) >= 0.4
    code = _BURN.format(0.7) + "time.sleep(60)"
    for argument, ours in (("from bench.x import y", True), ("anything else", False)):
        with subprocess.Popen([sys.executable, "-c", code, argument]) as child:
            before = own_counters()
            until = time.monotonic() + 60
            while time.monotonic() < until and _cpu_of(child.pid) < 0.5:
                time.sleep(0.02)
            after = own_counters()
            found = [used - before.get(name, 0.0) for name, used in after.items() if name.startswith(f"{child.pid} ")]
            assert bool(found) is ours
            assert not ours or found[0] > 0.3
            child.kill()


def _cpu_of(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def test_a_process_that_waits_is_told_from_one_that_wants_a_processor() -> None:
    text = "import threading, time, sys\ndef spin():\n    while True: pass\n"
    spinning = f"{text}threading.Thread(target=spin, daemon=True).start(); print('x', flush=True); time.sleep(60)"
    sleeping = f"{text}threading.Thread(target=time.sleep, args=(60,)).start(); print('x', flush=True); time.sleep(60)"
    for code, wanted in ((spinning, True), (sleeping, False)):
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            # On a busy machine it is a while before it waits, or its thread spins.
            until = time.monotonic() + 60
            while any(any_runnable([child.pid]) for _ in range(20)) is not wanted and time.monotonic() < until:
                time.sleep(0.05)
            assert any(any_runnable([child.pid]) for _ in range(20)) is wanted
            child.kill()


_HERD = """
import os, signal, sys, time
until, hogs = time.monotonic() + 60, []
for _ in range(int(sys.argv[1])):
    hogs.append(os.fork())
    if hogs[-1] == 0:
        # A session shares one part of the machine, however many processes it has (sched_autogroup).
        os.setsid()
    while hogs[-1] == 0 and time.monotonic() < until:
        pass
    if hogs[-1] == 0:
        os._exit(0)
# Until whoever started this has had enough, or is gone.
sys.stdin.read()
for hog in hogs:
    os.kill(hog, signal.SIGKILL)
    os.waitpid(hog, 0)
"""


@contextlib.contextmanager
def _hogs(count: int) -> Iterator[None]:
    """Busy processes that are not the benchmark's, though the same process has started them."""
    with subprocess.Popen([sys.executable, "-c", _HERD, str(count)], stdin=subprocess.PIPE) as herd:
        try:
            yield
        finally:
            assert herd.stdin is not None
            herd.stdin.close()


# At night: it takes the machine from the tests beside it.
@pytest.mark.slow
@pytest.mark.nightly
def test_a_real_starved_machine(bubblewrap: BubblewrapSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job's group has the least share that there is, beside busy processes of a stranger."""
    if not cgroup_location.probe_cgroups().works:
        pytest.skip("control groups")

    def least(limits: JobLimits) -> Group | None:
        group = cgroup_location.new_group(limits)
        assert group is not None
        one, value = ("cpu.shares", "2") if group.versions["cpu"] == 1 else ("cpu.weight", "1")
        write_file(group.folders["cpu"] / one, value)
        return group

    monkeypatch.setattr(bubblewrap_module, "new_group", least)
    limits = make_limits(wall_s=8, cpu_s=4, available_s=6)
    # So many that the jobs of tests beside this one, which are not foreign, get less than a tenth of the machine; and
    # where tests beside it began so much that it is theirs all the same, once more.
    for _ in range(3):
        with _hogs(20 * (os.cpu_count() or 1)):
            ended = run_code(bubblewrap, tmp_path, "while True: pass", limits=limits)
        if ended.reason == "starved":
            break
    assert ended.reason == "starved"
    assert ended.cpu_s is not None and ended.cpu_s < 4


_NOISE = {
    "busy": "while True: pass",
    "threads": "import threading as t\ndef f():\n    while True: pass\nfor _ in range(40): t.Thread(target=f).start()",
    "forks": "import os\nfor _ in range(40):\n    if os.fork() == 0:\n        while True: pass\nwhile True: pass",
    "storm": "import os\nwhile True:\n    if os.fork() == 0: os._exit(0)\n    os.wait()",
    "sleeps": "import time\ntime.sleep(600)",
    "writes": "while True:\n    with open('x', 'wb') as f: f.write(b'x' * (8 << 20))",
    "stops": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
}


@pytest.mark.slow
@pytest.mark.parametrize("noise", on_push(_NOISE, ["busy", "forks", "sleeps"]))
def test_an_agent_that_makes_noise_is_never_starved(bubblewrap: Sandbox, tmp_path: Path, noise: str) -> None:
    limits = make_limits(wall_s=60, cpu_s=2, available_s=3.5)
    ended = run_code(bubblewrap, tmp_path, _NOISE[noise], limits=limits)
    assert ended.reason in ("cpu_limit", "time_limit")
