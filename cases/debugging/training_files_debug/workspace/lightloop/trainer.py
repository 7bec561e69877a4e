"""The loop."""

import logging
from collections.abc import Sequence

import torch

from lightloop.callbacks import Callback
from lightloop.data import DataModule
from lightloop.loggers import TrackerLogger
from lightloop.module import Module

log = logging.getLogger("lightloop")


class Trainer:
    def __init__(self, max_epochs: int, logger: TrackerLogger, callbacks: Sequence[Callback] = ()) -> None:
        self.max_epochs, self.logger, self.callbacks = max_epochs, logger, callbacks
        self.epoch, self.global_step, self.should_stop = 0, 0, False
        self.module: Module

    def fit(self, module: Module, data: DataModule) -> None:
        if not isinstance(module, Module):
            raise TypeError(f"`module` must be a `lightloop.Module`, got `{type(module).__qualname__}`")
        if not isinstance(data, DataModule):
            raise TypeError(f"`data` must be a `lightloop.DataModule`, got `{type(data).__qualname__}`")
        self.module = module
        data.setup("fit")
        optimizer = module.configure_optimizers()
        for self.epoch in range(self.max_epochs):
            self._train(module, data, optimizer)
            self._validate(module, data)
            metrics = module.take_logged()
            values = ", ".join(f"{name}={value:.4f}" for name, value in sorted(metrics.items()))
            log.info("epoch %d, step %d: %s", self.epoch, self.global_step, values)
            self.logger.log(metrics, self.epoch, self.global_step)
            for callback in self.callbacks:
                callback.on_epoch_end(self, metrics)
            if self.should_stop:
                break
        self.logger.finish()

    def _train(self, module: Module, data: DataModule, optimizer: torch.optim.Optimizer) -> None:
        module.train()
        for number, batch in enumerate(data.train_dataloader()):
            optimizer.zero_grad()
            module.training_step(batch, number).backward()
            optimizer.step()
            self.global_step += 1

    def _validate(self, module: Module, data: DataModule) -> None:
        module.eval()
        with torch.no_grad():
            for number, batch in enumerate(data.val_dataloader()):
                module.validation_step(batch, number)
            module.on_validation_epoch_end()
