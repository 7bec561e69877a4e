"""Runs the reference network inside the subject. It sees pictures, never labels."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Reference(nn.Module):
    """The judge's own copy of SmallCNN: the agent's model.py is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.conv3 = nn.Conv2d(32, 64, 3, padding=1)
        self.conv4 = nn.Conv2d(64, 64, 3, padding=1)
        self.head = nn.Linear(64, 10)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        hidden = pictures
        for layer in (self.conv1, self.conv2, self.conv3):
            hidden = nn.functional.max_pool2d(torch.relu(layer(hidden)), 2)
        scores: torch.Tensor = self.head(torch.relu(self.conv4(hidden)).mean(dim=(2, 3)))
        return scores


def predict(weights: dict[str, Any], pictures: Any) -> torch.Tensor:
    """The class of each picture, as int64."""
    torch.set_num_threads(1)
    model = Reference()
    model.load_state_dict({name: torch.as_tensor(value) for name, value in weights.items()})
    with torch.inference_mode():
        parts = torch.split(torch.as_tensor(pictures), 500)
        return torch.cat([model(part.float() / 127.5 - 1.0).argmax(1) for part in parts])
