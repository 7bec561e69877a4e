"""What a user's data derives from."""

from collections.abc import Iterable
from typing import Any


class DataModule:
    def setup(self, stage: str) -> None:
        """Read and split the data."""

    def train_dataloader(self) -> Iterable[Any]:
        raise NotImplementedError

    def val_dataloader(self) -> Iterable[Any]:
        raise NotImplementedError
