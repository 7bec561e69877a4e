"""The network. Its architecture is fixed: parameter names and shapes must stay as they are."""

import torch
from torch import nn

CLASSES = 10
CHANNELS = (16, 32, 64, 64)


class SmallCNN(nn.Module):
    """Four convolutions, three poolings, the mean over the picture, one linear layer; no batch normalisation."""

    def __init__(self) -> None:
        super().__init__()
        one, two, three, four = CHANNELS
        self.conv1 = nn.Conv2d(3, one, 3, padding=1)
        self.conv2 = nn.Conv2d(one, two, 3, padding=1)
        self.conv3 = nn.Conv2d(two, three, 3, padding=1)
        self.conv4 = nn.Conv2d(three, four, 3, padding=1)
        self.head = nn.Linear(four, CLASSES)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Takes N x 3 x 24 x 24 prepared pictures and gives N x 10 scores."""
        hidden = pictures
        for layer in (self.conv1, self.conv2, self.conv3):
            hidden = nn.functional.max_pool2d(torch.relu(layer(hidden)), 2)
        hidden = torch.relu(self.conv4(hidden))
        return self.head(hidden.mean(dim=(2, 3)))


def prepare(pictures: torch.Tensor) -> torch.Tensor:
    """Turns uint8 pictures into what the network takes. The judge prepares its pictures in just this way."""
    return pictures.float() / 127.5 - 1.0
