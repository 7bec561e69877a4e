"""Makes data/cifar-10-batches-py in the original's pickled form; the test labels stay with the judge."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from waves import CLASSES, NAMES, Bytes, balanced, paint

from bench.casekit.data import stream, write_npz

BATCHES, EACH, TEST = 5, 600, 1000


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Writes five training batches, a test batch without labels, and batches.meta; hidden/answers.npz for the judge."""
    seen, unseen = (np.random.default_rng(stream(seed, name)) for name in ("public", "hidden"))
    folder = public / "data" / "cifar-10-batches-py"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, BATCHES + 1):
        labels = balanced(seen, EACH)
        note = f"training batch {number} of {BATCHES}"
        _write(folder / f"data_batch_{number}", _batch(note, paint(seen, labels)) | {b"labels": labels.tolist()})
    labels = balanced(unseen, TEST)
    _write(folder / "test_batch", _batch("testing batch 1 of 1", paint(unseen, labels)))
    names = [name.encode() for name in NAMES]
    _write(folder / "batches.meta", {b"label_names": names, b"num_cases_per_batch": EACH, b"num_vis": 3072})
    assert len(NAMES) == CLASSES
    write_npz(hidden / "answers.npz", labels=labels)


def _batch(note: str, pictures: Bytes) -> dict[bytes, Any]:
    names = [f"picture_{row:04d}.png".encode() for row in range(len(pictures))]
    return {b"batch_label": note.encode(), b"data": pictures.reshape(len(pictures), -1), b"filenames": names}


def _write(path: Path, content: dict[bytes, Any]) -> None:
    path.write_bytes(pickle.dumps(content, protocol=2))
