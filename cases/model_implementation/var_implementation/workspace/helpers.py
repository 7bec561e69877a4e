"""Sampling of tokens from logits."""

import torch
from torch.nn import functional as F


def sample_top_k_top_p_(
    logits: torch.Tensor, top_k: int = 0, top_p: float = 0.0, rng: torch.Generator | None = None
) -> torch.Tensor:
    """Draw a token for each place of logits (B, l, V), which are masked IN PLACE; returns (B, l).

    Only the top_k largest logits of a place stay (0: all), and of these the most probable ones that together hold the
    share top_p of the probability (0: all).
    """
    if top_k > 0:
        least = logits.topk(min(top_k, logits.shape[-1]), dim=-1).values[..., -1:]
        logits.masked_fill_(logits < least, -torch.inf)
    if top_p > 0:
        ordered, places = logits.sort(dim=-1)
        tail = ordered.softmax(dim=-1).cumsum(dim=-1) <= 1 - top_p
        tail[..., -1] = False
        logits.masked_fill_(tail.scatter(-1, places, tail), -torch.inf)
    share = logits.softmax(dim=-1).flatten(0, 1)
    return torch.multinomial(share, 1, generator=rng).view(logits.shape[:2])


def gumbel_softmax(logits: torch.Tensor, tau: float, rng: torch.Generator | None = None) -> torch.Tensor:
    """Soft one-hot vectors for logits (B, l, V): softmax of (logits + Gumbel noise) / tau."""
    noise = -torch.empty_like(logits).exponential_(generator=rng).log()
    return F.softmax((logits + noise) / tau, dim=-1)
