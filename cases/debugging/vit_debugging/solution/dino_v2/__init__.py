"""A vision transformer in the manner of DINOv2."""

from dino_v2.models import DinoVisionTransformer, vit_base, vit_giant2, vit_large, vit_small

__all__ = ["DinoVisionTransformer", "vit_base", "vit_giant2", "vit_large", "vit_small"]
