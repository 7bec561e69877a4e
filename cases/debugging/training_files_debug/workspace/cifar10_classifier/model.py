"""A small convolutional classifier."""

from typing import Any

import torch
from pytorch_lightloop import LightloopModule
from torch import nn
from torch.nn import functional as F


class CIFAR10Classifier(LightloopModule):
    """Patches of 4 x 4 pixels through two layers, their mean, and a linear layer."""

    def __init__(self, learning_rate: float = 1e-3) -> None:
        super().__init__()
        self.learning_rate = learning_rate
        self.embed = nn.Conv2d(3, 24, kernel_size=4, stride=4)
        self.mix = nn.Conv2d(24, 48, kernel_size=1)
        self.head = nn.Linear(48, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.relu(self.mix(F.relu(self.embed(x)))).mean(dim=(2, 3)))

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], number: int) -> torch.Tensor:
        pictures, labels = batch
        loss = F.cross_entropy(self(pictures), labels)
        self.log("train_loss", loss.detach())
        return loss

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], number: int) -> dict[str, Any]:
        pictures, labels = batch
        logits = self(pictures)
        loss = F.cross_entropy(logits, labels, reduction="sum")
        return {"loss": loss, "right": (logits.argmax(dim=1) == labels).sum(), "count": len(labels)}

    def validation_epoch_end(self, outputs: list[dict[str, Any]]) -> None:
        """Log the mean loss and the accuracy over all validation pictures."""
        count = sum(output["count"] for output in outputs)
        self.log("val_loss", sum(output["loss"] for output in outputs) / count)
        self.log("val_acc", sum(output["right"] for output in outputs) / count)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.learning_rate)
