"""Rotary positions in the half-split layout: component i is turned together with component i + n / 2."""

import torch


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    """(a, b) becomes (-b, a), halves of the last dimension."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def apply_rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn x (batch, heads, length, n) by angles whose cosines and sines are (1, 1, length, n)."""
    return x * cos + rotate_half(x) * sin


def rope_tables(width: int, max_len: int, theta: float = 10000.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines (1, 1, max_len, width / 2) of position * theta ** (-2 i / width) for i below width / 2."""
    speeds = theta ** (-torch.arange(0, width, 2).double() / width)
    angles = torch.arange(max_len).double()[:, None] * speeds
    return angles.cos().float()[None, None], angles.sin().float()[None, None]
