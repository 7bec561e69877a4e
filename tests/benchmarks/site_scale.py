"""Does the site hold at 100 agents x 50 cases x every night of three years?

    python -m tests.benchmarks.site_scale                 # 5,475,000 records; 25 GB of disk, an hour
    python -m tests.benchmarks.site_scale --scale 0.1     # a tenth of the nights
    python -m tests.benchmarks.site_scale --branch kept.git --cache kept-cache   # made once, taken the next time

Measures, each in a fresh process: the index (stated apart), the whole site from it, the same again where nothing has
changed, and after one more night, with which pages changed. Bars: site under 180 s and 2 GB, output under 200 MB and
20,000 files, front page under 150 kB compressed, no data file over 1 MB, one more night under 15 s.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import tempfile
from pathlib import Path

from tests.benchmarks.results_scale import ROOT, index_once, run, store_directly
from tests.benchmarks.synthetic_branch import AGENTS, NIGHTS, World, make_branch

SITE_CODE = """
import os, sys, time
from pathlib import Path
began = time.monotonic()
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command does
from functools import partial
from bench.index.query import open_index
from bench.index.results import IndexedResults
from bench.pages import BranchTraces, BuiltFrom, CaseInfo, SiteOptions, write_site
from bench.store import open_trace_reader
repository, cache, out, site, agents, cases = *map(Path, sys.argv[1:5]), *map(int, sys.argv[5:7])
from tests.benchmarks.synthetic_branch import World
world = World(7, 1, agents, cases)
infos = [CaseInfo(world.case(n), ("debugging", "implementation", "training", "datasets")[n % 4],
                  world.case(n).replace("_", " ").capitalize(), ("synthetic",), task="# Task") for n in range(cases)]
def told(line):
    if "-v" in sys.argv: print(f"{time.monotonic() - began:.1f} s: {line}", file=sys.stderr, flush=True)
with open_index(repository, cache=cache) as index, open_trace_reader(repository, "mldb-results") as reader:
    opened = time.monotonic() - began
    options = SiteOptions(suite="mini", base="https://example.org/", charts=cache / "charts",
                          built_from=BuiltFrom("mldb-results", index.state.tip), traces=BranchTraces(reader))
    written = write_site(partial(IndexedResults, index), infos, out, site, options, told)
print(opened, time.monotonic() - began, written.made, written.kept)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the 1,095 nights")
    parser.add_argument("--agents", type=int, default=AGENTS)
    parser.add_argument("--branch", type=Path, help="keep the branch here, and take it from here the next time")
    parser.add_argument("--cache", type=Path, help="the same for the index")
    parser.add_argument("--out", type=Path, help="keep the site here")
    options = parser.parse_args()
    world = World(7, max(2, round(NIGHTS * options.scale)), agents=options.agents, traces=0.02)
    total = world.nights * world.agents * world.cases
    print(f"{world.nights} nights, {world.agents} agents, {world.cases} cases: {total:,} records")
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}: a busy machine makes figures too high")
    with tempfile.TemporaryDirectory(prefix="mldb-site-") as name:
        folder = Path(name)
        bare, cache, out = folder / "results.git", options.cache or folder / "cache", options.out or folder / "site"
        original = options.branch or folder / "original.git"
        if not original.exists():
            make_branch(world, original, lambda line: None)
        # Alternates: another night is added to the copy, never to the branch that is kept.
        subprocess.run(["git", "clone", "-q", "--bare", "--shared", str(original), str(bare)], check=True)
        repository = original if options.cache else bare
        index_once("index, stated apart", repository, cache, total)
        build("site, from nothing", world, repository, cache, out)
        _sizes(out)
        build("site, nothing changed", world, repository, cache, out)
        if repository is bare:
            before = _contents(out)
            store_directly(world, bare)
            index_once("index, one more night", bare, cache, world.agents * world.cases)
            build("site, one more night", world, bare, cache, out)
            now = _contents(out)
            kinds = ("index", "cases/", "agents/", "runs/", "data/", "badges/")
            changed = [path for path in now if before.get(path) != now[path]]
            print("  changed:", ", ".join(f"{kind} {sum(it.startswith(kind) for it in changed)}" for kind in kinds))


def build(what: str, world: World, repository: Path, cache: Path, out: Path) -> float:
    """One build in a fresh process; its seconds, the start of Python and the opening of the index included."""
    sizes = (str(world.agents), str(world.cases))
    ran = run(SITE_CODE, repository, cache, out, ROOT / "site", *sizes)
    opened, seconds, made, kept = ran.out.split()
    print(
        f"{what}: {ran.seconds:.1f} s (of it {float(opened):.1f} s until the index was open, {float(seconds):.1f} s in"
        f" all by its own clock), {ran.peak_mb:,.0f} MB; {made} pages made, {kept} kept",
        flush=True,
    )
    return ran.seconds


def _sizes(out: Path) -> None:
    files = [path for path in out.rglob("*") if path.is_file()]
    data = max((path for path in files if path.suffix in (".json", ".jsonl", ".csv", ".parquet")), key=_size)
    page = max((path for path in files if path.suffix == ".html"), key=_size)
    front = len(gzip.compress((out / "index.html").read_bytes(), 9))
    print(
        f"  {len(files):,} files, {sum(map(_size, files)) / 1e6:.1f} MB; front page {front / 1e3:.0f} kB compressed;"
        f" largest data file {_size(data) / 1e3:,.0f} kB ({data.relative_to(out)}); largest page"
        f" {_size(page) / 1e3:,.0f} kB ({page.relative_to(out)})",
        flush=True,
    )


def _size(path: Path) -> int:
    return path.stat().st_size


def _contents(out: Path) -> dict[str, int]:
    return {str(path.relative_to(out)): hash(path.read_bytes()) for path in out.rglob("*") if path.is_file()}


if __name__ == "__main__":
    main()
