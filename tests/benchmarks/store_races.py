"""Many writers, one results branch: do all land, once each, and what does it take?

    python -m tests.benchmarks.store_races [--writers 32] [--repetitions 10] [--kills 50] [--reject 0.25]

Races: the writers push different bundles to one bare repository at once, whose hook turns pushes away at random and
which takes no forced push. Kills: kept bundles are pushed through git's own server, each writer killed with SIGKILL
somewhere on its way, with all its children, and started again until it ends by itself. After each part the branch is
verified. Times depend on the machine and what else it does.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bench.store.audit import Audit
from bench.store.branch import ResultsBranch
from bench.store.bundle import Bundle
from bench.store.pending import save_pending
from bench.store.reader import open_copy
from tests.helpers.records import START, make_record
from tests.helpers.store import BRANCH, ROOT, git, make_bare

_WRITER = """
import sys, time
from bench.store.branch import ResultsBranch
from bench.store.bundle import Bundle
from bench.base.errors import UserError
from tests.helpers.records import START, make_record
print("ready", flush=True)
for line in sys.stdin:
    address, run = line.split()
    began = time.monotonic()
    try:
        done = ResultsBranch(address).commit(Bundle(run, 1, [make_record(run=run)], START))
        print("landed" if done.new else "held", time.monotonic() - began, flush=True)
    except UserError as error:
        print("lost", time.monotonic() - began, error, flush=True)
"""


@dataclass(frozen=True)
class Raced:
    """One repetition."""

    landed: int
    seconds: float
    turned_away: int
    """Pushes that the hook refused."""
    faults: list[str]


@contextlib.contextmanager
def writers(count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that wait for an address and a name, and then push a bundle."""
    command = [sys.executable, "-c", _WRITER]
    with contextlib.ExitStack() as stack:
        processes = []
        for _ in range(count):
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            processes.append(process)
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        yield processes


def race(folder: Path, processes: Sequence[subprocess.Popen[str]], reject: float) -> Raced:
    """All writers at once on a new repository."""
    bare = strict_bare(folder, reject)
    names = [f"racer-{number}" for number in range(len(processes))]
    began = time.monotonic()
    for name, process in zip(names, processes, strict=True):
        assert process.stdin is not None
        process.stdin.write(f"file://{bare} {name}\n")
        process.stdin.flush()
    answers = [process.stdout.readline().split(maxsplit=2) for process in processes if process.stdout is not None]
    seconds = time.monotonic() - began
    faults = [
        f"{name}: {' '.join(answer)}" for name, answer in zip(names, answers, strict=True) if answer[0] != "landed"
    ]
    log = bare / "refused"
    turned_away = len(log.read_text()) if log.exists() else 0
    return Raced(
        landed=sum(answer[0] == "landed" for answer in answers),
        seconds=seconds,
        turned_away=turned_away,
        faults=[*faults, *check(bare, names)],
    )


def strict_bare(folder: Path, reject: float) -> Path:
    """A bare repository that takes no forced push, and turns away a share of the others at random."""
    bare = make_bare(folder / "results.git")
    git(bare, "config", "receive.denyNonFastForwards", "true")
    git(bare, "config", "receive.denyDeletes", "true")
    git(bare, "config", "uploadpack.allowFilter", "true")
    hook = bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    limit = int(256 * reject)
    hook.write_text(
        f"#!/bin/sh\n[ $(od -An -N1 -tu1 /dev/urandom) -ge {limit} ] && exit 0\nprintf x >> {bare}/refused\nexit 1\n"
    )
    hook.chmod(0o755)
    return bare


