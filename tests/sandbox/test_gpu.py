"""The GPU of a cell, by stand-ins: its devices and libraries arrive in agent and subject, and nothing else does."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import InfraError
from bench.cell import leased_gpu, run_cell
from bench.cli.doctor_gpu import check_gpus
from bench.formats.agent_lookup import find_agent
from bench.formats.case_parts import Needs
from bench.formats.plan import Cell
from bench.judge.deadline import Deadline
from bench.judge.subject import Subject
from bench.sandbox import CellEnvironment, GpuRoots, Sandbox, find_gpus, missing_parts
from tests.helpers.cells import ROOT, make_agent, make_case, make_context, make_limits, run_code, write_files
from tests.helpers.gpus import LIBRARIES, UUIDS, stand_in_gpus

LOOK = """
import glob, json, os

def opens(path):
    try:
        os.close(os.open(path, os.O_RDWR))
        return True
    except OSError:
        return False

def look():
    nodes = [path for path in glob.glob("/dev/nvidia*") + glob.glob("/dev/nvidia*/*") if not os.path.isdir(path)]
    library = "/run/bench/gpu/lib"
    return {
        "devices": {path: os.minor(os.stat(path).st_rdev) for path in sorted(nodes) if opens(path)},
        "libraries": {name: open(f"{library}/{name}").read() for name in sorted(os.listdir(library))}
        if os.path.isdir(library) else {},
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "path": os.environ.get("LD_LIBRARY_PATH", ""),
        "writable": [path for path in glob.glob(f"{library}/*") if not fixed(path)],
    }

def fixed(path):
    try:
        os.chmod(path, 0o600)
        return False
    except OSError:
        return True
"""
DEVICES = [
    {"/dev/nvidia-caps/nvidia-cap30": 8, "/dev/nvidia-uvm": 8, "/dev/nvidia0": 3, "/dev/nvidiactl": 7},
    {"/dev/nvidia-caps/nvidia-cap40": 7, "/dev/nvidia-uvm": 8, "/dev/nvidia1": 5, "/dev/nvidiactl": 7},
]
BOTH = {name: name for name in sorted([*LIBRARIES, *(f"{name}.99" for name in LIBRARIES)])}
FULL_LIBRARIES = {name: name.removesuffix(".99") for name in BOTH}
NOTHING: dict[str, Any] = {"devices": {}, "libraries": {}, "visible": None, "path": "", "writable": []}


def seen(number: int, **changes: Any) -> dict[str, Any]:
    """What a process with the GPU of this number finds."""
    facts = {"visible": UUIDS[number], "path": "/run/bench/gpu/lib", "writable": []}
    return {"devices": DEVICES[number], "libraries": FULL_LIBRARIES, **facts, **changes}


@pytest.fixture
def roots(tmp_path: Path) -> GpuRoots:
    return stand_in_gpus(tmp_path / "machine")


def test_a_machine_says_what_its_gpus_are_and_what_is_missing(roots: GpuRoots, tmp_path: Path) -> None:
    found = find_gpus(roots)
    assert [(gpu.minor, gpu.uuid) for gpu in found] == [(0, UUIDS[0]), (1, UUIDS[1])]
    assert missing_parts(found[0]) == []
    poor = find_gpus(stand_in_gpus(tmp_path / "poor", without=["nvidia-uvm", "libcuda.so.1"]))
    assert [name for name, _ in missing_parts(poor[1])] == ["/dev/nvidia-uvm", "libcuda.so.1"]
    assert find_gpus(GpuRoots(tmp_path)) == []


def test_a_link_is_not_a_device(roots: GpuRoots) -> None:
    (roots.dev / "nvidia2").symlink_to("/dev/mem")
    (roots.dev / "nvidiactl").unlink()
    (roots.dev / "nvidiactl").symlink_to("/dev/mem")
    found = find_gpus(roots)
    assert [gpu.minor for gpu in found] == [0, 1]
    assert all("nvidiactl" not in source for gpu in found for source, _ in gpu.devices)


@pytest.mark.parametrize("number", [0, 1])
def test_a_job_has_the_gpu_of_its_cell_alone(isolating: Sandbox, roots: GpuRoots, tmp_path: Path, number: int) -> None:
    work = tmp_path / "work"
    work.mkdir()
    code = f"{LOOK}\nprint(json.dumps(look()))"
    ended = run_code(isolating, work, code, cell_environment=CellEnvironment(gpu=find_gpus(roots)[number]))
    assert json.loads(ended.stdout) == seen(number), ended.stderr
    assert "; GPU work limited by wall time alone, GPU memory not limited" in ended.enforcement
    ended = run_code(isolating, work, code)
    assert (json.loads(ended.stdout), "GPU" in ended.enforcement) == (NOTHING, False)


def test_the_process_that_forks_for_calls_sees_no_device(isolating: Sandbox, roots: GpuRoots, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    environment = CellEnvironment(gpu=find_gpus(roots)[0])
    code = f"{LOOK}\nprint(json.dumps([look(), os.environ['PYTORCH_NVML_BASED_CUDA_CHECK']]))"
    ended = run_code(isolating, work, code, cell_environment=environment, trusted=True)
    assert json.loads(ended.stdout) == [seen(0, devices={}, visible=""), "1"], ended.stderr


def test_its_forks_have_the_gpu(isolating: Sandbox, roots: GpuRoots, tmp_path: Path) -> None:
    write_files(tmp_path / "work", {"answer.py": LOOK})
    environment = CellEnvironment(gpu=find_gpus(roots)[1])
    subject = Subject(isolating, tmp_path / "work", (), make_limits(), Deadline(60), environment)
    try:
        assert subject.call("answer:look", (), {}, timeout=20, driver=None) == seen(1)
    finally:
        subject.close()


CHECK = """
from bench.judge import check

