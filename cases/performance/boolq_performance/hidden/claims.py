"""What a run at the tracker says and nobody can measure again: when it began, and the mean loss in training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

from bench.judge import number

# Of the losses of the weights before and after: trainings with and without dropout had 0.75 times the larger to 1.3
# times the smaller, and dropout matters more where little is lost.
LEAST, MOST, MORE = 0.6, 2.0, 0.3
DIGITS = 2  # numbers that were rounded to these may be equal by chance


def is_time(text: str) -> bool:
    """Whether it is a day and a time, as YYYYMMDD-HHMMSS."""
    try:
        return bool(datetime.strptime(text, "%Y%m%d-%H%M%S"))
    except ValueError:
        return False


def assert_training_losses(told: Sequence[object], validation: Sequence[object], measured: Sequence[float]) -> None:
    """AssertionError where a told training loss is not near the training rows' loss with the weights around it.

    All are one an epoch. measured: the loss of the training rows after the epoch; before the first one it is that of a
    head that knows nothing.
    """
    losses, before = [number(value, low=0) for value in told], math.log(2)
    for epoch, (loss, after) in enumerate(zip(losses, measured, strict=True), 1):
        low, high = min(before, after) * LEAST, max(before, after) * MOST + MORE
        assert low <= loss <= high, f"train_loss of epoch {epoch} is {loss:.4g}, wanted {low:.3f} to {high:.3f}"
        before = after
    if any(loss != round(loss, DIGITS) for loss in losses):
        assert losses != list(validation), "train_loss is val_loss once more"
        assert len({*losses}) > 1, "train_loss is the same number in all epochs"
