"""Agents that try to have their cells lost, and providers that are really down; prints how each of them ended.

    python -m tests.benchmarks.lost --tries 200 --outages 20 --seed 1 [--sandbox bubblewrap]

Each try is a real cell whose agent goes one of the ways of `tests/helpers/lost_ways.py`, drawn at random. Exit
status 1 when one of them is `infra`, or when one of the outages is not.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from bench.formats.record import Record
from bench.sandbox.choose import choose_sandbox
from tests.helpers.lost import meet_outage, try_way
from tests.helpers.lost_ways import OUTAGES, WAYS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=200)
    parser.add_argument("--outages", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sandbox", default="bubblewrap", choices=["bubblewrap", "docker", "process"])
    arguments = parser.parse_args()
    rng, began = random.Random(arguments.seed), time.monotonic()
    sandbox = choose_sandbox(arguments.sandbox)
    ways = [name for name, way in WAYS.items() if sandbox.isolated or not way.needs]
    ended: dict[str, Counter[str]] = {"tries": Counter(), "outages": Counter()}
    wrong: list[str] = []

    def count(kind: str, name: str, record: Record, right: str) -> None:
        ended[kind][record.outcome] += 1
        if record.outcome != right or (right == "graded" and record.tries):
            wrong.append(f"{name}: {record.outcome} {record.cause} {record.error[:200]}")

    with tempfile.TemporaryDirectory(prefix="lost-") as place:
        folder = Path(place) / "cell"
        for _ in range(arguments.tries):
            name = rng.choice(ways)
            count("tries", name, try_way(folder, sandbox, WAYS[name]), "graded")
            shutil.rmtree(folder)
        names = [*OUTAGES] * (arguments.outages // len(OUTAGES) + 1)
        for name in names[: arguments.outages]:
            count("outages", name, meet_outage(folder, sandbox, OUTAGES[name]), "infra")
            shutil.rmtree(folder)
    counts = {kind: dict(found) for kind, found in ended.items()}
    seconds = round(time.monotonic() - began, 1)
    print(json.dumps({**counts, "ways": len(ways), "wrong": wrong, "seconds": seconds}, indent=1))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