@check(required=True)
def the_gpu_is_there_in_agent_and_call_and_command(ws):
    \"\"\"All three see the same.\"\"\"
    ran = ws.run(["python", "look.py"])
    import json
    assert json.loads(ran.stdout) == ws.json("seen.json"), (ran, ws.json("seen.json"))
    assert ws.call("look:look") == ws.json("seen.json")
"""


@pytest.mark.slow
def test_agent_and_subject_of_a_cell_have_the_same_gpu(isolating: Sandbox, roots: GpuRoots, tmp_path: Path) -> None:
    look = f"{LOOK}\nif __name__ == '__main__':\n    print(json.dumps(look()))\n"
    files = {"check.py": CHECK, "workspace/look.py": look, "task.md": "Look.\n"}
    case = make_case(tmp_path / "cases", files, needs={"gpu": True}, outputs={}, wrong={}, promises=[])
    agent = make_agent(
        tmp_path / "agents",
        "import json, os, sys\nsys.path.insert(0, os.getcwd())\nfrom look import look\n"
        "json.dump(look(), open('seen.json', 'w'))\n",
    )
    context = make_context(tmp_path, isolating, gpu_roots=roots, keep_workspaces=True)
    cell = Cell(agent, {}, case, "mini", 1)
    record = run_cell(cell, context)
    assert (record.outcome, record.success) == ("graded", True), (record.error, record.checks)
    assert json.loads((context.trace(cell) / "workspace/seen.json").read_text()) == seen(0)
    assert "GPU work limited by wall time alone" in record.provenance.enforcement


def test_a_cell_without_a_gpu_is_skipped_with_the_reason(tmp_path: Path) -> None:
    from bench.sandbox import ProcessSandbox

    case = make_case(tmp_path / "cases", needs={"gpu": True})
    cell = Cell(find_agent("oracle", ROOT / "agents"), {}, case, "mini", 1)
    for without, cause in ((["nvidia0", "nvidia1"], "a GPU is missing"), (["libcuda.so.1"], "doctor --gpu")):
        roots = stand_in_gpus(tmp_path / without[0], without=without)
        record = run_cell(cell, make_context(tmp_path, ProcessSandbox(), gpu_roots=roots))
        assert (record.outcome, record.cause) == ("skipped", "needs_missing") and cause in record.error


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.docker
def test_doctor_tries_the_gpu_in_each_sandbox(roots: GpuRoots, tmp_path: Path) -> None:
    (roots.dev / "nvidia1").unlink()
    found = {finding.name: finding for finding in check_gpus(roots)}
    for name in ("gpu 0 in bubblewrap", "gpu 0 in docker"):
        finding = found.get(name)
        # The stand-in library is a text, which is as far as a probe without a GPU gets.
        assert finding is not None and finding.state == "missing", name
        assert "4 device nodes; libcuda.so.1 does not load" in finding.detail, finding
    poor = stand_in_gpus(tmp_path / "poor", without=["nvidia-uvm", "libcuda.so.1"])
    missing = [(it.detail, it.remedy) for it in check_gpus(poor) if it.name == "gpu driver"]
    assert [detail for detail, _ in missing] == ["/dev/nvidia-uvm", "libcuda.so.1"]
    assert "nvidia-modprobe" in missing[0][1]
    assert [it.state for it in check_gpus(GpuRoots(tmp_path))] == ["missing"]


def test_no_two_cells_have_the_same_gpu(roots: GpuRoots, tmp_path: Path) -> None:
    needs, never, locks = Needs(gpu=True), threading.Event(), tmp_path / "locks"
    with ExitStack() as stack:
        first = stack.enter_context(leased_gpu(needs, roots, locks, never))
        # Of another process, as of another run on this machine.
        code = (
            "import sys, threading; from pathlib import Path; from bench.cell import leased_gpu\n"
            "from bench.sandbox import GpuRoots; from bench.formats.case import Needs\n"
            "dev, proc, lib, locks = map(Path, sys.argv[1:])\n"
            "with leased_gpu(Needs(gpu=True), GpuRoots(dev, proc, (lib,)), locks, threading.Event()) as gpu:\n"
            "    print(gpu.minor, flush=True); sys.stdin.read()\n"
        )
        places = [roots.dev, roots.proc, *(roots.libraries or ()), locks]
        with subprocess.Popen(
            [sys.executable, "-c", code, *map(str, places)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        ) as other:
            assert other.stdout is not None and other.stdin is not None
            assert first is not None and (first.minor, other.stdout.readline()) == (0, b"1\n")
            # Both are taken: a third cell waits, until the run is stopped.
            stopped = threading.Event()
            stopped.set()
            with pytest.raises(InfraError, match="waited for a GPU"), leased_gpu(needs, roots, locks, stopped):
                pass
            taken: list[Any] = []
            waiting = threading.Thread(
                target=lambda: taken.append(stack.enter_context(leased_gpu(needs, roots, locks, never)))
            )
            waiting.start()
            other.kill()
        waiting.join(30)
        assert [gpu.minor for gpu in taken] == [1], "what a killed run held is free again"
    with leased_gpu(Needs(), roots, locks, never) as none:
        assert none is None
