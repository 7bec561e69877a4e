"""CIFAR-10 in its binary layout: a part for training, which is augmented, and a part for validation, which is not."""

from pathlib import Path

import numpy as np
import torch
from lightloop import DataModule
from torch.utils.data import DataLoader, Dataset, Subset

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
PADDING, SPLIT_SEED, VALIDATION_SHARE = 4, 42, 0.2


def normalised(picture: torch.Tensor) -> torch.Tensor:
    """Bytes 3 x 32 x 32 to floats with CIFAR-10's mean and deviation by channel."""
    mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in (MEAN, STD))
    return (picture / 255 - mean) / std


class Plain:
    """For validation."""

    def __call__(self, picture: torch.Tensor) -> torch.Tensor:
        return normalised(picture)


class Augmented:
    """For training: a crop out of the picture with black edges of 4 pixels, and half of the time a flip."""

    def __call__(self, picture: torch.Tensor) -> torch.Tensor:
        side = picture.shape[1]
        padded = torch.nn.functional.pad(picture, [PADDING] * 4)
        top, left = torch.randint(0, 2 * PADDING + 1, (2,)).tolist()
        picture = padded[:, top : top + side, left : left + side]
        if torch.rand(()) < 0.5:
            picture = picture.flip(2)
        return normalised(picture)


class Pictures(Dataset[tuple[torch.Tensor, int]]):
    """All records of the training files. A record is a byte for the class and 3,072 for the pixels, plane by plane."""

    def __init__(self, folder: Path, transform: Plain | Augmented) -> None:
        files = sorted(folder.glob("data_batch_*.bin"))
        records = np.concatenate([np.fromfile(path, np.uint8).reshape(-1, 3073) for path in files])
        self.labels = records[:, 0].astype(int)
        self.pictures = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).copy())
        self.transform = transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        return self.transform(self.pictures[row]), int(self.labels[row])


class CIFAR10DataModule(DataModule):
    """A fifth of the records, drawn by a fixed seed, is for validation."""

    def __init__(self, data_dir: str = "data", batch_size: int = 32) -> None:
        super().__init__()
        self.folder, self.batch_size = Path(data_dir) / "cifar-10-batches-bin", batch_size

    def setup(self, stage: str) -> None:
        augmented, plain = Pictures(self.folder, Augmented()), Pictures(self.folder, Plain())
        order = np.random.default_rng(SPLIT_SEED).permutation(len(plain)).tolist()
        count = int(VALIDATION_SHARE * len(plain))
        self.validation, self.training = Subset(plain, order[:count]), Subset(augmented, order[count:])

    def train_dataloader(self) -> DataLoader[tuple[torch.Tensor, int]]:
        return DataLoader(self.training, batch_size=self.batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader[tuple[torch.Tensor, int]]:
        return DataLoader(self.validation, batch_size=self.batch_size)
