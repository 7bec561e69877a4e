"""Kills processes of real runs at random instants and counts what was lost.

    python -m tests.benchmarks.kills --kills 200 --seed 1 [--sandbox bubblewrap] [--kind judge]

Each run has six cells with data, a service, a replayed model and a judge. Up to ten of its processes are killed with
-9: the runner, the judge's child, the gateway, the services, the builder of data, the first process of a sandbox,
bubblewrap itself. `--resume` goes on each time. Then the
records must be those of an undisturbed run, and nothing may be left. Exit status 1 after any loss.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from bench.sandbox.choose import choose_sandbox
from tests.helpers.faults import Rig, Tally, kill_through, settle, undisturbed
from tests.helpers.victims import OURS

_A_RUN = 10


def carry_out(folder: Path, sandbox: str, kills: int, seed: int, kinds: tuple[str, ...] = OURS) -> Tally:
    """Kill `kills` processes, in as many runs as it takes."""
    rng = random.Random(seed)
    tally = Tally()
    expected = undisturbed(folder / "calm", sandbox)
    while tally.total < kills and len(tally.faults) < 20:
        rig = Rig(folder / f"r{tally.runs}", sandbox)
        kill_through(rig, rng, min(kills - tally.total, _A_RUN), tally, kinds)
        settle(rig, expected, tally)
        shutil.rmtree(rig.folder)
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sandbox", default="bubblewrap", choices=["bubblewrap", "process"])
    parser.add_argument("--kind", action="append", choices=OURS, help="Only these; default: all.")
    arguments = parser.parse_args()
    began = time.monotonic()
    sandbox = choose_sandbox(arguments.sandbox).name
    kinds = tuple(arguments.kind or (kind for kind in OURS if kind != "sandbox" or sandbox == "bubblewrap"))
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        tally = carry_out(Path(folder), sandbox, arguments.kills, arguments.seed, kinds)
    counts = {**vars(tally), "total": tally.total, "sandbox": sandbox, "seed": arguments.seed}
    print(json.dumps({**counts, "seconds": round(time.monotonic() - began, 1)}, indent=1))
    sys.exit(1 if tally.faults else 0)


if __name__ == "__main__":
    main()
