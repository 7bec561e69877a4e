"""Groups of the kernel for jobs: where they can be made, what they limit, and that none is left."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from bench.sandbox import cgroup_location
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.cgroup import (
    CONTROLLERS,
    CPU_TIME,
    Branch,
    Group,
    Owner,
    memory_cap_mb,
    remove_abandoned,
    settings,
    tasks_cap,
)
from bench.sandbox.cgroup_location import Probe, find_branches, new_group, unified_branch
from tests.helpers.cells import (
    ROOT,
    make_limits,
    new_token,
    not_here,
    processes_with,
    run_code,
    wait_until_gone,
    write_files,
)
from tests.helpers.readable import readable_package

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="cgroups are Linux's")


@pytest.fixture
def enforced() -> Probe:
    """For tests of what only the kernel can do; ordinary users may lack it, root never."""
    found = cgroup_location.probe_cgroups()
    if not found.works:
        if os.geteuid() == 0:
            not_here(f"control groups: {found.detail}")
        pytest.skip(f"control groups: {found.detail} (run these tests as root, too)")
    return found


# --- what is written -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        (1, {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.swappiness", "pids.max",
             "cpu.cfs_period_us", "cpu.cfs_quota_us"}),
        (2, {"memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.max"}),
    ],
)  # fmt: skip
def test_the_files_of_each_version(version: Literal[1, 2], wanted: set[str]) -> None:
    limits = make_limits(memory_mb=320, processes=10, cpus=2)
    values = {item.file: item.value for name in CONTROLLERS for item in settings(version, name, limits)}
    assert set(values) == wanted
    cap = str((320 + 10 + 64) << 20)
    assert cap in (values.get("memory.max"), values.get("memory.limit_in_bytes"))
    assert values["pids.max"] == "104"
    assert values.get("cpu.max", values.get("cpu.cfs_quota_us")) in ("200000 100000", "200000")


def test_caps_lie_above_the_limits() -> None:
    for memory, processes in ((1, 1), (100, 20), (1 << 20, 4096)):
        limits = make_limits(memory_mb=memory, processes=processes)
        assert memory_cap_mb(limits) >= memory + 64
        assert tasks_cap(limits) > processes


# --- where groups are made -------------------------------------------------------------------------------------------


def _tree(root: Path, files: dict[str, str]) -> Path:
    """Folders like those of a hierarchy; every one has the file in which members are listed."""
    write_files(root, files)
    for folder in [root, *(path for path in root.rglob("*") if path.is_dir())]:
        (folder / "cgroup.procs").touch()
    return root


def _mounted(point: Path, kind: str, options: str = "rw", root: str = "/") -> str:
    return f"30 24 0:26 {root} {point} rw,nosuid - {kind} {kind} {options}\n"


def test_version_1_has_a_hierarchy_for_each_controller(tmp_path: Path) -> None:
    memory = _tree(tmp_path / "memory", {"ci/job/x": ""})
    both = _tree(tmp_path / "cpu,cpuacct", {"ci/x": ""})
    mounts = (
        _mounted(memory, "cgroup", "rw,memory")
        + _mounted(both, "cgroup", "rw,cpu,cpuacct")
        + "31 24 0:9 / /proc rw - proc proc rw\n"
    )
    found = find_branches("4:memory:/ci/job\n3:cpu,cpuacct:/ci\n1:name=systemd:/x\n0::/\n", mounts)
    assert found == (Branch(1, memory / "ci/job", ("memory",)), Branch(1, both / "ci", ("cpu", CPU_TIME)))


def test_a_container_sees_its_own_part_of_a_hierarchy(tmp_path: Path) -> None:
    memory = _tree(tmp_path / "memory", {"mine/x": ""})
    mounts = _mounted(memory, "cgroup", "rw,memory", root="/docker/abc")
    assert find_branches("4:memory:/docker/abc/mine\n", mounts)[0].folder == memory / "mine"
    assert find_branches("4:memory:/elsewhere\n", mounts) == ()


def test_version_2_makes_groups_where_controllers_are_given(tmp_path: Path) -> None:
    top = _tree(
        tmp_path / "top",
        {
            "cgroup.subtree_control": "cpu memory pids io",
            "slice/cgroup.subtree_control": "memory pids",
            "slice/scope/cgroup.subtree_control": "",
            "slice/scope/cgroup.controllers": "",
        },
    )
    assert unified_branch(top / "slice/scope", top, ("memory", "pids")) == Branch(2, top / "slice", ("memory", "pids"))
    assert unified_branch(top / "slice/scope", top, CONTROLLERS) == Branch(2, top, CONTROLLERS)
    weaker = unified_branch(top / "slice/scope", top / "slice", CONTROLLERS)
    assert weaker == Branch(2, top / "slice", ("memory", "pids"))


def test_version_2_counts_cpu_time_without_a_controller(tmp_path: Path) -> None:
    files = {"cgroup.subtree_control": "", "cgroup.controllers": "", "cgroup.procs": ""}
    top = _tree(tmp_path / "top", files)
    assert unified_branch(top, top, (*CONTROLLERS, CPU_TIME)) == Branch(2, top, (CPU_TIME,))


def test_both_versions_at_once(tmp_path: Path) -> None:
    pids, unified = (
        _tree(tmp_path / "pids", {"x/x": ""}),
        _tree(tmp_path / "unified", {"cgroup.subtree_control": "memory"}),
    )
    mounts = _mounted(pids, "cgroup", "rw,pids") + _mounted(unified, "cgroup2")
    found = find_branches("8:pids:/\n0::/\n", mounts)
    assert found == (Branch(1, pids, ("pids",)), Branch(2, unified, ("memory", CPU_TIME)))


def test_a_machine_without_cgroups_has_none() -> None:
    assert find_branches("0::/\n", "31 24 0:9 / /proc rw - proc proc rw\n") == ()


def _unified() -> Path:
    """A hierarchy of version 2 in which this process can make groups."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if " - cgroup2 " in line:
            own = Path("/proc/self/cgroup").read_text().rpartition("0::")[2].strip()
            place = Path(line.split()[4] + own)
            if os.access(place, os.W_OK):
                return place
    pytest.skip("no hierarchy of version 2 that this user may write")


