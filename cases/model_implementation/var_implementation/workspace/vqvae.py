"""The picture autoencoder with its quantiser."""

from collections.abc import Sequence

import torch
from torch import nn

from basic_vae import Decoder, Encoder
from quant import MultiScaleQuantizer


class VQVAE(nn.Module):
    """Between pictures in [-1, 1], features f_hat (B, z, P, P) and tokens; P is the side of the last scale."""

    def __init__(
        self, vocab_size: int = 64, z_channels: int = 8, channels: int = 16, patch_nums: Sequence[int] = (1, 2, 4)
    ) -> None:
        super().__init__()
        self.vocab_size, self.z_channels, self.patch_nums = vocab_size, z_channels, tuple(patch_nums)
        self.encoder = Encoder(channels, z_channels)
        self.decoder = Decoder(channels, z_channels)
        self.quantize = MultiScaleQuantizer(vocab_size, z_channels, patch_nums)

    def fhat_to_img(self, f_hat: torch.Tensor) -> torch.Tensor:
        """Pictures in [-1, 1]."""
        return self.decoder(f_hat).clamp(-1, 1)

    def img_to_tokens(self, pictures: torch.Tensor) -> list[torch.Tensor]:
        return self.quantize.tokens(self.encoder(pictures))
