"""Monte Carlo tree search for games with one player."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any

C_PUCT = 1.38

Action = Hashable


class State(ABC):
    """A position of a game."""

    @abstractmethod
    def get_legal_actions(self) -> list[Any]:
        """Actions that are possible here; none where the game is over."""

    @abstractmethod
    def is_terminal(self) -> bool:
        """Whether the game is over."""

    @abstractmethod
    def get_reward(self) -> float:
        """What the player gets; only where the game is over."""

    @abstractmethod
    def clone(self) -> State:
        """An independent copy."""

    @abstractmethod
    def apply_action(self, action: Any) -> None:
        """Make a move: changes this state."""


class Node:
    """A state in the tree, with what the simulations through it have given."""

    def __init__(self, state: State, parent: Node | None = None, action: Any = None) -> None:
        self.state = state
        self.parent = parent
        self.action = action
        self.children: dict[Any, Node] = {}
        self.visit_count = 0
        self.total_value = 0.0
        self.untried_actions = list(state.get_legal_actions())

    def is_fully_expanded(self) -> bool:
        """Whether every action has a child."""
        return not self.untried_actions

    def is_terminal(self) -> bool:
        """Whether the game is over here."""
        return self.state.is_terminal()

    def get_uct_value(self, total_visits: int) -> float:
        """Upper confidence bound of this node, below a parent with so many visits."""
        if self.visit_count == 0:
            return math.inf
        mean = self.total_value / self.visit_count
        return mean + C_PUCT * math.sqrt(math.log(total_visits) / self.visit_count)


class MCTS:
    """The search."""

    def __init__(self, n_simulations: int = 100) -> None:
        self.n_simulations = n_simulations

    def search(self, state: State) -> Any:
        """The action that the simulations prefer; None where there is none."""
        root = Node(state.clone())
        for _ in range(self.n_simulations):
            node = self._select(root)
            if not node.is_terminal():
                node = self._expand(node)
            self._backpropagate(node, self._simulate(node.state))
        return self._select_best_action(root)

    def _select(self, node: Node) -> Node:
        """The node from which the tree grows next."""
        while node.is_fully_expanded() and not node.is_terminal():
            visits = node.visit_count
            node = max(node.children.values(), key=lambda child: child.get_uct_value(visits))
        return node

    def _expand(self, node: Node) -> Node:
        """A new child of the node."""
        action = node.untried_actions.pop(random.randrange(len(node.untried_actions)))
        state = node.state.clone()
        state.apply_action(action)
        node.children[action] = Node(state, parent=node, action=action)
        return node.children[action]

    def _simulate(self, state: State) -> float:
        """The reward at the end of a random game."""
        state = state.clone()
        while not state.is_terminal():
            state.apply_action(random.choice(state.get_legal_actions()))
        return float(state.get_reward())

    def _backpropagate(self, node: Node, reward: float) -> None:
        """Count the reward for the node and all above it."""
        current: Node | None = node
        while current is not None:
            current.visit_count += 1
            current.total_value += reward
            current = current.parent

    def _select_best_action(self, root: Node) -> Any:
        """The action with the most visits; None without any child."""
        if not root.children:
            return None
        return max(root.children, key=lambda action: root.children[action].visit_count)
