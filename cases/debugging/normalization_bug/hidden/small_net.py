"""SmallNet in numpy: what weights are worth is measured where no code of the agent runs."""

from __future__ import annotations

from typing import Any

import numpy as np

CLASSES = 10
SIZES = ((3, 12), (12, 24), (24, 32))
NORM = ("weight", "bias", "running_mean", "running_var")


def shapes() -> dict[str, tuple[int, ...]]:
    """Names and shapes of the state dictionary."""
    found: dict[str, tuple[int, ...]] = {}
    for n, (inside, outside) in enumerate(SIZES):
        found[f"features.{3 * n}.weight"] = (outside, inside, 3, 3)
        found |= {f"features.{3 * n + 1}.{name}": (outside,) for name in NORM}
        found[f"features.{3 * n + 1}.num_batches_tracked"] = ()
    return {**found, "classifier.weight": (CLASSES, 512), "classifier.bias": (CLASSES,)}


def logits(weights: dict[str, Any], pictures: Any) -> Any:
    """What SmallNet in evaluation gives pictures (N x 3 x 32 x 32): N x 10, in float64."""
    hidden = pictures.astype(np.float64)
    with np.errstate(all="ignore"):  # an agent's weights may overflow; the caller looks at what comes out
        for n in range(len(SIZES)):
            padded = np.pad(hidden, ((0, 0), (0, 0), (1, 1), (1, 1)))
            windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
            summed = np.einsum("ncyxij,ocij->noyx", windows, weights[f"features.{3 * n}.weight"], optimize=True)
            scale, shift, mean, var = (weights[f"features.{3 * n + 1}.{name}"][:, None, None] for name in NORM)
            hidden = np.maximum((summed - mean) / np.sqrt(var + 1e-5) * scale + shift, 0)
        return hidden.reshape(len(hidden), -1) @ weights["classifier.weight"].T + weights["classifier.bias"]
