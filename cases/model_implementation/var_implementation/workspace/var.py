"""A transformer that makes pictures scale by scale: all tokens of a scale at once, from coarse to fine."""

from collections.abc import Sequence

import torch
from torch import nn

from basic_var import AdaLNBeforeHead, AdaLNBlock, SharedAdaLin
from helpers import gumbel_softmax, sample_top_k_top_p_  # noqa: F401
from vqvae import VQVAE


class VAR(nn.Module):
    """B pictures, L tokens in all scales, C the width, V the vocabulary, z the channels of a token's vector."""

    def __init__(
        self,
        vae: VQVAE,
        num_classes: int = 10,
        depth: int = 2,
        embed_dim: int = 64,
        num_heads: int = 4,
        cond_drop_rate: float = 0.1,
        patch_nums: Sequence[int] = (1, 2, 4),
    ) -> None:
        super().__init__()
        self.vae_proxy = (vae,)  # in a tuple, so that its parameters are not the transformer's
        self.num_classes, self.cond_drop_rate = num_classes, cond_drop_rate
        self.patch_nums, self.prog_si = tuple(patch_nums), -1
        self.first_l, self.L = self.patch_nums[0] ** 2, sum(side**2 for side in self.patch_nums)
        self.begin_ends: list[tuple[int, int]] = []
        for side in self.patch_nums:
            begin = self.begin_ends[-1][1] if self.begin_ends else 0
            self.begin_ends.append((begin, begin + side**2))
        self.rng = torch.Generator()
        self.class_emb = nn.Embedding(num_classes + 1, embed_dim)  # the last one stands for no class
        self.pos_start = nn.Parameter(torch.randn(1, self.first_l, embed_dim) * 0.02)
        self.word_embed = nn.Linear(vae.z_channels, embed_dim)
        self.pos_1LC = nn.Parameter(torch.randn(1, self.L, embed_dim) * 0.02)
        self.lvl_embed = nn.Embedding(len(self.patch_nums), embed_dim)
        levels = torch.cat([torch.full((side**2,), level) for level, side in enumerate(self.patch_nums)])
        self.register_buffer("lvl_1L", levels[None], persistent=False)
        mask = torch.where(levels[:, None] >= levels[None], 0.0, -torch.inf)
        self.register_buffer("attn_bias_for_masking", mask[None, None], persistent=False)
        self.shared_ada_lin = SharedAdaLin(embed_dim)
        self.blocks = nn.ModuleList([AdaLNBlock(embed_dim, num_heads) for _ in range(depth)])
        self.head_nm = AdaLNBeforeHead(embed_dim)
        self.head = nn.Linear(embed_dim, vae.vocab_size)

    def get_logits(self, h: torch.Tensor, class_vectors: torch.Tensor) -> torch.Tensor:
        return self.head(self.head_nm(h, class_vectors))

    def forward(self, label_B: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        """Logits of the tokens of all scales, or of those up to scale prog_si, for the classes and teacher tokens."""
        # TODO
        raise NotImplementedError("VAR.forward")

    @torch.no_grad()
    def autoregressive_infer_cfg(
        self,
        B: int,
        label_B: torch.Tensor | int | None,
        g_seed: int | None = None,
        cfg: float = 1.5,
        top_k: int = 0,
        top_p: float = 0.0,
        more_smooth: bool = False,
    ) -> torch.Tensor:
        """B pictures (B, 3, H, W) in [0, 1] of the given classes: one for all, one each, or drawn at random."""
        rng = None if g_seed is None else self.rng.manual_seed(g_seed)
        device = self.pos_1LC.device
        if label_B is None:
            label_B = torch.randint(self.num_classes, (B,), generator=rng, device=device)
        elif isinstance(label_B, int):
            label_B = torch.full((B,), label_B, device=device)
        # TODO
        raise NotImplementedError("VAR.autoregressive_infer_cfg")
