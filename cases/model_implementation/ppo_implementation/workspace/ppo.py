"""Proximal policy optimisation (PPO) for continuous and discrete actions."""

from pathlib import Path

import numpy as np
import torch
from torch import nn


class RolloutBuffer:
    """What was seen since the last update: six lists with one entry a step."""

    def __init__(self) -> None:
        self.actions: list[torch.Tensor] = []
        self.states: list[torch.Tensor] = []
        self.logprobs: list[torch.Tensor] = []
        self.rewards: list[float] = []
        self.state_values: list[torch.Tensor] = []
        self.is_terminals: list[bool] = []

    def clear(self) -> None:
        for entries in vars(self).values():
            entries.clear()


class ActorCritic(nn.Module):
    """A network for the actions and one for the value of a state."""

    def __init__(
        self, state_dim: int, action_dim: int, action_std_init: float, continuous_action_space: bool = True
    ) -> None:
        super().__init__()
        self.continuous_action_space, self.action_dim = continuous_action_space, action_dim
        self.register_buffer("action_var", torch.full((action_dim,), action_std_init**2), persistent=False)

        def layers(out: int) -> list[nn.Module]:
            return [nn.Linear(state_dim, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, out)]

        self.actor = nn.Sequential(*layers(action_dim), nn.Tanh() if continuous_action_space else nn.Softmax(dim=-1))
        self.critic = nn.Sequential(*layers(1))

    def act(self, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """A drawn action for one state (state_dim,), its log probability and the state's value, all detached."""
        # TODO
        raise NotImplementedError("ActorCritic.act")

    def evaluate(self, state: torch.Tensor, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Log probabilities, values and entropies, (n,) each, for states (n, state_dim) and their actions."""
        # TODO
        raise NotImplementedError("ActorCritic.evaluate")


class PPO:
    """An agent: acts by an old policy, and improves a new one by what it has seen."""

    def __init__(
        self,
        state_dim: int,
        action_dim: int,
        lr_actor: float = 0.0003,
        lr_critic: float = 0.001,
        gamma: float = 0.99,
        K_epochs: int = 4,
        eps_clip: float = 0.2,
        continuous_action_space: bool = True,
        action_std_init: float = 0.6,
    ) -> None:
        self.gamma, self.K_epochs, self.eps_clip = gamma, K_epochs, eps_clip
        self.continuous_action_space = continuous_action_space
        self.buffer = RolloutBuffer()
        self.policy = ActorCritic(state_dim, action_dim, action_std_init, continuous_action_space)
        self.policy_old = ActorCritic(state_dim, action_dim, action_std_init, continuous_action_space)
        self.policy_old.load_state_dict(self.policy.state_dict())
        self.optimizer = torch.optim.Adam([
            {"params": self.policy.actor.parameters(), "lr": lr_actor},
            {"params": self.policy.critic.parameters(), "lr": lr_critic},
        ])
        self.mse_loss = nn.MSELoss()

    def select_action(self, state: np.ndarray) -> np.ndarray | int:
        """An action of the old policy for a state; what belongs to it goes into the buffer."""
        # TODO
        raise NotImplementedError("PPO.select_action")

    def update(self) -> None:
        """Improve the policy by the buffer, copy it to the old one, and clear the buffer."""
        # TODO
        raise NotImplementedError("PPO.update")

    def save(self, path: str | Path) -> None:
        torch.save(self.policy_old.state_dict(), path)

    def load(self, path: str | Path) -> None:
        state = torch.load(path, weights_only=True)
        self.policy.load_state_dict(state)
        self.policy_old.load_state_dict(state)
