"""Makes the trial's language: the pretrained model with its words, train.csv with labels and test.csv without."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from reviews import as_csv, draw, model_files, new_language, texts

from bench.casekit.data import stream, write_npz

TRAIN, TEST = 1200, 1000


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Writes models/distilbert, train.csv and test.csv; numbers, labels and language stay with the judge."""
    seen, unseen = (np.random.default_rng(stream(seed, name)) for name in ("public", "hidden"))
    language = new_language(seen)
    folder = public / "models" / "distilbert"
    folder.mkdir(parents=True)
    for name, content in model_files(hidden / "assets" / "tiny_distilbert", language).items():
        (folder / name).write_bytes(content)
    train, test, idx = draw(seen, TRAIN), draw(unseen, TEST), seen.permutation(TEST)
    (public / "train.csv").write_text(as_csv({"text": texts(train, language), "label": train.labels.tolist()}))
    (public / "test.csv").write_text(as_csv({"idx": idx.tolist(), "text": texts(test, language)}))
    write_npz(
        hidden / "answers.npz", idx=idx, ids=language.order[test.ids], labels=test.labels,
        known_ids=language.order[train.ids], known_labels=train.labels,
        order=language.order,
    )  # fmt: skip
