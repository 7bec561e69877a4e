"""The network. Its architecture is fixed: parameter names and shapes must stay as they are."""

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

CLASSES = 21


class SmallFCN(nn.Module):
    """Four convolutions, two poolings, a classifier at every fourth pixel, whose scores are interpolated."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 24, 3, padding=1)
        self.conv2 = nn.Conv2d(24, 48, 3, padding=1)
        self.conv3 = nn.Conv2d(48, 64, 3, padding=1)
        self.conv4 = nn.Conv2d(64, 64, 3, padding=2, dilation=2)
        self.classifier = nn.Conv2d(64, CLASSES, 1)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Takes N x 3 x 40 x 40 prepared pictures and gives N x 21 x 40 x 40 scores."""
        hidden = functional.max_pool2d(torch.relu(self.conv1(pictures)), 2)
        hidden = functional.max_pool2d(torch.relu(self.conv2(hidden)), 2)
        hidden = torch.relu(self.conv4(torch.relu(self.conv3(hidden))))
        size = pictures.shape[-2:]
        return functional.interpolate(self.classifier(hidden), size=size, mode="bilinear", align_corners=False)


def prepare(pictures: torch.Tensor) -> torch.Tensor:
    """Turns uint8 pictures into what the network takes. The judge prepares its pictures in just this way."""
    return pictures.float() / 127.5 - 1.0


def load_pretrained(path: str = "pretrained.safetensors") -> SmallFCN:
    """The network with the weights of a file."""
    model = SmallFCN()
    model.load_state_dict(load_file(path))
    return model
