"""Does the results branch hold at 100 agents x 50 cases x every night of three years?

    python -m tests.benchmarks.results_scale              # 5,475,000 records; 25 GB of disk, half an hour
    python -m tests.benchmarks.results_scale --scale 0.02

Makes the branch (tests.benchmarks.synthetic_branch), then measures each bar of the issue: first index (time, memory of
the whole process tree), one more night, leaderboard and compare, size in git, and `results collect` from a remote, with
the bytes that went through git's own transport. The size is that of fast-import's pack (--depth=50, each file against
the same agent's night before); --repack shows that of `git repack -adf` as well. Figures come from fresh processes.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from bench.formats.record import Record
from bench.store.branch import ResultsBranch
from bench.store.bundle import Bundle
from tests.benchmarks.synthetic_branch import (
    AGENTS,
    BRANCH,
    NIGHTS,
    World,
    agent_nights,
    make_branch,
)
from tests.helpers.hostile import make_planned_night

ROOT = Path(__file__).resolve().parents[2]
_COUNTER = """
import os, subprocess, sys, threading
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(log, b"talk 0\\n")
process = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def pump(source, target, name):
    while chunk := os.read(source, 1 << 16):
        os.write(log, f"{name} {len(chunk)}\\n".encode())
        os.write(target, chunk)
    os.close(target)
threading.Thread(target=pump, args=(0, process.stdin.fileno(), "sent"), daemon=True).start()
pump(process.stdout.fileno(), 1, "received")
sys.exit(process.wait())
"""
"""Stands between git and its other half, and counts."""
_QUERIES = """
import functools, sys, time
from pathlib import Path
began = time.monotonic()
from bench.index.answers import cell_history
from bench.index.answers import stored_records
from bench.index.nights import nightly_points
from bench.index.query import open_index
from bench.index.results import IndexedResults
from bench.stats import rank
from bench.stats.choice import Filters, choose
from bench.stats.compare import compare_records
def told(name, act):
    start = time.monotonic()
    found = act()
    print(f"{name}: {time.monotonic() - start:.2f} s", flush=True)
    return found
index = open_index(sys.argv[1], cache=Path(sys.argv[2]))
print(f"imports and opening at an unchanged tip: {time.monotonic() - began:.2f} s", flush=True)
def board():
    return rank(IndexedResults(index).standings())
for name in ("leaderboard, first", "leaderboard, again"):
    places = told(name, board)
print(f"  {len(places)} entrants, {sum(it.standing.graded for it in places):,} graded cells of today's cases")
digests = [it for it, in index.rows("SELECT agent_digest FROM tally WHERE agent = 'react-000' GROUP BY ALL"
                                    " ORDER BY max(last_started)")]
def sides(base, head):
    filters = Filters()
    stored = functools.partial(stored_records, index)
    return [choose(name, stored, filters).records for name in (base, head)]
if len(digests) > 1:
    pair = f"react-000@{digests[-2][:23]}", "react-000"
    for name in ("compare, first", "compare, again"):
        answer = told(name, lambda: compare_records(*sides(*pair)))
    print(f"  {answer.verdict} {answer.reasons} of {[len(it) for it in sides(*pair)]} records")
from bench.stats.trends import nightly
told("trends of 90 nights (no bar)", lambda: nightly(nightly_points(index, "success")))
told("planner's history (no bar)", lambda: cell_history(index))
told("SQL: success by agent and case", lambda: index.table(
    "SELECT agent, case_id, avg(success::INT) FROM cells WHERE outcome = 'graded' GROUP BY ALL"))
