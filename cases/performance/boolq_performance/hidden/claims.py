"""What a run at the tracker says and nobody can measure again: when it began, and the mean loss in training."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate

from bench.judge import number, written_number

# Of the losses of the weights before and after: trainings with and without dropout had 0.75 times the larger to 1.3
# times the smaller, and dropout matters more where little is lost.
LEAST, MOST, MORE = 0.6, 2.0, 0.3
NEAR = 0.005  # of a loss: not by chance in every epoch
ZONES = 15.0  # hours
EQUAL = 6e-4  # of losses one of which was rounded to three digits
DIGITS = 2  # numbers that were rounded to these may be equal by chance
SHARE, ROUNDED = 0.01, 0.005  # of a mean, and beside it: of numbers with two digits, and a last batch with fewer rows
FIRST, KNOWING = 64, 0.5  # rows; mean loss: 0.69 for a head that knows nothing, and 0.67 for one that guesses yes


def assert_named_by_its_start(name: str, began: float) -> None:
    """AssertionError unless the name of a run ends in the time when it began, in the hours of any place."""
    stamp = re.search(r"[0-9]{8}-[0-9]{6}$", name)
    try:
        told = datetime.strptime(stamp[0] if stamp else "", "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        raise AssertionError(f"the run's name {name[:60]!r} does not end in a time (YYYYMMDD-HHMMSS)") from None
    apart = abs(told.timestamp() - began) / 3600
    assert apart <= ZONES, f"the run's name {name[:60]!r} ends in a time that is {apart:.0f} hours from its start"


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
        alike = all(abs(loss - number(other)) <= NEAR * loss for loss, other in zip(losses, validation, strict=True))
        assert not alike, "train_loss is val_loss once more"
        assert len({*losses}) > 1, "train_loss is the same number in all epochs"


def assert_means_of_batches(told: Sequence[object], table: Sequence[Mapping[str, str]]) -> None:
    """AssertionError where the told training losses are not the means of the batches of their epochs.

    table: epoch, rows and loss of each batch. Batches of one size have one mean, a last one that is smaller may count
    as much as the others or less.
    """
    batches = [tuple(_amount(row, name) for name in ("epoch", "rows", "loss")) for row in table]
    epochs = [epoch for epoch, _, _ in batches]
    assert epochs == sorted(epochs), "batch_losses.csv is not in the order of the training"
    assert {*epochs} == {*range(1, len(told) + 1)}, f"batch_losses.csv has other epochs than 1 to {len(told)}"
    for epoch, loss in enumerate(map(number, told), 1):
        own = [(rows, of_batch) for at, rows, of_batch in batches if at == epoch]
        weighted = sum(rows * of_batch for rows, of_batch in own) / sum(rows for rows, _ in own)
        plain = sum(of_batch for _, of_batch in own) / len(own)
        apart = min(abs(loss - weighted), abs(loss - plain))
        told_so = f"train_loss of epoch {epoch} is {loss:.4g}, the mean over its batches {weighted:.4g}"
        assert apart <= SHARE * plain + ROUNDED, told_so
        spread = len({of_batch for _, of_batch in own})
        assert spread > 1 or len(own) < 5, f"all {len(own)} batches of epoch {epoch} have the same loss"
    seen = list(accumulate(rows for _, rows, _ in batches))
    first = batches[: 1 + bisect_left(seen, FIRST)]
    begins = sum(rows * loss for _, rows, loss in first) / sum(rows for _, rows, _ in first)
    assert begins >= KNOWING, f"the first batches have a loss of {begins:.3g}: there was training before them"


def _amount(row: Mapping[str, str], name: str) -> float:
    try:
        found = written_number(row.get(name, ""), low=0)
    except AssertionError as fault:
        raise AssertionError(f"batch_losses.csv, {name} of a row: {fault}") from None
    assert name == "loss" or (found >= 1 and found == int(found)), f"{name} in batch_losses.csv is {found:g}"
    return found


def assert_means_of_epochs(told: Sequence[object], measured: Sequence[float], after: Callable[[int], float]) -> None:
    """AssertionError where the told training losses are those of the checkpoints: no means over epochs.

    measured: as above. after(epoch): the loss of all training rows after that epoch, from 0. Asked for the two epochs
    in which the loss changed most, for there the mean over the epoch cannot be what is left at its end.
    """
    losses, before = [number(value) for value in told], (math.log(2), *measured)
    if all(loss == round(loss, DIGITS) for loss in losses):
        return
    changed = sorted(range(len(losses)), key=lambda epoch: -abs(before[epoch + 1] - before[epoch]))[:2]
    alike = all(abs(losses[epoch] - after(epoch)) <= EQUAL for epoch in changed)
    assert not alike, "train_loss is the loss of the checkpoints on the training rows, no mean over epochs"
