"""What happens after each epoch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from lightloop.trainer import Trainer


class Callback:
    def on_epoch_end(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        """metrics: what the module logged in this epoch, training and validation."""


class EarlyStopping(Callback):
    """Stops the training when `monitor` has not fallen for `patience` epochs."""

    def __init__(self, monitor: str, patience: int = 3) -> None:
        self.monitor, self.patience = monitor, patience
        self.best, self.waited = float("inf"), 0

    def on_epoch_end(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        if self.monitor not in metrics:
            raise RuntimeError(f"EarlyStopping: {self.monitor} was not logged, there are {sorted(metrics)}")
        self.waited = 0 if metrics[self.monitor] < self.best else self.waited + 1
        self.best = min(self.best, metrics[self.monitor])
        trainer.should_stop = self.waited >= self.patience


class ModelCheckpoint(Callback):
    """Saves every epoch. filename: a template such as "net-{epoch:02d}-{val_loss:.2f}"; names stand before values."""

    def __init__(self, folder: str, filename: str) -> None:
        self.folder, self.filename = Path(folder), filename

    def on_epoch_end(self, trainer: Trainer, metrics: dict[str, float]) -> None:
        template = self.filename
        for name in ("epoch", *metrics):
            template = template.replace("{" + name + ":", name + "={" + name + ":")
        self.folder.mkdir(parents=True, exist_ok=True)
        state = {"epoch": trainer.epoch, "global_step": trainer.global_step, "metrics": metrics}
        state["state_dict"] = trainer.module.state_dict()
        torch.save(state, self.folder / f"{template.format(epoch=trainer.epoch, **metrics)}.ckpt")
