"""The pictures of a hundred classes. Do not modify this file: the judge restores it."""

from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset

MEAN, STD, CLASSES = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761), 100


def normalise(pictures):
    """uint8 pictures (N x 3 x height x width) as the model gets them: float32, in CIFAR-100's mean and spread."""
    scaled = torch.as_tensor(pictures).float() / 255
    return (scaled - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


class CIFAR100Dataset(Dataset):
    """Training or validation pictures with their classes, 0 to 99."""

    def __init__(self, root="data", train=True, transform=None):
        with np.load(Path(root) / ("train.npz" if train else "val.npz")) as file:
            self.pictures, self.labels = file["images"], file["labels"]
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, row):
        picture = torch.from_numpy(self.pictures[row])
        return (self.transform(picture) if self.transform else picture), int(self.labels[row])
