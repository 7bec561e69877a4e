"""Makes train/ and test/, a folder for each scene; the masks of the test scenes stay with the judge."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sky import Scene, scenes

from bench.casekit.data import stream, write_npz

TRAIN, TEST = 120, 80


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Draws the scenes of one direction of contrast; those of the judge's run are drawn by check.py."""
    seen, unseen = (np.random.default_rng(stream(seed, name)) for name in ("public", "hidden"))
    asked = scenes(unseen, TEST)
    for part, drawn, labelled in (("train", scenes(seen, TRAIN), True), ("test", asked, False)):
        for scene in drawn:
            _write(public / part, scene, labelled)
    write_npz(
        hidden / "answers.npz", ids=np.array([it.name for it in asked]), masks=np.stack([it.mask for it in asked])
    )


def _write(folder: Path, scene: Scene, labelled: bool) -> None:
    for name, content in scene.files(labelled):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