"""
_INDEX = """
import sys, time
from pathlib import Path
from bench.index.query import open_index
began = time.monotonic()
say = lambda line: print(f"{time.monotonic() - began:.0f} s: {line}", file=sys.stderr) if "-v" in sys.argv else None
index = open_index(sys.argv[1], cache=Path(sys.argv[2]), progress=say)
print(index.state.rows, len(index.state.parts), sum(ref.size for ref in index.state.parts), index.state.skipped)
"""


@dataclass(frozen=True)
class Ran:
    """One measured process."""

    seconds: float
    peak_mb: float
    """Resident memory of the process and all its children, the most at any instant (sampled 20 times a second)."""
    out: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the 1,095 nights")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--traces", type=float, default=0.5, help="share of the cells whose traces are kept")
    parser.add_argument("--repack", action="store_true", help="also the size after git repack -adf (takes long)")
    parser.add_argument("--folder", type=Path, help="where to work; default: a temporary folder")
    parser.add_argument("--branch", type=Path, help="keep the branch here, and take it from here the next time")
    options = parser.parse_args()
    world = World(options.seed, max(2, round(NIGHTS * options.scale)), traces=options.traces)
    total = world.nights * AGENTS * world.cases
    print(f"{world.nights} nights, {total:,} records ({100 * world.nights / NIGHTS:.1f}% of the full size)")
    print(
        f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}: figures of a busy machine are too high"
    )
    with tempfile.TemporaryDirectory(prefix="mldb-scale-", dir=options.folder) as name:
        folder = Path(name)
        bare, cache = folder / "results.git", folder / "cache"
        original = options.branch or folder / "original.git"
        if not original.exists():
            began = time.monotonic()
            make_branch(world, original, lambda line: print(line, file=sys.stderr))
            print(f"branch made in {time.monotonic() - began:.0f} s")
        subprocess.run(["git", "clone", "-q", "--bare", "--local", str(original), str(bare)], check=True)
        _sizes(bare, total, options.repack)
        index_once("first index", bare, cache, total)
        _collect(world, bare, folder)
        index_once("one more night", bare, cache, AGENTS * world.cases)
        print(run(_QUERIES, bare, cache).out, end="")
        store_directly(world, bare)
        index_once("one more night, again", bare, cache, AGENTS * world.cases)


def _sizes(bare: Path, total: int, repack: bool) -> None:
    def tell(how: str) -> None:
        size = sum(path.stat().st_size for path in (bare / "objects").rglob("*") if path.is_file())
        full = size / total * NIGHTS * AGENTS * 50
        print(
            f"repository, {how}: {size / 1e6:,.0f} MB, {size / total:.0f} bytes a record; in full {full / 1e9:.2f} GB"
        )

    tell("as fast-import packs it")
    if repack:
        subprocess.run(["git", "-C", str(bare), "-c", "pack.windowMemory=256m", "repack", "-adfq"], check=True)
        tell("after git repack -adf")


def index_once(what: str, bare: Path, cache: Path, rows: int) -> None:
    ran = run(_INDEX, bare, cache)
    total, parts, size, skipped = map(int, ran.out.split())
    print(
        f"{what}: {ran.seconds:.1f} s ({rows / ran.seconds:,.0f} records/s), {ran.peak_mb:,.0f} MB at the peak;"
        f" {total:,} rows in {parts} parts, {size / 1e6:,.0f} MB, {skipped} lines skipped"
    )


def run(code: str, *arguments: Path | str) -> Ran:
    """A Python process with `code`, which must succeed."""
    began = time.monotonic()
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        peak = _Peak(process.pid)
        out, _ = process.communicate()
    seconds = time.monotonic() - began
    if process.returncode:
        raise SystemExit(f"a measured process ended with {process.returncode}")
    return Ran(seconds, peak.end() / 1e6, out)


class _Peak:
    """Watches a process tree."""

    def __init__(self, pid: int) -> None:
        self._pid, self._most, self._over = pid, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> int:
        self._over.set()
        self._thread.join()
        return self._most

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            self._most = max(self._most, sum(map(_resident, _tree(self._pid))))


def _tree(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split()]
            except OSError:
                continue
    return found


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _night(world: World, night: int) -> list[Record]:
    return [
        Record.model_validate_json(line)
        for agent in range(world.agents)
        for _, text in agent_nights(world, agent, range(night, night + 1))
        for line in text.splitlines()
    ]


def _collect(world: World, bare: Path, folder: Path) -> None:
    """`results collect` of one more night: an artifact for each agent of the world, to a remote."""
    # Without traces, which go elsewhere (tests of the store hold those): what is measured here is the branch.
    night = make_planned_night(world.agents, world.cases, as_trials=True)
    records = [record for found in night.records.values() for record in found]
    (folder / "run.json").write_text(night.plan.model_dump_json(by_alias=True))
    night.lay_out(folder / "artifacts")
    counted = folder / "bytes"
    counted.touch()
    command = [sys.executable, "-m", "bench", "results", "collect", str(folder / "artifacts"), "--json"]
    command += ["--plan", str(folder / "run.json"), "--results", f"file://{bare}", "--branch", BRANCH, "--attempt", "1"]
    command += ["--cases", str(night.cases)]
    began = time.monotonic()
    env = {**os.environ, **_counting(folder, counted)}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if done.returncode not in (0, 1):
        raise SystemExit(f"collect ended with {done.returncode}: {done.stderr}")
    told = [line.split() for line in counted.read_text().splitlines()]
    sent = sum(int(n) for name, n in told if name == "sent") / 1e6
    received = (folder / "received").stat().st_size / 1e3
    print(
        f"collect of {len(records):,} records, status {done.returncode}: {seconds:.1f} s;"
        f" {sent:.2f} MB pushed, {received:.1f} kB of packs fetched"
    )
    print(f"  {done.stdout.strip()[:600]} {done.stderr.strip()[:300]}")
    shutil.rmtree(folder / "artifacts")


def _counting(folder: Path, counted: Path) -> dict[str, str]:
    """Variables with which git puts a counter before what takes a push, and writes down every pack it fetches."""
    (folder / "count.py").write_text(_COUNTER)
    counter = shlex.join([sys.executable, str(folder / "count.py"), str(counted), "git"])
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "remote.origin.receivepack",
        "GIT_CONFIG_VALUE_0": f"{counter} receive-pack",
        "GIT_TRACE_PACKFILE": str(folder / "received"),
    }


def store_directly(world: World, bare: Path) -> None:
    """Another night, without its artifacts."""
    run = "one-more"
    records = [
        it.model_copy(update={"provenance": it.provenance.model_copy(update={"run": run})})
        for it in _night(world, world.nights + 1)
    ]
    ResultsBranch(bare, BRANCH).commit(Bundle(run, 1, records, world.started(world.nights + 1)))


if __name__ == "__main__":
    main()
