"""Runs of the real command line whose processes can be killed, and what must be true of them afterwards."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from bench.base.files import Checksums
from bench.formats.record import Record
from bench.formats.run_folder import RunFolder
from tests.helpers.cells import (
    CHECK,
    FILES,
    RIGHT,
    ROOT,
    WRONG,
    make_agent,
    make_case,
    new_token,
    wait_until_gone,
    write_files,
)
from tests.helpers.gateway import turn, write_cassette
from tests.helpers.victims import OURS, described, strike

TRIALS = 2
AGENTS = ("first", "second")

DATA = """
import time
def build(public, hidden, profile, seed):
    (public / "seed.txt").write_text(str(seed))
    time.sleep(0.15)
    (hidden / "half.txt").write_text("x" * 100000)
"""
_GATED = """
import os, time
from pathlib import Path
def wait():
    gate = Path({gate!r})
    while gate.exists():
        Path(f"{{gate}}-{{os.getpid()}}").touch()
        time.sleep(0.01)
    return bytearray(1 << 23)
"""
_FIRST_CHECK = '    """Numbers the agent has not seen are doubled."""\n'
SERVICES = """
from pathlib import Path
from bench.casekit.services import Response
def hub(request, service):
    return Response(200, b"wait" if Path({gate!r}).exists() else b"go")
"""
_AGENT = """
import json, os, subprocess, sys, time, urllib.request
while urllib.request.urlopen(os.environ["HUB_URL"]).read() != b"go":
    time.sleep(0.05)
task = {"role": "user", "content": open(os.environ["BENCH_TASK_FILE"]).read()}
body = {"model": os.environ["BENCH_MODEL"], "messages": [task]}
key = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(), key)
said = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)", sys.argv[1]], start_new_session=True)
time.sleep(0.15)
even = int(open("seed.txt").read()) % 2 == 0
right = sys.argv[1].startswith("first") or even
open("answer.py", "w").write(said if right else WRONG)
sys.exit(0 if right else 1)
"""

Verdicts = dict[str, tuple[str, bool | None, float | None, str | None]]


@dataclass
class Rig:
    """One run: a case with data, a service and a model, two agents, and the command line to run them."""

    folder: Path
    sandbox: str
    jobs: int = 3
    token: str = field(default_factory=new_token)
    prefix: Sequence[str] = ()
    """Command that starts the command line, such as one that enters a namespace."""
    root: Path = Path("/")
    """Where the run's files are seen from here."""
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("tmp", "out"):
            (self.folder / name).mkdir(parents=True)
        services = SERVICES.format(gate=str(self.gate))
        make_case(
            self.folder / "cases",
            {"data.py": DATA, "services.py": services, "check.py": self._check()},
            services={"hub": {"env": "HUB_URL"}},
            limits={"agent_s": 240, "grade_s": 120, "call_s": 30},
        )
        suite = {"id": "few", "version": "2026.11", "title": "Few", "cases": ["double_it"], "trials": TRIALS}
        write_files(self.folder / "cases" / "suites", {"few.yaml": yaml.safe_dump(suite)})
        for name in AGENTS:
            command = ["python", "{agent}/main.py", f"{name}-{self.token}"]
            script = f"WRONG = {WRONG!r}\n{_AGENT}"
            agent = make_agent(self.folder / "agents", script, name, command=command, models={"main": "replay/demo"})
            write_cassette(agent.folder / "cassettes", [turn(RIGHT)], case="double_it", task=FILES["task.md"])

    @property
    def gate(self) -> Path:
        """While this file is there, agents wait."""
        return self.folder / "wait"

    @property
    def grading_gate(self) -> Path:
        """While this file is there, gradings wait in the middle of their first check."""
        return self.folder / "grade"

    def gradings(self) -> list[int]:
        """The forks of the judge that have come to the gate, by process id."""
        return [int(path.name.rpartition("-")[2]) for path in self.folder.glob(f"{self.grading_gate.name}-*")]

    def _check(self) -> str:
        assert _FIRST_CHECK in CHECK
        gated = _GATED.format(gate=str(self.grading_gate))
        return gated + CHECK.replace(_FIRST_CHECK, f"{_FIRST_CHECK}    wait()\n")

    @property
    def room(self) -> Path:
        return self.folder / "tmp"

    @property
    def out(self) -> Path:
        return self.seen(self.folder / "out")

    @property
    def run(self) -> Path:
        return next(path for path in self.out.iterdir() if path.is_dir())

    @property
    def cassette(self) -> Path:
        return self.folder / "agents" / "first" / "cassettes" / "demo" / "double_it.yaml"

    def seen(self, path: Path) -> Path:
        return self.root / path.relative_to("/")

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "ML_DEV_BENCH_CACHE": str(self.folder / "cache"),
               "TMPDIR": str(self.room), **self.env}  # fmt: skip
        options = ["--sandbox", self.sandbox, "--cases", str(self.folder / "cases"), "--jobs", str(self.jobs)]
        return subprocess.Popen(
            [*self.prefix, sys.executable, "-m", "bench", "run", *options, *arguments],
            cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def begin(self, *arguments: str) -> subprocess.Popen[bytes]:
        agents = [part for name in AGENTS for part in ("--agent", str(self.folder / "agents" / name))]
        return self.start("--suite", "few", "--out", str(self.folder / "out"), *agents, *arguments)

    def resume(self, *arguments: str) -> subprocess.Popen[bytes]:
        return self.start("--resume", str(self.folder / "out" / self.run.name), *arguments)

    def begun(self) -> subprocess.Popen[bytes]:
        """A started run whose folder is there."""
        process = self.begin()
        wait_for(self._has_begun, process)
        return process

    def _has_begun(self) -> bool:
        return any((path / "run.json").exists() for path in self.out.iterdir())

    def records(self) -> list[Record]:
        return RunFolder(self.run).records()

    def verdicts(self) -> Verdicts:
        """What must be the same however the run was disturbed, by cell; every file whole, each cell once."""
        records = self.records()
        verdicts: Verdicts = {it.cell: (it.outcome, it.success, it.score, it.stop_reason) for it in records}
        assert len(verdicts) == len(records), "a cell has two records"
        sums = Checksums(self.run).known()
        for path in (self.run / "cells").glob("*.json"):
            assert path.read_bytes().endswith(b"}\n"), f"{path} is torn"
            assert f"cells/{path.name}" in sums or ".try" in path.name
        return verdicts

    def left_behind(self) -> list[str]:
        """What a finished run must not leave: processes, mounts, sockets, temporary files and folders."""
        found = [described(pid) for mark in (self.token, str(self.folder / "out")) for pid in wait_until_gone(mark)]
        found += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(self.folder) in line]
        found += [str(path) for path in self.seen(self.room).iterdir()]
        found += [str(path) for pattern in ("scratch*", ".*.tmp", "cells/.*") for path in self.run.glob(pattern)]
        cache = self.seen(self.folder / "cache" / "starts")
        found += [str(path) for path in cache.glob(".*") if not path.name.endswith(".lock")]
        found += [str(path) for path in cache.iterdir() if path.is_dir() and not (path / "complete").is_file()]
        return found


