"""What a user's data derived from in version 1."""

from collections.abc import Iterable
from typing import Any


class LightloopDataModule:
    def setup(self, stage: str | None = None) -> None:
        """Read and split the data."""

    def train_dataloader(self) -> Iterable[Any]:
        raise NotImplementedError

    def val_dataloader(self) -> Iterable[Any]:
        raise NotImplementedError