def check(bare: Path, names: Sequence[str]) -> list[str]:
    """What is wrong with a branch that should hold each of these runs once; empty when nothing is."""
    branch = ResultsBranch(bare)
    stored = sorted(run.run for run in branch.manifests())
    faults = [] if stored == sorted(names) else [f"stored are {len(stored)} runs: {set(names) ^ set(stored)}"]
    held = sorted(record.provenance.run for record in branch.records())
    if held != sorted(names):
        faults.append(f"{len(held)} records of {len(names)}")
    count = int(git(bare, "rev-list", "--count", BRANCH))
    if count != len(names):
        faults.append(f"{count} commits for {len(names)} runs")
    with open_copy(bare, BRANCH, history=True) as copy:
        faults += [f"{finding.where}: {finding.what}" for finding in Audit(copy).findings()]
    return faults


@contextlib.contextmanager
def git_server(root: Path) -> Iterator[str]:
    """git's own server for the repositories below `root`; what serves a client does not die with it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["git", "daemon", f"--base-path={root}", "--export-all", "--enable=receive-pack", "--reuseaddr"]
    command += ["--listen=127.0.0.1", f"--port={port}", "--max-connections=0"]
    with subprocess.Popen(command, start_new_session=True) as server:
        try:
            for _ in range(100):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
                time.sleep(0.05)
            yield f"git://127.0.0.1:{port}"
        finally:
            os.killpg(server.pid, signal.SIGKILL)


def killed_pushes(folder: Path, count: int, side_by_side: int, reject: float, seed: int) -> tuple[int, list[str]]:
    """Push `count` kept bundles, each killed on its way; returns how many kills hit, and what is wrong afterwards."""
    bare = strict_bare(folder, reject)
    names = [f"victim-{number}" for number in range(count)]
    kept = {name: save_pending(Bundle(name, 1, [make_record(run=name)], START), folder / "kept") for name in names}
    rng = random.Random(seed)
    with git_server(folder) as host, ThreadPoolExecutor(side_by_side) as pool:
        address = f"{host}/results.git"
        jobs = [pool.submit(_push, kept[name], address, [rng.uniform(0.2, 2.5) for _ in range(2)]) for name in names]
        outcomes = [job.result() for job in jobs]
    faults = [fault for _, fault in outcomes if fault]
    left = [path.name for path in (folder / "kept").iterdir() if not path.name.startswith(".")]
    faults += [f"still kept: {name}" for name in left]
    return sum(kills for kills, _ in outcomes), [*faults, *check(bare, names)]


def _push(kept: Path, address: str, delays: Sequence[float]) -> tuple[int, str]:
    """Push a kept bundle, killed after each of `delays` seconds and begun again; at last left alone."""
    command = [sys.executable, "-m", "bench", "results", "push", str(kept), "--results", address]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    kills = 0
    for delay in (*delays, None):
        if not kept.exists():
            return kills, ""
        process = subprocess.Popen(
            command, env=env, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            output, _ = process.communicate(timeout=delay)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            kills += 1
            continue
        if process.returncode:
            return kills, f"{kept.name}: {output}"
    return kills, "" if not kept.exists() else f"{kept.name} was not pushed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", type=int, default=32)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--reject", type=float, default=0.25)
    options = parser.parse_args()
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="mldb-races-") as scratch:
        if options.repetitions:
            with writers(options.writers) as processes:
                results = []
                for number in range(options.repetitions):
                    folder = Path(scratch) / str(number)
                    folder.mkdir()
                    result = race(folder, processes, options.reject)
                    results.append(result)
                    faults += result.faults
                    print(
                        f"race {number + 1}: {result.landed} of {options.writers} landed in {result.seconds:.1f} s; "
                        f"{result.turned_away} pushes turned away by the hook; {len(result.faults)} faults",
                        flush=True,
                    )
            print(f"median of a race: {statistics.median(result.seconds for result in results):.1f} s")
        if options.kills:
            folder = Path(scratch) / "kills"
            folder.mkdir()
            began = time.monotonic()
            kills, wrong = killed_pushes(folder, options.kills, 8, options.reject, seed=1)
            faults += wrong
            seconds = time.monotonic() - began
            print(f"kills: {options.kills} bundles, {kills} writers killed, {len(wrong)} faults, {seconds:.0f} s")
    for fault in faults:
        print(f"FAULT {fault}")
    print("load", os.getloadavg())
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