def finish(process: subprocess.Popen[bytes], seconds: float = 180) -> tuple[int, str]:
    """Exit status and what was said on standard error."""
    _, errors = process.communicate(timeout=seconds)
    text = errors.decode()
    assert "\nTraceback" not in text, text
    return process.returncode, text


def wait_for(
    condition: Callable[[], object], process: subprocess.Popen[bytes] | None = None, seconds: float = 60
) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, process.communicate()[1].decode()
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.01)


@dataclass
class Tally:
    """What a series of kills came to."""

    kills: dict[str, int] = field(default_factory=dict)
    runs: int = 0
    cells: int = 0
    lost: int = 0
    doubled: int = 0
    torn: int = 0
    changed: int = 0
    leftovers: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.kills.values())


def undisturbed(folder: Path, sandbox: str) -> Verdicts:
    """What a run comes to when nobody disturbs it."""
    rig = Rig(folder, sandbox)
    status, errors = finish(rig.begin())
    assert status == 0, errors
    verdicts = rig.verdicts()
    assert len(verdicts) == TRIALS * len(AGENTS)
    assert rig.left_behind() == []
    return verdicts


def kill_through(rig: Rig, rng: random.Random, most: int, tally: Tally, kinds: Sequence[str] = OURS) -> None:
    """Kill up to `most` processes of one run at random instants, going on each time until the run is finished."""
    spared: set[str] = set()
    process = rig.begun()
    done = 0
    kept: dict[str, bytes] = {}
    for _ in range(200):
        if done < most and process.poll() is None:
            time.sleep(rng.uniform(0, 0.7))
            kind = rng.choice(kinds)
            if strike(process, kind, rig.folder, spared):
                done += 1
                tally.kills[kind] = tally.kills.get(kind, 0) + 1
            if process.poll() is None and kind != "runner":
                continue
        status, errors = finish(process)
        if status != -signal.SIGKILL and status not in (0, 1):
            tally.faults.append(f"status {status}: {errors[-500:]}")
        kept = _still_there(rig, kept, tally)
        tally.faults += [it.error for it in rig.records() if it.cause == "internal_error"]
        if status == 0:
            break
        process = rig.resume()
    else:
        tally.faults.append("the run came to no end")
        process.kill()


def _still_there(rig: Rig, kept: dict[str, bytes], tally: Tally) -> dict[str, bytes]:
    """Graded records by name; every one that was there before is there, byte for byte."""
    now: dict[str, bytes] = {}
    for path in (rig.run / "cells").glob("*.json"):
        if ".try" not in path.name:
            data = path.read_bytes()
            try:
                if Record.model_validate_json(data).outcome == "graded":
                    now[path.name] = data
            except ValueError:
                tally.torn += 1
                tally.faults.append(f"torn: {path.name}")
    for name in kept.keys() - now.keys():
        tally.lost += 1
        tally.faults.append(f"lost: {name}")
    changed = [name for name in kept.keys() & now.keys() if kept[name] != now[name]]
    tally.changed += len(changed)
    tally.faults += [f"written anew: {name}" for name in changed]
    return now


def settle(rig: Rig, expected: Verdicts, tally: Tally) -> None:
    """Compare a finished run with an undisturbed one."""
    cells = [record.cell for record in rig.records()]
    found = rig.verdicts()
    tally.runs += 1
    tally.cells += len(cells)
    tally.doubled += len(cells) - len(set(cells))
    tally.lost += len(expected.keys() - found.keys())
    wrong = {cell: (found[cell], verdict) for cell, verdict in expected.items() if found.get(cell, verdict) != verdict}
    tally.changed += len(wrong)
    tally.faults += [f"{cell}: {pair[0]} instead of {pair[1]}" for cell, pair in wrong.items()]
    left = rig.left_behind()
    tally.leftovers += len(left)
    tally.faults += [f"left: {name}" for name in left]
