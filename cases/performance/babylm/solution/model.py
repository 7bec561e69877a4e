"""A language model of the last two words and of two fading memories of all words before."""

import torch
from torch import nn
from torch.nn import functional

LONGEST, FADING, SIZE, WIDE = 64, (0.7, 0.95), 48, 128


class Gpt(nn.Module):
    """Scores of the next word, N x length x words."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.last, self.before = nn.Embedding(words, SIZE), nn.Embedding(words, SIZE)
        self.memory = nn.Embedding(words, SIZE * len(FADING))
        self.wide, self.out = nn.Linear(SIZE * (2 + len(FADING)), WIDE), nn.Linear(WIDE, words)
        gap = torch.arange(LONGEST)[:, None] - torch.arange(LONGEST)
        fading = [torch.where(gap >= 0, rate ** gap.clamp(min=0), 0.0) for rate in FADING]
        self.register_buffer("fading", torch.stack(fading), persistent=False)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        length = numbers.shape[1]
        before = functional.pad(numbers, (1, 0))[:, :-1]
        kept = self.memory(numbers).unflatten(2, (len(FADING), SIZE)).transpose(1, 2)
        faded = (self.fading[:, :length, :length] @ kept).transpose(1, 2).flatten(2)
        x = torch.cat([self.last(numbers), self.before(before), 0.3 * faded], dim=2)
        return self.out(functional.gelu(self.wide(x)))
