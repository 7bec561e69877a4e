"""A quick check while you work on mcts.py: `python test_mcts.py`. The judge looks at more than this."""

from __future__ import annotations

import math
import unittest

from mcts import MCTS, Node, State


class Ladder(State):
    """Five rungs: `up` and `stay`, six moves; the reward is the rung at the end."""

    def __init__(self, rung: int = 0, moves: int = 6) -> None:
        self.rung, self.moves = rung, moves

    def get_legal_actions(self) -> list[str]:
        return ["up", "stay"] if self.moves else []

    def is_terminal(self) -> bool:
        return self.moves == 0

    def get_reward(self) -> float:
        return min(self.rung, 5) / 5

    def clone(self) -> Ladder:
        return Ladder(self.rung, self.moves)

    def apply_action(self, action: str) -> None:
        self.rung += action == "up"
        self.moves -= 1


class SearchTest(unittest.TestCase):
    def test_a_new_node(self) -> None:
        node = Node(Ladder())
        self.assertEqual((node.visit_count, node.total_value, node.children), (0, 0.0, {}))
        self.assertEqual(node.get_uct_value(5), math.inf)

    def test_uct_is_above_the_mean(self) -> None:
        node = Node(Ladder())
        node.visit_count, node.total_value = 4, 2.0
        self.assertGreater(node.get_uct_value(10), 0.5)

    def test_expansion(self) -> None:
        root = Node(Ladder())
        child = MCTS()._expand(root)
        self.assertIs(root.children[child.action], child)
        self.assertEqual(len(root.untried_actions), 1)

    def test_playout(self) -> None:
        state = Ladder()
        self.assertTrue(0 <= MCTS()._simulate(state) <= 1)
        self.assertEqual(state.moves, 6)

    def test_back_propagation(self) -> None:
        root = Node(Ladder())
        child = MCTS()._expand(root)
        MCTS()._backpropagate(child, 0.5)
        self.assertEqual((root.visit_count, child.total_value), (1, 0.5))

    def test_search(self) -> None:
        self.assertEqual(MCTS(n_simulations=400).search(Ladder()), "up")


if __name__ == "__main__":
    unittest.main()