@contextlib.contextmanager
def _group_of_version_2() -> Iterator[Group]:
    folder = _unified() / Owner.this().new_name()
    folder.mkdir()
    group = Group({"pids": folder, CPU_TIME: folder}, {"pids": 2, CPU_TIME: 2}, 0)
    yield group
    group.remove()


def test_version_2_live_members_and_end(tmp_path: Path) -> None:
    """Without controllers, which this machine may have given to version 1: joining, listing, killing, removing."""
    token = new_token()
    with _group_of_version_2() as group:
        argv = group.joined(["sh", "-c", "sleep 40 & sleep 40; true", token])
        with subprocess.Popen(argv) as child:
            until = time.monotonic() + 5
            while len(group.processes()) < 3 and time.monotonic() < until:
                time.sleep(0.01)
            assert child.pid in group.processes()
            cpu_s = group.cpu_s()
            assert cpu_s is not None and 0 < cpu_s < 5
            group.remove()
            assert child.wait(5) == -signal.SIGKILL
            assert group.cpu_s() is None, "of a group that is gone"
        assert not group.paths[0].exists()
    assert processes_with(token) == []


def test_version_2_live_processes_move_down_to_make_room() -> None:
    with _group_of_version_2() as group:
        own = group.paths[0]
        with subprocess.Popen(group.joined(["sleep", "40"])) as child:
            until = time.monotonic() + 5
            while child.pid not in group.processes() and time.monotonic() < until:
                time.sleep(0.01)
            cgroup_location._move_down(own)
            assert group.processes() == []
            leaf = own / "mldb-runner"
            assert (leaf / "cgroup.procs").read_text().split() == [str(child.pid)]
            child.kill()
            child.wait()
            leaf.rmdir()


# --- a group ---------------------------------------------------------------------------------------------------------


