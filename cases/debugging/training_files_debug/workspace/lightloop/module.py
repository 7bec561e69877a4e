"""What a user's model derives from."""

from typing import Any

import torch
from torch import nn


class Module(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self._sums: dict[str, tuple[float, float]] = {}

    def log(self, name: str, value: torch.Tensor | float, batch_size: int = 1) -> None:
        """Note a value; the epoch's mean is weighted by batch_size."""
        total, weight = self._sums.get(name, (0.0, 0.0))
        self._sums[name] = (total + float(value) * batch_size, weight + batch_size)

    def take_logged(self) -> dict[str, float]:
        """The means since the last call. For the Trainer."""
        means = {name: total / weight for name, (total, weight) in self._sums.items()}
        self._sums.clear()
        return means

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        """The loss of a batch."""
        raise NotImplementedError

    def validation_step(self, batch: Any, number: int) -> None:
        """Log what is measured on a batch."""

    def on_validation_epoch_end(self) -> None:
        """Called after the last batch of a validation."""

    def configure_optimizers(self) -> torch.optim.Optimizer:
        raise NotImplementedError
