"""What the policy that the driver fills from a seed must give, in numpy, for the judge's own process."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bench.judge import close

FAR = (0, 1.01, 2.02, 3.03, math.inf)
"""In standard deviations from the mean: what is cut off at whole ones lies below."""


def policy(config: dict[str, Any], seed: int, states: Any) -> tuple[Any, Any, Any]:
    """Outputs of the actor, values and variances of the policy that the driver fills from the same seed."""
    out = {"actor": config["action_dim"], "critic": 1}
    shapes = {f"{part}.{layer}.{kind}": (wide,) if kind == "bias" else (wide, inside) for part in ("actor", "critic")
              for layer, wide, inside in ((0, 64, config["state_dim"]), (2, 64, 64), (4, out[part], 64))
              for kind in ("bias", "weight")}  # fmt: skip
    rng = np.random.default_rng(seed)
    drawn = {name: rng.normal(0, 0.9 / shape[-1] ** 0.5, shape) for name, shape in sorted(shapes.items())}
    variances = np.random.default_rng(seed)
    _ = [variances.normal(size=shape) for _, shape in sorted(shapes.items())]
    found = []
    for part in ("actor", "critic"):
        hidden = states
        for layer in (0, 2, 4):
            hidden = hidden @ drawn[f"{part}.{layer}.weight"].T + drawn[f"{part}.{layer}.bias"]
            hidden = np.tanh(hidden) if layer < 4 else hidden
        found.append(hidden)
    actor = np.tanh(found[0]) if config["continuous_action_space"] else np.exp(found[0])
    actor = actor if config["continuous_action_space"] else actor / actor.sum(axis=-1, keepdims=True)
    return actor, found[1][..., 0], variances.uniform(0.2, 0.9, config["action_dim"])


def assert_drawn(config: dict[str, Any], actions: Any, logprobs: Any, mean: Any, var: Any) -> None:
    """The log probabilities are those of the actions, and the actions are distributed as the policy says."""
    count = len(actions)
    if config["continuous_action_space"]:
        offset = (actions - mean) / np.sqrt(var)
        wanted = -0.5 * (offset**2 + np.log(2 * math.pi * var)).sum(axis=1)
        apart = np.abs(offset.mean(axis=0)).max() * count**0.5
        assert apart < 6, f"the mean action is off by {apart:.1f} standard errors"
        # Off the diagonal stand dimensions that move together.
        spread = np.abs(offset.T @ offset / count - np.eye(offset.shape[1])).max() * (count / 2) ** 0.5
        assert spread < 6, f"the variance of actions is off by {spread:.1f} standard errors"
        told, wide = np.histogram(np.abs(offset), FAR)[0], np.diff([math.erf(it / 2**0.5) for it in FAR])
        assert _surprise(told / told.sum(), wide).max() * told.sum() < 18, (
            f"so many numbers of actions are {FAR[:-1]} standard deviations and more from the mean: {told.tolist()}"
        )
    else:
        chosen = actions.astype(int)
        assert (chosen == actions).all() and 0 <= chosen.min() <= chosen.max() < len(mean), "actions are no indices"
        wanted = np.log(mean[chosen])
        told = np.bincount(chosen, minlength=len(mean))
        assert _surprise(told / count, mean).max() * count < 18, (
            f"actions were drawn {told.tolist()} times, probabilities are {mean.round(3).tolist()}"
        )
    close(logprobs, wanted, rtol=1e-3, atol=1e-3, what="log probabilities of drawn actions")


def _surprise(share: Any, mean: Any) -> Any:
    """Chernoff's exponent of a share of draws, for rare actions too; 18 in all are 6 standard errors of others."""
    parts = (share, mean), (1 - share, 1 - mean)
    return sum(told * np.log(np.where(told > 0, told, 1) / np.where(told > 0, wanted, 1)) for told, wanted in parts)
