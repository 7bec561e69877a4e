"""The archive as it was published, and what is wrong with each path to it."""

import json
import random
from pathlib import Path

from bench.casekit.data import stream, write_tar

PATHS = ["north", "south", "east", "west", "upper", "lower"]
BODIES = ["page", "compress", "zip"]  # of what is no archive
CHANGED = ["header", "middle"]  # where the bytes are that are not as published; with the first it can be unpacked
CAUSES = ["not_found", "forbidden", "busy", "not_an_archive", "truncated", "checksum_mismatch"]


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Each cause once, at a drawn path; two of the paths that are not busy for good are so at first."""
    rng = random.Random(stream(seed, "hidden"))
    files = {f"pebbles-1.0/{split}.csv": table(rng, rows) for split, rows in (("train", 400), ("test", 100))}
    write_tar(hidden / "pebbles-1.0.tgz", files)
    causes = dict(zip(PATHS, rng.sample(CAUSES, len(CAUSES)), strict=True))
    # One whose answer is an error and one whose answer is a file: a first 503 hides both kinds.
    late = [rng.choice([path for path in PATHS if causes[path] in kinds]) for kinds in (CAUSES[:2], CAUSES[3:])]
    facts: dict[str, dict[str, str | int]] = {
        path: {"cause": causes[path], "busy": rng.randint(2, 3) if path in late else 0} for path in PATHS
    }
    for cause, kinds in ((CAUSES[3], BODIES), (CAUSES[5], CHANGED)):
        next(fact for fact in facts.values() if fact["cause"] == cause)["kind"] = rng.choice(kinds)
    (hidden / "faults.json").write_text(json.dumps(facts, sort_keys=True))


def table(rng: random.Random, rows: int) -> bytes:
    lines = [
        f"{rng.gauss(40, 9):.2f},{rng.gauss(3, 1):.3f},{rng.choice(['flint', 'chalk', 'slate'])}" for _ in range(rows)
    ]
    return "\n".join(["length_mm,weight_g,kind", *lines, ""]).encode()
