"""The site beside `asv publish`, with as many result points.

    python -m venv /tmp/asv && /tmp/asv/bin/pip install asv virtualenv
    python -m tests.benchmarks.against_asv --asv /tmp/asv/bin/asv --points 500 5000 50000

A result point is one benchmark at one commit for asv, and one cell (an agent on a case in one night) here: 50
benchmarks and N/50 commits, against 2 agents on 25 cases in N/50 nights. What each publishes: asv a page that draws in
the browser, one JSON file a benchmark and its regressions; here every page of the board (ranks with intervals, costs,
trends with confirmed steps, cases, cells), its charts and data files. Times are of whole processes, wall and CPU. Here:
cold (no index, no chart kept), the site anew from a kept index, nothing changed, and one more cell of an agent that is
there, the first of its night.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.formats.record import Record
from bench.store.branch import ResultsBranch
from bench.store.bundle import Bundle
from tests.benchmarks.results_scale import ROOT
from tests.benchmarks.synthetic_branch import BRANCH, World, agent_nights, make_branch
from tests.helpers.cells import make_case

BENCHMARKS = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--asv", type=Path, help="the command asv; without it only the site is measured")
    parser.add_argument("--points", type=int, nargs="+", default=[500, 5000])
    options = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}: compare CPU where a machine is busy")
    for points in options.points:
        with tempfile.TemporaryDirectory(prefix="mldb-asv-") as name:
            folder = Path(name)
            print(f"{points:,} points", flush=True)
            if options.asv:
                _asv(folder / "asv", options.asv, points // BENCHMARKS)
            _ours(folder / "ours", points // BENCHMARKS)


def _timed(what: str, command: list[str], folder: Path) -> None:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{command[0]} ended with {done.returncode}: {done.stdout[-600:]} {done.stderr[-600:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"  {what}: {wall:.2f} s, {cpu:.2f} CPU s", flush=True)


def _published(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return f"{len(files):,} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB"


def _asv(folder: Path, asv: Path, commits: int) -> None:
    """A project of 50 benchmarks with results at every commit, as `asv run` would have left them."""
    project = folder / "project"
    project.mkdir(parents=True)
    stream = "".join(
        f"commit refs/heads/main\nmark :{n}\ncommitter a <a@example.org> {1_700_000_000 + 3600 * n} +0000\n"
        f"data 1\nx\nM 100644 inline f\ndata {len(str(n))}\n{n}\n"
        for n in range(1, commits + 1)
    )

    def git(*words: str, stdin: str = "") -> str:
        command = ["git", "-C", str(project), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, input=stdin).stdout

    git("init", "-q", "--initial-branch=main")
    git("fast-import", "--quiet", stdin=stream)
    hashes = git("log", "--format=%H", "main").split()
    (folder / "benchmarks").mkdir()
    machine = {"machine": "box", "os": "Linux", "arch": "x86_64", "cpu": "x", "num_cpu": "2", "ram": "8"}
    config = {
        "version": 1, "project": "p", "project_url": "https://example.org", "repo": str(project), "branches": ["main"],
        "environment_type": "existing", "results_dir": "results", "html_dir": "html",
        "benchmark_dir": "benchmarks", "show_commit_url": "https://example.org/",
    }  # fmt: skip
    (folder / "asv.conf.json").write_text(json.dumps(config))
    results = folder / "results" / "box"
    results.mkdir(parents=True)
    (results / "machine.json").write_text(json.dumps({**machine, "version": 1}))
    names = [f"bench.time_{n:02d}" for n in range(BENCHMARKS)]
    about = {
        name: {
            "name": name, "code": "pass", "version": "1", "type": "time", "unit": "seconds", "param_names": [],
            "params": [], "timeout": 60, "number": 0, "repeat": 0, "rounds": 2, "sample_time": 0.01,
            "warmup_time": -1, "min_run_count": 2,
        }
        for name in names
    }  # fmt: skip
    (folder / "results" / "benchmarks.json").write_text(json.dumps({**about, "version": 2}))
    columns = ["result", "params", "version", "started_at", "duration"]
    for at, commit in enumerate(hashes):
        values = {name: [[1.0 + (hash((name, at)) % 100) / 1000], [], "1", 1_700_000_000_000, 0.1] for name in names}
        document = {
            "commit_hash": commit, "env_name": "existing", "date": 1_700_000_000_000 + at, "python": "3.11",
            "params": {**machine, "python": "3.11"}, "requirements": {}, "env_vars": {}, "result_columns": columns,
            "results": values, "durations": {}, "version": 2,
        }  # fmt: skip
        (results / f"{commit[:8]}-existing.json").write_text(json.dumps(document))
    _timed("asv publish", [str(asv), "publish"], folder)
    print(f"    publishes {_published(folder / 'html')}")


def _ours(folder: Path, nights: int) -> None:
    """By the command, as a reader types it: its start, the look at what changed and the index are part of it."""
    folder.mkdir()
    world = World(7, nights, agents=2, cases=25, traces=0.0)
    make_branch(world, bare := folder / "results.git", lambda line: None)
    _make_cases(world, folder / "cases")
    words = ["build", str(bare), "--out", str(folder / "site"), "--cases", str(folder / "cases")]
    command = ["env", f"ML_DEV_BENCH_CACHE={folder / 'cache'}", sys.executable, "-m", "bench", "site", *words]

    def site(what: str) -> None:
        _timed(what, command, ROOT)

    site("ours, cold: index, charts and site")
    print(f"    publishes {_published(folder / 'site')}")
    shutil.rmtree(folder / "site")
    site("ours, index and charts kept")
    site("ours, nothing changed")
    ((_, night),) = agent_nights(world, 1, range(nights, nights + 1))
    record = Record.model_validate_json(night.splitlines()[0])
    ResultsBranch(bare, BRANCH).commit(Bundle(record.provenance.run, 1, [record], world.started(nights)))
    site("ours, one new record")


def _make_cases(world: World, root: Path) -> None:
    """Those of the branch, as a suite."""
    for number in range(world.cases):
        category = ("debugging", "model_implementation", "training", "dataset_handling")[number % 4]
        make_case(root, id=world.case(number), category=category, title=world.case(number).replace("_", " "))
    (root / "suites").mkdir()
    suite = 'schema: 1\nid: demo\nversion: "2026.11"\ntitle: All of them\ncases: ["*"]\n'
    (root / "suites" / "demo.yaml").write_text(suite)


if __name__ == "__main__":
    main()