def test_a_group_has_its_limits_and_goes(enforced: Probe) -> None:
    group = new_group(make_limits(memory_mb=100, processes=20))
    assert group is not None
    assert set(group.in_force) == set(CONTROLLERS)
    assert group.cpu_s() == 0
    file = "memory.limit_in_bytes" if group.versions["memory"] == 1 else "memory.max"
    assert int((group.folders["memory"] / file).read_text()) == (100 + 3 + 64) << 20
    assert int((group.folders["pids"] / "pids.max").read_text()) == 144
    group.remove()
    assert not any(place.exists() for place in group.paths)
    group.remove()


def test_a_group_goes_with_the_groups_below_it(enforced: Probe) -> None:
    group = new_group(make_limits())
    assert group is not None
    for place in group.paths:
        (place / "call").mkdir()
    below = group.folders["pids"] / "call"
    with subprocess.Popen(["/bin/sh", "-c", 'echo 0 > "$0/cgroup.procs"; exec sleep 40', str(below)]) as child:
        until = time.monotonic() + 30
        while "sleep" not in Path(f"/proc/{child.pid}/comm").read_text() and time.monotonic() < until:
            time.sleep(0.01)
        group.remove()
        assert child.wait(30) == -signal.SIGKILL
    assert not any(place.exists() for place in group.paths)


def _groups_of(owner: Owner) -> list[Path]:
    folders = {branch.folder for branch in cgroup_location._branches()}
    return [path for folder in folders for path in folder.glob(f"mldb-{owner.namespace}-{owner.pid}-*")]


