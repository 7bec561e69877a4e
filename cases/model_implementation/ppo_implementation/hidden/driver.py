"""Fills policies and buffers with numbers of a seed: in the subject with the agent's ppo.py, in data.py with ours.

It knows no expected value.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

Arrays = dict[str, Any]


def _fill(module: Any, seed: int) -> None:
    """Weights so large that a term that is missing shows, and variances that differ."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for _, value in sorted(module.named_parameters()):
            spread = 0.9 / value.shape[-1] ** 0.5
            value.copy_(torch.from_numpy(rng.normal(0, spread, tuple(value.shape)).astype(np.float32)))
        module.action_var.copy_(torch.from_numpy(rng.uniform(0.2, 0.9, len(module.action_var)).astype(np.float32)))


def _agent(config: Arrays, seed: int, factor: float = 1.0, sharp: float = 1.0) -> Any:
    """factor: of the variances of both policies; sharp: of what the new one's actor gives before its last function."""
    from ppo import PPO

    agent = PPO(**config)
    _fill(agent.policy, seed)
    agent.policy.action_var.mul_(factor)
    for value in agent.policy.actor[-2].parameters():
        value.data.mul_(sharp)
    _fill(agent.policy_old, seed + 1)
    agent.policy_old.action_var.copy_(agent.policy.action_var)
    return agent


@contextlib.contextmanager
def _wider(policy: Any) -> Iterator[None]:
    """For a while the variances are four times as large: what a method keeps of them shows in the next call."""
    policy.action_var.mul_(4)
    yield
    policy.action_var.div_(4)


def kept(config: Arrays, seed: int) -> list[Any]:
    """Weights of the old policy, of both policies of an agent that has loaded what this one saves, and arguments."""
    agent, other = _agent(config, seed), _agent(config, seed + 7)
    with tempfile.TemporaryDirectory() as folder:
        agent.save(f"{folder}/agent.pt")
        other.load(f"{folder}/agent.pt")
    weights = [
        torch.cat([value.detach().flatten() for _, value in sorted(policy.named_parameters())])
        for policy in (agent.policy_old, other.policy, other.policy_old)
    ]
    return [weights, [[name, str(kind.default)] for name, kind in inspect.signature(type(agent)).parameters.items()]]


def acted(config: Arrays, seed: int, factor: float, state: Any, times: int, torch_seed: int) -> Arrays:
    """Actions, log probabilities and values of so many calls of act(), in training and in evaluation mode by turns, and
    the first one's shapes and gradients. What act() gives can be learned from: evaluate() takes it as it is.
    """
    policy = _agent(config, seed, factor).policy
    with _wider(policy):
        policy.act(torch.from_numpy(state))
    torch.manual_seed(torch_seed)
    found = [policy.train(n % 2 == 0).act(torch.from_numpy(state)) for n in range(times)]
    policy.evaluate(torch.from_numpy(state)[None], found[0][0][None])[0].sum().backward()
    rows = [torch.stack([it[part].detach().float() for it in found]) for part in range(3)]
    return {
        "rows": rows,
        "shapes": [list(it.shape) for it in found[0]],
        "gradient": any(it.requires_grad for it in found[0]),
    }


def _kept(agent: Any, parts: list[str]) -> list[Any]:
    """What no method may change: the agent's parts and theirs, and what its policies have beside their weights."""
    policies = [
        [
            [it.training for it in policy.modules()],
            policy.action_var.tolist(),
            [value.requires_grad for value in policy.parameters()],
        ]
        for policy in (agent.policy, agent.policy_old)
    ]
    own = [vars(agent).get(name) for name in parts] + [vars(agent.buffer)[name] for name in vars(type(agent.buffer)())]
    own += [*agent.policy.parameters(), *agent.policy_old.parameters()]
    return [[id(it) for it in own], policies, torch.get_default_dtype()]


def left_alone(config: Arrays, seed: int, starts: list[int]) -> dict[str, list[bool]]:
    """Of the import and each method: whether gradients are computed and the agent's parts are as before, and whether
    torch's generator, started in two places, is in two places afterwards. Gradients are off before the second call,
    but for an update; the old policy is in evaluation mode, then in training mode but for its critic, and has variances
    of its own.
    """
    torch.manual_seed(starts[0])
    before = torch.is_grad_enabled()
    generator = torch.get_rng_state()
    importlib.import_module("ppo")
    found = {"import": [torch.is_grad_enabled() == before, torch.equal(torch.get_rng_state(), generator)]}
    for name in ("act", "evaluate", "select_action", "update"):
        stays, ends = True, []
        for start, before in zip(starts, (True, name == "update"), strict=True):
            agent = _agent(config, seed)
            agent.policy_old.train(start == starts[1]).critic.eval()
            agent.policy_old.action_var.mul_(2)
            # A part that a method adds is its own affair.
            parts = list(vars(agent))
            call, kept = _call(name, agent, config), _kept(agent, parts)
            torch.set_grad_enabled(before)
            torch.manual_seed(start)
            call()
            stays &= torch.is_grad_enabled() == before and _kept(agent, parts) == kept
            ends.append(torch.get_rng_state())
        found[name] = [stays, not torch.equal(*ends)]
    return found


def _call(name: str, agent: Any, config: Arrays) -> Any:
    state = torch.ones(config["state_dim"])
    action = torch.zeros(1, config["action_dim"]) if config["continuous_action_space"] else torch.zeros(1).long()
    if name == "update":
        for reward in (1.0, 3.0):
            agent.select_action(state.numpy())
            agent.buffer.rewards.append(reward)
            agent.buffer.is_terminals.append(True)
    return {
        "act": lambda: agent.policy.act(state),
        "evaluate": lambda: agent.policy.evaluate(state[None], action),
        "select_action": lambda: agent.select_action(state.numpy()),
        "update": agent.update,
    }[name]


