"""A quick check while you work on ppo.py: `python test_ppo.py`. The judge looks at more than this."""

import unittest

import numpy as np
import torch

from ppo import PPO


class PPOTest(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(0)

    def test_continuous_action(self) -> None:
        agent = PPO(4, 2)
        action = agent.select_action(np.zeros(4, np.float32))
        self.assertEqual(action.shape, (2,))
        kept = (agent.buffer.states, agent.buffer.actions, agent.buffer.logprobs, agent.buffer.state_values)
        self.assertEqual([len(entries) for entries in kept], [1, 1, 1, 1])

    def test_discrete_action(self) -> None:
        agent = PPO(4, 2, continuous_action_space=False)
        self.assertIn(agent.select_action(np.zeros(4, np.float32)), (0, 1))

    def test_update(self) -> None:
        agent = PPO(4, 2)
        before = [value.clone() for value in agent.policy.parameters()]
        for step in range(50):
            agent.select_action(np.random.default_rng(step).normal(size=4))
            agent.buffer.rewards.append(float(step % 3))
            agent.buffer.is_terminals.append(step % 10 == 9)
        agent.update()
        self.assertTrue(any(bool((a != b).any()) for a, b in zip(before, agent.policy.parameters(), strict=True)))
        self.assertEqual([len(entries) for entries in vars(agent.buffer).values()], [0] * 6)


if __name__ == "__main__":
    unittest.main()
