"""A small GPT: a decoder of the words before a place, with learned places."""

import torch
from torch import nn
from torch.nn import functional


class Layer(nn.Module):
    """Attention to what came before, then two linear layers, each behind a norm and with a shortcut."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(size), nn.LayerNorm(size)])
        self.mix, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.wide, self.narrow = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.mix(self.norms[0](x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.narrow(functional.gelu(self.wide(self.norms[1](x))))


class Gpt(nn.Module):
    """Scores of the next word, N x length x words."""

    def __init__(self, words: int, length: int = 64, size: int = 48, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, size), nn.Embedding(length, size)
        self.layers = nn.ModuleList([Layer(size, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(size)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        x = self.words(numbers) + self.places(torch.arange(numbers.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.words.weight.T