def evaluated(config: Arrays, seed: int, arrays: list[Any], made: dict[str, float]) -> Arrays:
    """What evaluate() gives, and gradients of its three parts, each times the direction of a seed.

    made: further arguments of `_agent`.
    """
    policy = _agent(config, seed, **made).policy
    states, actions, upstream = (torch.from_numpy(np.array(it)) for it in arrays)
    with _wider(policy):
        policy.evaluate(states, actions)
    found = policy.evaluate(states, actions)
    slopes = []
    for part, up in zip(found, upstream, strict=True):
        policy.zero_grad()
        if part.requires_grad:
            (part * up).sum().backward(retain_graph=True)
        along = torch.Generator().manual_seed(seed % 2**31)
        slopes.append(
            {
                name: 0.0
                if value.grad is None
                else float((value.grad * torch.randn(value.shape, generator=along)).sum())
                for name, value in sorted(policy.named_parameters())
            }
        )
    return {"parts": [part.detach() for part in found], "slopes": slopes}


def selected(config: Arrays, seed: int, factor: float, states: list[Any], torch_seed: int) -> Arrays:
    """Actions of select_action(), their types, the buffer in the end, the states as they are after each call, and how
    often the old policy's act(), which another one may be put before, was asked.
    """
    agent = _agent(config, seed, factor)
    own, asked = agent.policy_old.act, [0]

    def act(state: Any) -> Any:
        asked[0] += 1
        return own(state)

    agent.policy_old.act = act
    torch.manual_seed(torch_seed)
    actions, kinds, after = [], [], []
    for n, state in enumerate(states):
        # A view, as one column of a table is, of a reversed one, too.
        given = np.repeat(state, 2)[::2] if n % 2 else state[::-1].copy()[::-1]
        action = agent.select_action(given)
        kinds.append([type(action).__name__, str(getattr(action, "dtype", ""))])
        actions.append(np.array(action))
        after.append(given.copy())
        # What the caller does with both arrays.
        given += 100
        if isinstance(action, np.ndarray):
            action += 100
    kept = agent.buffer
    parts = (kept.states, kept.actions, kept.logprobs, kept.state_values)
    return {
        "actions": actions,
        "kinds": kinds,
        "kept": [[entry.detach().float() for entry in part] for part in parts],
        "kept_kinds": sorted({str(entry.dtype) for part in parts[:1] for entry in part}),
        "others": [len(kept.rewards), len(kept.is_terminals)],
        "states": after,
        "asked": asked[0],
    }


def updated(config: Arrays, seed: int, rate: float, rollouts: list[Arrays], made: dict[str, float]) -> list[Any]:
    """For each rollout the weights of both policies after update(), how many entries the buffer then has, and
    whether the old policy stays what it is when the new one changes. Gradients of the caller's own are there before.

    rate: of plain gradient descent; 0 for the optimizer that the agent comes with. made: further arguments of `_agent`.
    """
    agent = _agent(config, seed, **made)
    if rate:
        agent.optimizer = torch.optim.SGD(agent.policy.parameters(), lr=rate)
    found = []
    for rollout in rollouts:
        for name in ("states", "actions", "logprobs", "state_values"):
            getattr(agent.buffer, name).extend(torch.from_numpy(np.array(it)) for it in rollout[name])
        whole = rollout["rewards"].dtype.kind == "i"
        kind = (int if whole else float) if rate else (np.int64 if whole else np.float64)
        agent.buffer.rewards.extend(kind(it) for it in rollout["rewards"])
        agent.buffer.is_terminals.extend((bool if rate else np.bool_)(it) for it in rollout["is_terminals"])
        for value in agent.policy.parameters():
            value.grad = torch.ones_like(value)
        agent.update()
        weights = [
            torch.cat([value.detach().flatten() for _, value in sorted(policy.named_parameters())]).clone()
            for policy in (agent.policy, agent.policy_old)
        ]
        lengths = [len(entries) for entries in vars(agent.buffer).values()]
        found.append([*weights, lengths, _stays(agent.policy_old, agent.policy)])
    return found


def _stays(old: Any, new: Any) -> bool:
    """Whether the old policy's weights stay what they are while the new one's are others."""
    before = [value.detach().clone() for value in new.parameters()]
    kept = [value.detach().clone() for value in old.parameters()]
    with torch.no_grad():
        for value in new.parameters():
            value += 1
        same = all(torch.equal(a, b) for a, b in zip(kept, old.parameters(), strict=True))
        for value, was in zip(new.parameters(), before, strict=True):
            value.copy_(was)
    return same


def learned(config: Arrays, torch_seed: int, goals: list[float], rounds: int) -> Any:
    """What the actor gives for each state after learning: in state k the reward is high near the action goals[k]."""
    from ppo import PPO

    torch.manual_seed(torch_seed)
    rng = np.random.default_rng(torch_seed)
    agent = PPO(**config)
    states = np.eye(len(goals), dtype=np.float32)
    for _ in range(rounds):
        for _ in range(60):
            which = rng.integers(len(goals))
            action = agent.select_action(states[which])
            near = float(np.ravel(action)[0]) - goals[which]
            agent.buffer.rewards.append(-(near**2) if config["continuous_action_space"] else float(near == 0))
            agent.buffer.is_terminals.append(True)
        agent.update()
    with torch.no_grad():
        return agent.policy.actor(torch.from_numpy(states))
