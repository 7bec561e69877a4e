"""The loop of version 1."""

import torch

from pytorch_lightloop.data import LightloopDataModule
from pytorch_lightloop.module import LightloopModule


class Trainer:
    def __init__(self, max_epochs: int) -> None:
        self.max_epochs = max_epochs

    def fit(self, module: LightloopModule, data: LightloopDataModule) -> None:
        data.setup()
        optimizer = module.configure_optimizers()
        for epoch in range(self.max_epochs):
            module.train()
            for number, batch in enumerate(data.train_dataloader()):
                optimizer.zero_grad()
                module.training_step(batch, number).backward()
                optimizer.step()
            module.eval()
            with torch.no_grad():
                outputs = [module.validation_step(batch, number) for number, batch in enumerate(data.val_dataloader())]
                module.validation_epoch_end(outputs)
            print(f"epoch {epoch}: {module.logged}")
