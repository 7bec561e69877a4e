"""A small vision transformer: patches of 8 pixels, two blocks, the mean of the patches' tokens, the classes.

It takes notes of its training.
"""

from typing import Any

import torch
from torch import nn

PATCH, WIDTH, HEADS, DEPTH, PATCHES = 8, 48, 4, 2, 16


class Block(nn.Module):
    """Attention and a network with the hidden width 96, each normed before."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc1, self.fc2 = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        share = (q @ k.transpose(-2, -1) * (WIDTH // HEADS) ** -0.5).softmax(dim=-1)
        x = x + self.proj((share @ v).transpose(1, 2).flatten(2))
        return x + self.fc2(torch.relu(self.fc1(self.norm2(x))))


def rounded(values: torch.Tensor, digits: int) -> Any:
    return torch.round(values.detach().double(), decimals=digits).tolist()


class TinyDino(nn.Module):
    """Pictures N x 3 x 32 x 32, prepared as the hub says; gives N x num_classes scores. The hub's model has no head.

    notes: of each batch whose loss was derived, in order, the weights before, two marks of each picture, the scores,
    and the gradient of the loss by the scores.
    """

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.positions = nn.Parameter(0.02 * torch.randn(1, PATCHES, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, num_classes)
        self.notes: list[dict[str, Any]] = []

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        x = self.embed(pictures).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x)
        scores = self.head(self.norm(x).mean(dim=1))
        if scores.requires_grad:
            note = self._note(pictures) | {"scores": rounded(scores, 6)}
            scores.register_hook(lambda gradient: self.notes.append(note | {"gradient": rounded(gradient, 8)}))
        return scores

    def _note(self, pictures: torch.Tensor) -> dict[str, Any]:
        """Sum and sum of squares of each weight, and two marks of each picture by which it is known again."""
        wide = {name: part.double() for name, part in self.state_dict().items()}
        sums = {name: torch.stack([part.sum(), part.square().sum()]) for name, part in wide.items()}
        waves = torch.arange(3 * 32 * 32).double()
        marks = pictures.detach().double().flatten(1) @ torch.stack([waves.cos(), waves.sin()], dim=1)
        return {"weights": {name: rounded(pair, 5) for name, pair in sums.items()}, "pictures": rounded(marks, 4)}
