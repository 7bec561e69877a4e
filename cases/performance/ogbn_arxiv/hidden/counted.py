"""Runs train.py as `python train.py` does, and writes into counted.json how many labels its training went through.

A label counts when the gradient of a loss of torch that it is in is worked out. What this process writes is a claim:
a training loop with a loss of its own making is not seen.
"""

import functools
import json
import runpy
from typing import Any

import torch
from torch.nn import functional as F

seen = {"labels": 0}


def counting(loss: Any) -> Any:
    """The loss function, with a note of its labels for each time that it is derived."""

    @functools.wraps(loss)
    def counted(scores: torch.Tensor, target: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        value: torch.Tensor = loss(scores, target, *args, **options)
        whole = not target.is_floating_point()
        labels = int((target >= 0).sum()) if whole else len(target)

        def note(_: torch.Tensor) -> None:
            seen["labels"] += labels

        if value.requires_grad:
            value.register_hook(note)
        return value

    return counted


for name in ("cross_entropy", "nll_loss"):
    setattr(F, name, counting(getattr(F, name)))
try:
    runpy.run_path("train.py", run_name="__main__")
finally:
    with open("counted.json", "w") as file:
        json.dump(seen, file)
