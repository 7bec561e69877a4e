"""Makes the trial's language: ten sources to learn from, ten to try on, and blocks of hidden text for the judge."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from speech import blocks, files, new_language, vocabulary

from bench.casekit.data import stream, write_npz

LEARN, TRY, BLOCKS, LENGTH = 60_000, 6_000, 64, 64


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Writes babylm_data/ and vocab.txt; the hidden text is of a stream of its own."""
    seen, unseen = (np.random.default_rng(stream(seed, name)) for name in ("public", "hidden"))
    language = new_language(seen)
    made = files(seen, language, "babylm_10M", "train", LEARN) | files(seen, language, "babylm_dev", "dev", TRY)
    made["vocab.txt"] = vocabulary(language)
    for name, content in made.items():
        (public / name).parent.mkdir(parents=True, exist_ok=True)
        (public / name).write_text(content)
    write_npz(hidden / "test.npz", numbers=blocks(unseen, BLOCKS, LENGTH, language), order=language.order)
