"""Cuts pictures into patches and makes a token of each."""

import torch
from torch import nn
from torch.nn import functional as F

Size = int | tuple[int, int]


def make_2tuple(size: Size) -> tuple[int, int]:
    """Height and width."""
    if isinstance(size, tuple):
        return size
    return (size, size)


class PatchEmbed(nn.Module):
    """(B, C, H, W) to (B, N, D): a convolution whose kernel and stride are the patch size.

    Sizes are whole numbers or pairs of height and width.
    """

    def __init__(
        self,
        img_size: Size = 224,
        patch_size: Size = 16,
        in_chans: int = 3,
        embed_dim: int = 768,
    ) -> None:
        super().__init__()
        self.img_size = make_2tuple(img_size)
        self.patch_size = make_2tuple(patch_size)
        self.patches_resolution = (
            self.img_size[0] // self.patch_size[0],
            self.img_size[1] // self.patch_size[1],
        )
        self.num_patches = self.patches_resolution[0] * self.patches_resolution[1]
        self.proj = nn.Conv2d(in_chans, embed_dim, kernel_size=self.patch_size, stride=self.patch_size)

    def kernel(self, patch_size: tuple[int, int]) -> torch.Tensor:
        """The learned kernel for patches of another size: resampled, and scaled so that tokens keep their size."""
        if patch_size == self.patch_size:
            return self.proj.weight
        shrunk = self.patch_size[0] * self.patch_size[1] / (patch_size[0] * patch_size[1])
        return shrunk * F.interpolate(self.proj.weight, size=patch_size, mode="bicubic", align_corners=False)

    def forward(self, x: torch.Tensor, patch_size: Size | None = None) -> torch.Tensor:
        height, width = x.shape[2:]
        size = self.patch_size if patch_size is None else make_2tuple(patch_size)
        if height % size[0] or width % size[1]:
            raise ValueError(f"a picture of {height} x {width} cannot be cut into patches of {size}")
        return F.conv2d(x, self.kernel(size), self.proj.bias, stride=size).flatten(2).transpose(1, 2)
