"""Draws policies and buffers for the judge, and works out what evaluations and updates of them must give."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.casekit.data import stream, write_npz

# Dimensions of states and actions, whether actions are continuous, gamma, epochs, and the clip, which may be above 1.
PLAN = ((4, 2, True, 0.99, 4, 0.2), (3, 1, True, 0.9, 2, 0.1), (5, 3, False, 0.5, 5, 0.3), (1, 2, False, 1.0, 3, 1.2))

Job = tuple[dict[str, Any], dict[str, Any]]
"""What the judge calls, and its arrays: those that go in and those that must come out."""


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
    """Numbers around 3, whole ones, or so small ones that the 1e-7 beside their spread counts; or all alike but one."""
    if kind == "whole":
        return rng.integers(-6, 7, count)
    if kind == "alike":
        return np.where(np.arange(count) == count // 2, 40.0, 1.0)
    return rng.normal(0, 1e-6, count) if kind == "small" else rng.normal(3, 5, count).round(3)


def _out(policy: Any, states: Any) -> Any:
    import torch

    return policy.actor(torch.from_numpy(states)).detach().numpy()


def _edge(driver: Any, config: dict[str, Any], seed: int, factor: float, states: Any) -> tuple[dict[str, float], Any]:
    """How a policy is made, and actions of it: every other one is 16 standard deviations away, or the least likely.

    The least likely one of all has a ten thousandth of the likeliest one's probability.
    """
    policy, rng = driver._agent(config, seed, factor).policy, np.random.default_rng(seed)
    out = _out(policy, states)
    rare = np.arange(len(states)) % 2 == 1
    if config["continuous_action_space"]:
        offsets = np.where(rare[:, None], 16 * rng.choice([-1, 1], out.shape), rng.normal(size=out.shape))
        return {"factor": factor}, (out + policy.action_var.sqrt().numpy() * offsets).astype(np.float32)
    gaps = np.log(out.max(axis=1) / out.min(axis=1))
    rare[gaps.argmax()] = True
    actions = np.where(rare, out.argmin(axis=1), rng.integers(0, config["action_dim"], len(out)))
    return {"sharp": float(np.log(1e4) / gaps.max())}, actions


def _rollout(
    driver: Any, rng: np.random.Generator, config: dict[str, Any], seed: int, count: int, kind: str = "usual"
) -> tuple[dict[str, float], dict[str, Any]]:
    """How a policy is made, and a buffer whose log probabilities put a third of the ratios on either side of the clip.

    What is foreseen leaves no advantage: only the entropy moves the actor. What is endless has no terminal step. What
    is far has ratios of 10,000,000,000, which count in full where the advantage is negative; what has drifted has
    ratios of 0.14 on average. What is unlikely has actions as `_edge` has them. Where rewards are alike but one, and
    each step ends an episode, the standardised return of that one is the root of their number.
    """
    made: dict[str, float] = {}
    states = rng.normal(size=(count, config["state_dim"])).astype(np.float32)
    shape = (count, config["action_dim"]) if config["continuous_action_space"] else (count,)
    actions = (
        rng.normal(size=shape).astype(np.float32) if len(shape) > 1 else rng.integers(0, config["action_dim"], shape)
    )
    if kind == "unlikely":
        made, actions = _edge(driver, config, seed, 1.0, states)
    given = [states, actions, np.zeros((3, count), np.float32)]
    now = driver.evaluated(config, seed, given, made)["parts"][0].numpy()
    ends = np.ones(count, bool) if kind == "alike" else rng.random(count) < 0.2
    ends[-1] = rng.random() < 0.5
    ends &= kind != "endless"
    rewards, values = _rewards(rng, kind, count), rng.normal(size=count).astype(np.float32)
    if kind == "foreseen":
        import reference

        values = reference.standardised(rewards, ends, config["gamma"]).numpy()
    offsets = rng.choice([-0.5, 0.03, 0.5], count)
    if kind == "far":
        offsets, values = 46 * offsets, values + 2
    if kind == "drifted":
        offsets = offsets + 2
    return made, {
        "states": states,
        "actions": actions,
        "logprobs": (now + offsets).astype(np.float32),
        "state_values": values,
        "rewards": rewards,
        "is_terminals": ends,
    }


def _evaluations(driver: Any, rng: np.random.Generator, usual: dict[str, Any]) -> Iterator[Job]:
    """Of usual states, also with one dimension or action, of one state (discrete: with probabilities of 0), of far ones
    by small variances or probabilities.
    """
    alone = "usual" if usual["continuous_action_space"] else "sure"
    narrow = {**usual, "action_dim": 1}
    for config, count, kind in ((narrow, 7, "usual"), (usual, 7, "usual"), (usual, 1, alone), (usual, 8, "edge")):
        own, made = int(rng.integers(2**40)), {}
        rollout = _rollout(driver, rng, config, own, count)[1]
        states, actions = rollout["states"], rollout["actions"]
        if kind == "edge":
            states[::3] *= 100 / np.abs(states[::3]).max(axis=1, keepdims=True)
            made, actions = _edge(driver, config, own, 1e-3, states)
        if kind == "sure":
            made = {"sharp": 1e4}
            actions = _out(driver._agent(config, own, **made).policy, states).argmax(axis=1)
        if config["continuous_action_space"] and config["action_dim"] == 1 and count > 1:
            actions = actions[:, 0]
        given = [states, actions, rng.normal(size=(3, count)).astype(np.float32)]
        found = driver.evaluated(config, own, given, made)
        job = {"call": "evaluated", "config": config, "seed": own, "made": made, "slopes": found["slopes"]}
        parts = {f"part_{k}": it.numpy() for k, it in enumerate(found["parts"])}
        yield job, {str(k): it for k, it in enumerate(given)} | parts


def _updates(driver: Any, rng: np.random.Generator, config: dict[str, Any]) -> Iterator[Job]:
    rate = 2e-5 if config["continuous_action_space"] else 0.005
    plans: list[tuple[float, list[tuple[int, str]]]] = [
        (0.02, [(40, "usual"), (9, "whole"), (12, "small"), (1200 if config["gamma"] == 0.5 else 20, "endless")]),
        (0.02, [(15, "foreseen"), (24, "drifted")]),
        # One long buffer will do, and one long episode, where powers of gamma are 0.
        (0.02, [(4200 if config["state_dim"] == 5 else 400, "alike")]),
        (rate, [(12, "unlikely")]),
        (7e-15, [(30, "far")]),
        (0.0, [(25, "whole"), (2, "usual")]),
    ]
    for rate, counts in plans:
        own, made, arrays, rollouts = int(rng.integers(2**40)), {}, {}, []
        for count, kind in counts:
            made, rollout = _rollout(driver, rng, config, own, count, kind)
            rollouts.append(rollout)
        start = driver._agent(config, own, **made).policy
        begin = np.concatenate([it.detach().numpy().ravel() for _, it in sorted(start.named_parameters())])
        for k, (weights, *_) in enumerate(driver.updated(config, own, rate, rollouts, made)):
            arrays |= {f"{k}_{name}": it for name, it in rollouts[k].items()} | {f"{k}_weights": weights.numpy()}
        job = {"call": "updated", "config": config, "seed": own, "made": made, "rate": rate, "rollouts": len(counts)}
        yield job, {**arrays, "begin": begin}


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Write jobs.json and expected.npz for the judge; the agent gets nothing."""
    driver, rng = _judges(), np.random.default_rng(stream(seed, "hidden"))
    jobs: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {}
    for state_dim, action_dim, continuous, gamma, epochs, clip in PLAN:
        config = {"state_dim": state_dim, "action_dim": action_dim, "continuous_action_space": continuous,
                  "gamma": gamma, "K_epochs": epochs, "eps_clip": clip}  # fmt: skip
        for job, own in (*_evaluations(driver, rng, config), *_updates(driver, rng, config)):
            arrays |= {f"{len(jobs)}_{name}": it for name, it in own.items()}
            jobs.append(job)
    (hidden / "jobs.json").write_text(json.dumps(jobs))
    write_npz(hidden / "expected.npz", **arrays)
