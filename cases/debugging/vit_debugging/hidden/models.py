"""Settings of the models that are judged, and what makes them."""

from __future__ import annotations

import random
from typing import Any

Settings = dict[str, Any]

PLAIN = {"img_size": 32, "patch_size": 8, "embed_dim": 24, "depth": 3, "num_heads": 3}
CHUNKS = {"img_size": 24, "patch_size": 6, "embed_dim": 16, "depth": 4, "num_heads": 2, "block_chunks": 2,
          "init_values": 1e-5, "interpolate_offset": 0.0, "mlp_ratio": 2.0}  # fmt: skip
BARE = {"img_size": 16, "patch_size": 4, "embed_dim": 12, "depth": 2, "num_heads": 4, "block_chunks": 0,
        "fused_attention": True, "qkv_bias": False, "proj_bias": False, "ffn_bias": False}  # fmt: skip
GATED = ({"ffn_layer": "swiglu"}, {"ffn_layer": "swiglufused"})
UNEVEN = {"depth": 5, "block_chunks": 2}
SETTINGS = (PLAIN, CHUNKS, BARE)
FED: list[tuple[str, list[int], dict[str, list[int]]]] = [
    ("Mlp", [6, 10, 4], {"fc1.weight": [10, 6], "fc2.weight": [4, 10]}),
    ("Mlp", [6], {"fc1.weight": [6, 6], "fc2.weight": [6, 6]}),
    ("SwiGLUFFN", [6, 10, 4], {"w12.weight": [20, 6], "w3.weight": [4, 10]}),
    ("SwiGLUFFN", [6], {"w12.weight": [12, 6], "w3.weight": [6, 6]}),
    ("SwiGLUFFNRounded", [6, 10, 4], {"w12.weight": [16, 6], "w3.weight": [4, 8]}),
]
"""Feed-forward networks, their widths, and the parameters that follow."""
HEAD = {"mlp.0.weight": (5, 6), "mlp.0.bias": (5,), "mlp.2.weight": (4, 5), "mlp.2.bias": (4,),
        "last_layer.weight": (3, 4)}  # fmt: skip


def made(rng: random.Random) -> list[tuple[str, list[Any], Settings, Settings]]:
    """What makes models, its arguments by position and by name, and the settings that the model then has."""
    variants = [{**PLAIN, **more} for more in (*GATED, {"num_register_tokens": 3}, {"in_chans": 5}, UNEVEN)]
    makers: list[tuple[str, list[Any], Settings, Settings]] = []
    makers += [("DinoVisionTransformer", [], one, one) for one in (*SETTINGS, *variants)]
    for maker, width, heads in (("vit_small", 384, 6), ("vit_base", 768, 12)):
        kept = {"img_size": 224, "patch_size": 16, "embed_dim": width, "depth": 12, "num_heads": heads}
        patch, registers = rng.choice([8, 14]), rng.randint(1, 5)
        sizes = {"img_size": 4 * patch, "ffn_bias": False, "init_values": 1e-5}
        named = {"patch_size": patch, "num_register_tokens": registers}
        makers += [(maker, [], {}, kept), (maker, [patch, registers], sizes, {**kept, **sizes, **named})]
        makers.append((maker, [], named, {**kept, **named}))
    for maker, width, depth, heads in (("vit_large", 1024, 24, 16), ("vit_giant2", 1536, 40, 24)):
        sizes = {"img_size": 224, "patch_size": 16, "embed_dim": width, "depth": depth, "num_heads": heads}
        makers.append((maker, [], {}, sizes))
    return makers
