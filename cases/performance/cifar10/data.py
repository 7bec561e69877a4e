"""Makes data/cifar-10-batches-bin in the original's binary form; the test labels stay with the judge."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from waves import CLASSES, NAMES, balanced, paint

from bench.casekit.data import stream, write_npz

BATCHES, EACH, TEST = 5, 600, 1000


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Writes five training batches, a test batch without labels, and batches.meta.txt; hidden/answers.npz."""
    seen, unseen = (np.random.default_rng(stream(seed, name)) for name in ("public", "hidden"))
    folder = public / "data" / "cifar-10-batches-bin"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, BATCHES + 1):
        labels = balanced(seen, EACH)
        rows = np.column_stack([labels.astype(np.uint8), paint(seen, labels).reshape(EACH, -1)])
        (folder / f"data_batch_{number}.bin").write_bytes(rows.tobytes())
    labels = balanced(unseen, TEST)
    (folder / "test_batch.bin").write_bytes(paint(unseen, labels).tobytes())
    (folder / "batches.meta.txt").write_text("".join(f"{name}\n" for name in NAMES))
    assert len(NAMES) == CLASSES
    write_npz(hidden / "answers.npz", labels=labels)
