"""Makes the model and the tokens that the agent measures with; the judge draws weights and tokens of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from llama import draw_tokens, draw_weights

from bench.casekit.data import stream, write_npz


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Writes model/weights.npz and data/eval_tokens.npy."""
    weights = draw_weights(stream(seed, "public"))
    rng = np.random.default_rng(stream(seed, "tokens"))
    for folder in ("model", "data"):
        (public / folder).mkdir()
    write_npz(public / "model" / "weights.npz", **weights)
    np.save(public / "data" / "eval_tokens.npy", draw_tokens(rng, 64, 128))
