"""The multi-scale quantiser: a picture's features are a sum of maps of tokens, from coarse to fine."""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F


class MultiScaleQuantizer(nn.Module):
    """A table of `vocab_size` vectors, and a blending convolution for each scale."""

    def __init__(self, vocab_size: int, z_channels: int, patch_nums: Sequence[int]) -> None:
        super().__init__()
        self.patch_nums = tuple(patch_nums)
        self.embedding = nn.Embedding(vocab_size, z_channels)
        self.blend = nn.ModuleList([nn.Conv2d(z_channels, z_channels, 3, padding=1) for _ in patch_nums])

    def _enlarged(self, step: int, h: torch.Tensor) -> torch.Tensor:
        side = self.patch_nums[-1]
        if h.shape[-1] != side:
            h = F.interpolate(h, size=(side, side), mode="bicubic")
        return 0.5 * h + 0.5 * self.blend[step](h)

    def get_next_autoregressive_input(
        self, step: int, steps: int, f_hat: torch.Tensor, h: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Add the map `h` (B, z, p, p) of scale `step` to the sum f_hat (B, z, P, P).

        Returns the new sum, and the input map of the next scale, (B, z, q, q), which after the last is the sum itself.
        """
        f_hat = f_hat + self._enlarged(step, h)
        if step == steps - 1:
            return f_hat, f_hat
        side = self.patch_nums[step + 1]
        return f_hat, F.interpolate(f_hat, size=(side, side), mode="area")

    def tokens(self, features: torch.Tensor) -> list[torch.Tensor]:
        """The tokens of each scale, (B, p * p), for features (B, z, P, P)."""
        rest, found = features.clone(), []
        for step, side in enumerate(self.patch_nums):
            small = F.interpolate(rest, size=(side, side), mode="area").flatten(2).transpose(1, 2)
            found.append(torch.cdist(small, self.embedding.weight[None]).argmin(dim=-1))
            h = self.embedding(found[-1]).transpose(1, 2).unflatten(2, (side, side))
            rest = rest - self._enlarged(step, h)
        return found

    def teacher_tokens(self, tokens: list[torch.Tensor]) -> torch.Tensor:
        """What forward of the transformer gets for these tokens: (B, L - p_1 * p_1, z), all scales but the first."""
        steps, side = len(self.patch_nums), self.patch_nums[-1]
        f_hat = self.embedding.weight.new_zeros(len(tokens[0]), self.embedding.embedding_dim, side, side)
        found = []
        for step in range(steps - 1):
            p = self.patch_nums[step]
            h = self.embedding(tokens[step]).transpose(1, 2).unflatten(2, (p, p))
            f_hat, following = self.get_next_autoregressive_input(step, steps, f_hat, h)
            found.append(following.flatten(2).transpose(1, 2))
        return torch.cat(found, dim=1)
