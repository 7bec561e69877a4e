from dino_v2.models.vision_transformer import DinoVisionTransformer, vit_base, vit_giant2, vit_large, vit_small

__all__ = ["DinoVisionTransformer", "vit_base", "vit_giant2", "vit_large", "vit_small"]
