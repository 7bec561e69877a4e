from dino_v2.layers.attention import Attention, FusedAttention
from dino_v2.layers.block import Block
from dino_v2.layers.dino_head import DinoHead
from dino_v2.layers.mlp import Mlp
from dino_v2.layers.patch_embed import PatchEmbed
from dino_v2.layers.swiglu_ffn import SwiGLUFFN, SwiGLUFFNRounded

__all__ = ["Attention", "Block", "DinoHead", "FusedAttention", "Mlp", "PatchEmbed", "SwiGLUFFN", "SwiGLUFFNRounded"]
