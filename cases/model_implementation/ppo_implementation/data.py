"""Draws policies and buffers for the judge, and works out what evaluations and updates of them must give."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from bench.casekit.data import stream, write_npz

# Dimensions of states and actions, whether actions are continuous, gamma, epochs, and the clip.
PLAN = ((4, 2, True, 0.99, 4, 0.2), (3, 1, True, 0.9, 2, 0.1), (5, 3, False, 0.95, 5, 0.3), (2, 2, False, 1.0, 1, 0.2))


def _judges() -> Any:
    """The driver, with the judge's methods in the starter's classes."""
    sys.path.insert(0, str(Path(__file__).parent / "workspace"))
    import driver
    import ppo
    import reference
    import torch

    torch.set_num_threads(1)
    reference.completed(ppo)
    return driver


def _rewards(rng: np.random.Generator, kind: str, count: int) -> Any:
    """Numbers around 3, whole ones, or so small ones that the 1e-7 beside their spread counts."""
    if kind == "whole":
        return rng.integers(-6, 7, count)
    return rng.normal(0, 1e-6, count) if kind == "small" else rng.normal(3, 5, count).round(3)


def _rollout(
    driver: Any, rng: np.random.Generator, config: dict[str, Any], seed: int, count: int, kind: str = "usual"
) -> dict[str, Any]:
    """A buffer whose stored log probabilities put a third of the ratios on either side of the clip.

    What is foreseen leaves no advantage: only the entropy moves the actor. What is far has ratios of 33, which count
    in full where the advantage is negative.
    """
    states = rng.normal(size=(count, config["state_dim"])).astype(np.float32)
    shape = (count, config["action_dim"]) if config["continuous_action_space"] else (count,)
    actions = (
        rng.normal(size=shape).astype(np.float32) if len(shape) > 1 else rng.integers(0, config["action_dim"], shape)
    )
    now = driver.evaluated(config, seed, [states, actions, np.zeros((3, count), np.float32)])["parts"][0].numpy()
    ends = rng.random(count) < 0.2
    ends[-1] = rng.random() < 0.5
    rewards, values = _rewards(rng, kind, count), rng.normal(size=count).astype(np.float32)
    if kind == "foreseen":
        import reference

        values = reference.standardised(rewards, ends, config["gamma"]).numpy()
    offsets = rng.choice([-0.5, 0.03, 0.5], count)
    if kind == "far":
        offsets, values = 7 * offsets, values + 2
    return {
        "states": states,
        "actions": actions,
        "logprobs": (now + offsets).astype(np.float32),
        "state_values": values,
        "rewards": rewards,
        "is_terminals": ends,
    }


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Write jobs.json and expected.npz for the judge; the agent gets nothing."""
    driver, rng = _judges(), np.random.default_rng(stream(seed, "hidden"))
    jobs: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {}
    for state_dim, action_dim, continuous, gamma, epochs, clip in PLAN:
        config = {"state_dim": state_dim, "action_dim": action_dim, "continuous_action_space": continuous,
                  "gamma": gamma, "K_epochs": epochs, "eps_clip": clip}  # fmt: skip
        for count in (7, 1):
            n, own = len(jobs), int(rng.integers(2**40))
            rollout = _rollout(driver, rng, config, own, count)
            actions = rollout["actions"][:, 0] if action_dim == 1 and count > 1 else rollout["actions"]
            given = [rollout["states"], actions, rng.normal(size=(3, count)).astype(np.float32)]
            found = driver.evaluated(config, own, given)
            arrays |= {f"{n}_{k}": it for k, it in enumerate(given)}
            arrays |= {f"{n}_part_{k}": it.numpy() for k, it in enumerate(found["parts"])}
            jobs.append({"call": "evaluated", "config": config, "seed": own, "slopes": found["slopes"]})
        plans: list[tuple[float, list[tuple[int, str]]]] = [
            (0.02, [(40, "usual"), (9, "whole"), (12, "small")]),
            (0.02, [(15, "foreseen")]),
            (2e-6, [(30, "far")]),
            (0.0, [(25, "whole"), (2, "usual")]),
        ]
        for rate, counts in plans:
            n, own = len(jobs), int(rng.integers(2**40))
            rollouts = [_rollout(driver, rng, config, own, count, kind) for count, kind in counts]
            start = driver._agent(config, own).policy
            begin = np.concatenate([it.detach().numpy().ravel() for _, it in sorted(start.named_parameters())])
            for k, (weights, *_) in enumerate(driver.updated(config, own, rate, rollouts)):
                arrays |= {f"{n}_{k}_{name}": it for name, it in rollouts[k].items()}
                arrays[f"{n}_{k}_weights"] = weights.numpy()
            arrays[f"{n}_begin"] = begin
            jobs.append({"call": "updated", "config": config, "seed": own, "rate": rate, "rollouts": len(counts)})
    (hidden / "jobs.json").write_text(json.dumps(jobs))
    write_npz(hidden / "expected.npz", **arrays)
