"""Image transforms in plain PyTorch. All but ToTensor take and return a float tensor (channels, height, width)."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch.nn import functional as F


class Compose:
    """One transform after the other."""

    def __init__(self, steps: Sequence[Callable]) -> None:
        self.steps = list(steps)

    def __call__(self, image):
        for step in self.steps:
            image = step(image)
        return image


class ToTensor:
    """A grey uint8 array (height, width) becomes a float tensor (1, height, width) in [0, 1]."""

    def __call__(self, image: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.array(image, dtype=np.float32) / 255).unsqueeze(0)


class Resize:
    """Bilinear, to a square of `size` pixels."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        size = (self.size, self.size)
        return F.interpolate(image.unsqueeze(0), size=size, mode="bilinear", align_corners=False).squeeze(0)


class RandomResizedCrop:
    """Cut out a square with a random share of the area and resize it."""

    def __init__(self, size: int, scale: tuple[float, float]) -> None:
        self.resize, self.scale = Resize(size), scale

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        height, width = image.shape[-2:]
        share = torch.empty(()).uniform_(*self.scale).item()
        side = max(1, round(min(height, width) * math.sqrt(share)))
        top = int(torch.randint(height - side + 1, ()))
        left = int(torch.randint(width - side + 1, ()))
        return self.resize(image[:, top : top + side, left : left + side])


class RandomRotation:
    """Turn around the centre by up to `degrees`; the corners that come in are black."""

    def __init__(self, degrees: float) -> None:
        self.degrees = degrees

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        angle = math.radians(torch.empty(()).uniform_(-self.degrees, self.degrees).item())
        cos, sin = math.cos(angle), math.sin(angle)
        turn = torch.tensor([[[cos, -sin, 0.0], [sin, cos, 0.0]]])
        grid = F.affine_grid(turn, [1, *image.shape], align_corners=False)
        return F.grid_sample(image.unsqueeze(0), grid, align_corners=False).squeeze(0)


class RandomBrightness:
    """Multiply by a random factor near one and keep the range [0, 1]."""

    def __init__(self, spread: float) -> None:
        self.spread = spread

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        factor = torch.empty(()).uniform_(1 - self.spread, 1 + self.spread).item()
        return (image * factor).clamp(0, 1)


class Normalize:
    """Subtract the mean and divide by the standard deviation of each channel."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean = torch.tensor(mean).view(-1, 1, 1)
        self.std = torch.tensor(std).view(-1, 1, 1)

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return (image - self.mean) / self.std
