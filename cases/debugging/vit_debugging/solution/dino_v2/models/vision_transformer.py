"""The transformer: tokens with positions, registers and masks, blocks, and what can be asked of it."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from dino_v2.layers import Attention, Block, FusedAttention, Mlp, PatchEmbed, SwiGLUFFN, SwiGLUFFNRounded
from dino_v2.models.helpers import BlockChunk, chunked, drop_rates, init_weights

FFN_LAYERS: dict[str, Callable[..., nn.Module]] = {"mlp": Mlp, "swiglu": SwiGLUFFN, "swiglufused": SwiGLUFFNRounded}


class DinoVisionTransformer(nn.Module):
    """The sequence is the class token, `num_register_tokens` registers, and the patches row by row.

    ffn_layer: "mlp", "swiglu" or "swiglufused". block_chunks: 0 for a plain list of blocks, or how many chunks of
    them. init_values: of the layer scale, which is left out for None. interpolate_offset: added to the number of
    patches when positions are interpolated, so that rounding loses no patch.
    """

    def __init__(
        self,
        img_size: int = 224,
        patch_size: int = 16,
        in_chans: int = 3,
        embed_dim: int = 768,
        depth: int = 12,
        num_heads: int = 12,
        mlp_ratio: float = 4.0,
        qkv_bias: bool = True,
        proj_bias: bool = True,
        ffn_bias: bool = True,
        drop_path_rate: float = 0.0,
        drop_path_uniform: bool = False,
        init_values: float | None = None,
        fused_attention: bool = False,
        ffn_layer: str = "mlp",
        block_chunks: int = 1,
        num_register_tokens: int = 0,
        interpolate_offset: float = 0.1,
    ) -> None:
        super().__init__()
        self.embed_dim, self.num_features = embed_dim, embed_dim
        self.n_blocks, self.num_heads, self.patch_size = depth, num_heads, patch_size
        self.num_register_tokens, self.interpolate_offset = num_register_tokens, interpolate_offset
        self.patch_embed = PatchEmbed(img_size, patch_size, in_chans, embed_dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, self.patch_embed.num_patches + 1, embed_dim))
        self.register_tokens = (
            nn.Parameter(torch.zeros(1, num_register_tokens, embed_dim)) if num_register_tokens else None
        )
        self.mask_token = nn.Parameter(torch.zeros(1, embed_dim))
        blocks = [
            Block(
                embed_dim,
                num_heads,
                mlp_ratio,
                qkv_bias=qkv_bias,
                proj_bias=proj_bias,
                ffn_bias=ffn_bias,
                drop_path=rate,
                init_values=init_values,
                attn_class=FusedAttention if fused_attention else Attention,
                ffn_layer=FFN_LAYERS[ffn_layer],
            )
            for rate in drop_rates(drop_path_rate, depth, drop_path_uniform)
        ]
        self.chunked_blocks = block_chunks > 0
        self.blocks = chunked(blocks, block_chunks) if self.chunked_blocks else nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(embed_dim, eps=1e-6)
        self.head = nn.Identity()
        self.init_weights()

    def init_weights(self) -> None:
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        nn.init.normal_(self.cls_token, std=1e-6)
        if self.register_tokens is not None:
            nn.init.normal_(self.register_tokens, std=1e-6)
        self.apply(init_weights)

    def _grid(self, height: int, width: int, patch_size: int | None) -> tuple[int, int]:
        """Rows and columns of patches in a picture of height x width pixels."""
        size = patch_size or self.patch_size
        return height // size, width // size

    def interpolate_pos_encoding(
        self, x: torch.Tensor, height: int, width: int, patch_size: int | None = None
    ) -> torch.Tensor:
        """Positions of class token and patches (1, 1 + N, D) for the tokens x of a picture of height x width pixels."""
        learned = self.pos_embed.shape[1] - 1
        if x.shape[1] - 1 == learned and height == width:
            return self.pos_embed
        side = math.isqrt(learned)
        rows, columns = self._grid(height, width, patch_size)
        patches = self.pos_embed[:, 1:].reshape(1, side, side, -1).permute(0, 3, 1, 2)
        if self.interpolate_offset:
            scale = ((rows + self.interpolate_offset) / side, (columns + self.interpolate_offset) / side)
            patches = F.interpolate(patches, scale_factor=scale, mode="bicubic")
        else:
            patches = F.interpolate(patches, size=(rows, columns), mode="bicubic")
        return torch.cat([self.pos_embed[:, :1], patches.permute(0, 2, 3, 1).flatten(1, 2)], dim=1)

    def prepare_tokens_with_masks(
        self, x: torch.Tensor, masks: torch.Tensor | None = None, patch_size: int | None = None
    ) -> torch.Tensor:
        """The sequence that goes into the blocks.

        masks: (B, N), true where the mask token takes the place of a patch's token, before positions are added.
        Registers stand behind the class token and have no position.
        """
        batch, _, height, width = x.shape
        x = self.patch_embed(x, patch_size)
        if masks is not None:
            x = torch.where(masks.unsqueeze(-1), self.mask_token.to(x.dtype).unsqueeze(0), x)
        x = torch.cat([self.cls_token.expand(batch, -1, -1), x], dim=1)
        x = x + self.interpolate_pos_encoding(x, height, width, patch_size)
        if self.register_tokens is not None:
            x = torch.cat([x[:, :1], self.register_tokens.expand(batch, -1, -1), x[:, 1:]], dim=1)
        return x

    def _outputs(self, x: torch.Tensor, masks: torch.Tensor | None) -> dict[str, Any]:
        normed, start = self.norm(x), 1 + self.num_register_tokens
        return {
            "x_norm_clstoken": normed[:, 0],
            "x_norm_regtokens": normed[:, 1:start],
            "x_norm_patchtokens": normed[:, start:],
            "x_prenorm": x,
            "masks": masks,
        }

    def forward_features_list(
        self,
        x_list: Sequence[torch.Tensor],
        masks_list: Sequence[torch.Tensor | None],
        patch_size: int | None = None,
    ) -> list[dict[str, Any]]:
        """forward_features for several batches, whose pictures may be of different sizes."""
        return [self.forward_features(x, masks, patch_size) for x, masks in zip(x_list, masks_list, strict=True)]

    def forward_features(
        self, x: Any, masks: Any = None, patch_size: int | None = None
    ) -> dict[str, Any] | list[dict[str, Any]]:
        """What the blocks make of the sequence: a dictionary, or a list of them for a list of batches."""
        if isinstance(x, list):
            return self.forward_features_list(x, masks or [None] * len(x), patch_size)
        x = self.prepare_tokens_with_masks(x, masks, patch_size)
        for block in self.blocks:
            x = block(x)
        return self._outputs(x, masks)

    def _wanted(self, n: int | Sequence[int]) -> list[int]:
        """Numbers of the blocks: the last n, or those that n names."""
        return list(range(self.n_blocks - n, self.n_blocks)) if isinstance(n, int) else list(n)

    def _get_intermediate_layers_not_chunked(
        self, x: torch.Tensor, n: int | Sequence[int], patch_size: int | None = None
    ) -> list[torch.Tensor]:
        x, found = self.prepare_tokens_with_masks(x, None, patch_size), []
        for number, block in enumerate(self.blocks):
            x = block(x)
            if number in self._wanted(n):
                found.append(x)
        return found

    def _get_intermediate_layers_chunked(
        self, x: torch.Tensor, n: int | Sequence[int], patch_size: int | None = None
    ) -> list[torch.Tensor]:
        x, found, number = self.prepare_tokens_with_masks(x, None, patch_size), [], 0
        for chunk in self.blocks:
            assert isinstance(chunk, BlockChunk)
            for block in chunk[number:]:
                x = block(x)
                if number in self._wanted(n):
                    found.append(x)
                number += 1
        return found

    def get_intermediate_layers(
        self,
        x: torch.Tensor,
        n: int | Sequence[int] = 1,
        reshape: bool = False,
        return_class_token: bool = False,
        norm: bool = True,
        patch_size: int | None = None,
    ) -> tuple[Any, ...]:
        """Tokens of patches (B, N, D) after some blocks, in the order of the blocks.

        n: the last n blocks, or numbers of blocks. reshape: (B, D, rows, columns) instead. return_class_token: pairs
        of these and the class token (B, D). norm: whether the last norm is applied.
        """
        if self.chunked_blocks:
            outputs = self._get_intermediate_layers_chunked(x, n, patch_size)
        else:
            outputs = self._get_intermediate_layers_not_chunked(x, n, patch_size)
        if norm:
            outputs = [self.norm(out) for out in outputs]
        class_tokens = [out[:, 0] for out in outputs]
        outputs = [out[:, 1 + self.num_register_tokens :] for out in outputs]
        if reshape:
            batch, _, height, width = x.shape
            rows, columns = self._grid(height, width, patch_size)
            outputs = [out.reshape(batch, rows, columns, -1).permute(0, 3, 1, 2).contiguous() for out in outputs]
        return tuple(zip(outputs, class_tokens, strict=True)) if return_class_token else tuple(outputs)

    def forward(
        self, x: Any, masks: Any = None, patch_size: int | None = None, is_training: bool = False
    ) -> Any:
        """The dictionary of forward_features where is_training, else the normed class token through the head.

        patch_size: of this call, if not the model's own. A list of batches is for is_training.
        """
        found = self.forward_features(x, masks, patch_size)
        if is_training:
            return found
        return self.head(found["x_norm_clstoken"])


def vit_small(patch_size: int = 16, num_register_tokens: int = 0, **settings: Any) -> DinoVisionTransformer:
    sizes = {"embed_dim": 384, "depth": 12, "num_heads": 6}
    return DinoVisionTransformer(patch_size=patch_size, num_register_tokens=num_register_tokens, **sizes, **settings)


def vit_base(patch_size: int = 16, num_register_tokens: int = 0, **settings: Any) -> DinoVisionTransformer:
    sizes = {"embed_dim": 768, "depth": 12, "num_heads": 12}
    return DinoVisionTransformer(patch_size=patch_size, num_register_tokens=num_register_tokens, **sizes, **settings)


def vit_large(patch_size: int = 16, num_register_tokens: int = 0, **settings: Any) -> DinoVisionTransformer:
    sizes = {"embed_dim": 1024, "depth": 24, "num_heads": 16}
    return DinoVisionTransformer(patch_size=patch_size, num_register_tokens=num_register_tokens, **sizes, **settings)


def vit_giant2(patch_size: int = 16, num_register_tokens: int = 0, **settings: Any) -> DinoVisionTransformer:
    sizes = {"embed_dim": 1536, "depth": 40, "num_heads": 24}
    return DinoVisionTransformer(patch_size=patch_size, num_register_tokens=num_register_tokens, **sizes, **settings)
