"""What a user's model derived from in version 1."""

from typing import Any

import torch
from torch import nn


class LightloopModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.logged: dict[str, float] = {}

    def log(self, name: str, value: torch.Tensor | float) -> None:
        """Note a value; the last one of an epoch is reported."""
        self.logged[name] = float(value)

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        """The loss of a batch."""
        raise NotImplementedError

    def validation_step(self, batch: Any, number: int) -> Any:
        """What is gathered for validation_epoch_end."""

    def validation_epoch_end(self, outputs: list[Any]) -> None:
        """Called after the last batch, with what validation_step returned for each."""

    def configure_optimizers(self) -> Any:
        raise NotImplementedError