def test_no_group_is_left_after_a_job(enforced: Probe, bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    ended = run_code(bubblewrap, tmp_path, "print('x')")
    assert ended.stdout == b"x\n"
    assert "memory, pids, cpu by cgroup" in ended.enforcement
    assert ended.enforcement.endswith("; CPU time counted")
    run_code(bubblewrap, tmp_path, "import time; time.sleep(9)", limits=make_limits(wall_s=0.5))
    assert _groups_of(Owner.this()) == []


_RUNNER = """
import sys
from pathlib import Path
from bench.sandbox.choose import open_sandbox
from tests.helpers.cells import run_code
run_code(open_sandbox(sys.argv[3]), Path(sys.argv[1]), "open('up', 'w'); import time; time.sleep(30)", sys.argv[2])
"""


@pytest.mark.parametrize("kind", ["bubblewrap", "plain"])
def test_groups_of_a_killed_runner_are_removed_by_the_next(
    enforced: Probe, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    token = new_token()
    argv = [sys.executable, "-c", _RUNNER, str(tmp_path), token, request.getfixturevalue(kind).name]
    with subprocess.Popen(argv, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}) as runner:
        while not (tmp_path / "up").exists():
            assert runner.poll() is None, "the runner ended before its job was up"
            time.sleep(0.01)
        namespace = Owner.this().namespace
        left = [path for folder in {b.folder for b in cgroup_location._branches()} for path in folder.glob("mldb-*")]
        mine = [path for path in left if (owner := Owner.of(path.name)) and owner.pid == runner.pid]
        assert len(mine) == len({branch.folder for branch in cgroup_location._branches()})
        remove_abandoned(cgroup_location._branches())
        assert all(path.exists() for path in mine), "of a living runner"
        runner.send_signal(signal.SIGKILL)
    assert wait_until_gone(token) == []
    next_runner = "from bench.sandbox.cgroup_location import probe_cgroups; probe_cgroups()"
    subprocess.run([sys.executable, "-c", next_runner], cwd=ROOT, check=True)
    assert not any(path.exists() for path in mine)
    assert namespace == Owner.this().namespace


def test_an_owner_is_read_from_the_name_and_known_to_live_or_not() -> None:
    this = Owner.this()
    assert Owner.of(this.new_name()) == this
    assert not this.gone()
    assert Owner(this.namespace, this.pid, this.started + 1).gone(), "the id is used again"
    assert not Owner(this.namespace + 1, 1, 1).gone(), "nothing is known of other namespaces"
    for name in ("mldb-runner", "other", "mldb-1-2-x-y", "mldb-1-2-3", "user.slice"):
        assert Owner.of(name) is None


# --- runners that are not root ---------------------------------------------------------------------------------------

_ORDINARY = 61234
_FORKS = """
import os, time
try:
    for _ in range(600):
        if os.fork() == 0:
            time.sleep(10)
            os._exit(0)
except OSError:
    pass
time.sleep(10)
"""
_THREADS = """
import os, threading, time
try:
    for made in range(600):
        threading.Thread(target=time.sleep, args=(10,), daemon=True).start()
except RuntimeError:
    os.write(1, b"met")
time.sleep(1)
os._exit(0)
"""
_AS_USER = f"""
import json, sys
from dataclasses import asdict
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from bench.sandbox import cgroup_location
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.running import run_job
from bench.sandbox.job import Job, JobLimits, Mount
def run(code, **limits):
    mount = Mount(Path(sys.argv[1]), "/workspace", True)
    limits = JobLimits(**{{"wall_s": 20, "memory_mb": 200, "processes": 20, **limits}})
    ended = run_job(BubblewrapSandbox(), Job(["python", "-c", code], [mount], mount, limits))
    return [ended.reason, ended.code, ended.stdout.decode(), ended.stderr.decode()[-300:], ended.enforcement]
print(json.dumps({{
    "probe": asdict(cgroup_location.probe_cgroups()),
    "hello": run("open('made', 'w'); print('hello')"),
    "forks": run({_FORKS!r}),
    "threads": run({_THREADS!r}),
    "memory": run("kept = [bytearray(b'x' * (10 << 20)) for _ in range(60)]; import time; time.sleep(5)"),
    "filtered": run("import os, ctypes; print(ctypes.CDLL(None).unshare(0))"),
}}))
"""


def _as_ordinary_user(prefix: list[str]) -> dict[str, Any]:
    """What a runner without privileges finds, started behind `prefix`.

    With the system's Python, and where everybody may go: this user's own places need not be open to others.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    if not os.access("/usr/bin/python3", os.X_OK) or shutil.which("setpriv") is None:
        not_here("a Python of the system, and setpriv")
    with tempfile.TemporaryDirectory(prefix="mldb-test-") as folder, readable_package() as package:
        os.chown(folder, _ORDINARY, _ORDINARY)
        drop = ["setpriv", f"--reuid={_ORDINARY}", f"--regid={_ORDINARY}", "--clear-groups", "--"]
        argv = [*prefix, *drop, "/usr/bin/python3", "-B", "-c", _AS_USER, folder, str(package)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_an_ordinary_user_has_watchers_and_a_cap_on_tasks() -> None:
    found = _as_ordinary_user([])
    assert not found["probe"]["works"]
    assert "Delegate" in found["probe"]["remedy"]
    assert found["hello"][:3] == ["exit", 0, "hello\n"]
    assert found["hello"][4] == (
        "memory and processes watched; tasks by rlimit; system calls filtered; CPU time estimated"
    )
    assert found["forks"][0] == "process_limit"
    assert (found["threads"][0], found["threads"][2]) == ("exit", "met"), "a cap that does not tell"
    assert found["memory"][0] == "memory_limit"
    assert found["filtered"][2] == "-1\n"


@pytest.mark.slow
def test_an_ordinary_user_with_groups_of_his_own_has_all(enforced: Probe) -> None:
    group = new_group(make_limits(memory_mb=4096, processes=4096, cpus=2))
    assert group is not None
    if 2 in group.versions.values():
        group.remove()
        pytest.skip("the limits of this group are its own: needs version 1")
    for place in group.paths:
        for path in (place, place / "cgroup.procs", place / "tasks"):
            os.chown(path, _ORDINARY, _ORDINARY)
    try:
        found = _as_ordinary_user(group.joined([]))
    finally:
        group.remove()
    assert found["probe"] == {"works": True, "detail": "memory, pids, cpu by cgroup v1", "remedy": ""}
    assert found["hello"][:3] == ["exit", 0, "hello\n"]
    assert found["forks"][0] == "process_limit"
    assert (found["threads"][0], found["threads"][2]) == ("process_limit", "met")
    assert found["memory"][0] == "memory_limit"
    assert found["filtered"][2] == "-1\n"
