"""Collects bundles in which one record is forged, and counts what was admitted and what good records were lost.

    python -m tests.benchmarks.forgeries --bundles 1000 --seed 1 [--sandbox bubblewrap]

An honest run (an idle agent, the oracle, a replayed agent, one without a cassette) is made once. Each bundle is this
run with one record forged: every class in turn, with random values, at times several lies at once. Exit status 1 where
a forged record was admitted, a good one lost, or a refusal does not name its file.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from bench.sandbox.choose import choose_sandbox
from tests.helpers.forgeries import FORGERIES, forge, honest_bundle, refused_alone, same_records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundles", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sandbox", default="auto")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    sandbox = choose_sandbox(arguments.sandbox).name
    counts: Counter[str] = Counter()
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="forgeries-") as folder:
        bundle = honest_bundle(Path(folder), sandbox)
        if not same_records(bundle.collect(), bundle):
            faults.append("the honest bundle was not taken as it is")
        began = time.monotonic()
        names = sorted(FORGERIES)
        for number in range(arguments.bundles):
            name = names[number % len(names)]
            found = refused_alone(bundle, *forge(bundle, name, rng))
            counts.update(fault.partition(":")[0] for fault in found)
            faults += [f"{name}: {fault}" for fault in found]
    result = {
        "bundles": arguments.bundles,
        "classes": len(FORGERIES),
        "admitted": counts["admitted"],
        "good_records_lost": counts["lost"],
        "not_named": counts["not named"],
        "faults": faults[:50],
        "sandbox": sandbox,
        "seed": arguments.seed,
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(result, indent=1))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
