"""The judge's own four methods, by formulas instead of torch's distributions."""

from __future__ import annotations

import math
from typing import Any

import torch


def standardised(rewards: Any, ends: Any, gamma: float) -> Any:
    """Returns of a rollout minus their mean, divided by their standard deviation; float32."""
    returns = torch.zeros(len(rewards), dtype=torch.float64)
    for first in range(len(returns)):
        share = 1.0
        for step in range(first, len(returns)):
            returns[first] += share * float(rewards[step])
            share *= gamma
            if ends[step] or share < 1e-20:
                break
    return ((returns - returns.mean()) / (returns.std() + 1e-7)).float()


def completed(ppo: Any) -> None:
    """Give the starter's classes their methods."""

    def evaluate(self: Any, state: Any, action: Any) -> Any:
        out, value = self.actor(state), self.critic(state)[:, 0]
        if not self.continuous_action_space:
            entropy = -(out * out.clamp(min=1e-30).log()).sum(1)
            return out.gather(1, action.long()[:, None])[:, 0].log(), value, entropy
        var = self.action_var
        offset = action.reshape(out.shape) - out
        logprob = -(offset**2 / (2 * var)).sum(1) - 0.5 * (2 * math.pi * var).log().sum()
        return logprob, value, (0.5 * (2 * math.pi * math.e * var).log().sum()).expand(len(out)) + 0 * logprob

    def update(self: Any) -> None:
        kept = self.buffer
        goal = standardised([float(it) for it in kept.rewards], kept.is_terminals, self.gamma)
        gain = goal - torch.stack(kept.state_values)
        for _ in range(self.K_epochs):
            logprob, value, entropy = self.policy.evaluate(torch.stack(kept.states), torch.stack(kept.actions))
            ratio = (logprob - torch.stack(kept.logprobs)).exp()
            high, low = 1 + self.eps_clip, 1 - self.eps_clip
            # The smaller of both products: bounded above where the gain is positive, below where it is negative.
            bound = torch.where(gain > 0, ratio.clamp(max=high), ratio.clamp(min=low)) * gain
            self.optimizer.zero_grad()
            (-bound + 0.5 * (value - goal) ** 2 - 0.01 * entropy).mean().backward()
            self.optimizer.step()
        self.policy_old.load_state_dict(self.policy.state_dict())
        kept.clear()

    ppo.ActorCritic.evaluate, ppo.PPO.update = evaluate, update
