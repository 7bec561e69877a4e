"""The network: the given backbone and a linear head, on several views of a picture."""

import sys

import torch
from cifar100 import CLASSES, MEAN, STD
from torch import nn

sys.path.insert(0, "models/backbone")
from backbone import load_backbone

BEST, SHIFT = "best_checkpoint/model.pt", 2


def views(pictures):
    """The pictures and their mirror images, each in four places."""
    wide = nn.functional.pad(pictures, (SHIFT,) * 4, mode="replicate")
    side = pictures.shape[-1]
    places = (SHIFT - 1, SHIFT + 1)
    return [
        seen[:, :, top : top + side, left : left + side]
        for seen in (wide, wide.flip(3))
        for top in places
        for left in places
    ]


class Classifier(nn.Module):
    def __init__(self, classes=CLASSES):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 24, 3, padding=1)
        self.conv2 = nn.Conv2d(24, 48, 3, padding=1)
        self.conv3 = nn.Conv2d(48, 96, 3, padding=1)
        self.register_buffer("mean", torch.zeros(96))
        self.register_buffer("spread", torch.ones(96))
        self.head = nn.Linear(96, classes)
        weights = {name: torch.from_numpy(part) for name, part in load_backbone().items()}
        self.load_state_dict(weights, strict=False)

    def features(self, pictures):
        """Of normalised pictures: the backbone was trained on values from -1 to 1."""
        mean, std = (torch.tensor(part).view(3, 1, 1) for part in (MEAN, STD))
        hidden = (pictures * std + mean) * 2 - 1
        for layer in (self.conv1, self.conv2):
            hidden = nn.functional.max_pool2d(torch.relu(layer(hidden)), 2)
        return torch.relu(self.conv3(hidden)).mean((2, 3))

    def forward(self, pictures):
        """The logits of a picture in training, and their mean over its views in evaluation."""
        seen = [pictures] if self.training else views(pictures)
        found = [self.head((self.features(view) - self.mean) / self.spread) for view in seen]
        return {"logits": sum(found) / len(found)}


def get_best_model():
    model = Classifier()
    model.load_state_dict(torch.load(BEST, weights_only=True)["model_state_dict"])
    return model.eval()
