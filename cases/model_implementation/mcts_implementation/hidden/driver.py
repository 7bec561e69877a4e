"""Plays the judge's games with the agent's search. It knows no expected value: games go in, trees come out.

A game is a list of places: each is a list of the places that its actions lead to, or the reward where it ends.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from typing import Any


class Clock:
    """While a search runs, every clock of `time` leaps an hour at each clone: what hangs on the time it takes shows."""

    leap = ahead = 0

    @staticmethod
    def leaping(clock: Callable[[], Any], second: int) -> Callable[[], Any]:
        return lambda *which: clock(*which) + Clock.ahead * second


for _name in ("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime"):
    setattr(time, _name, Clock.leaping(getattr(time, _name), 1))
    setattr(time, f"{_name}_ns", Clock.leaping(getattr(time, f"{_name}_ns"), 10**9))
# Whoever recurses once a move must not get by with another limit.
sys.setrecursionlimit = lambda limit, /: None

import mcts  # noqa: E402  with these in place


class Hashed(int):
    """A number whose hash is another one in each search, as that of a text is in each process."""

    salt = 0

    def __hash__(self) -> int:
        return hash((Hashed.salt, int(self)))


KINDS: dict[str, Any] = {
    "number": int,
    "hashed": Hashed,
    "text": lambda n: "xyzuvw"[:n],
    "pair": lambda n: (0, -n),
    "mixed": lambda n: (0, None, (), frozenset("a"), 1.5, ("b", 2))[n],
    "empty": lambda n: (None, "", 0, (), b"", frozenset())[n],
}


class Played(mcts.State):  # type: ignore[misc]
    """A place in a game; what is not allowed is an error. What compares as equal is another place all the same."""

    def __init__(self, game: list[Any], kind: str = "number", moves: tuple[int, ...] | list[int] = (0,)) -> None:
        self.game, self.kind, self.moves = game, kind, list(moves)
        self.lists: dict[int, list[Any]] = {}
        self.asked: list[int] = []

    def get_legal_actions(self) -> list[Any]:
        """The game's own list: it is the same one at each visit of a place, in all clones, and nobody may change it."""
        after = [] if self.is_terminal() else self.game[self.moves[-1]]
        actions = [KINDS[self.kind](n) for n in range(len(after))]
        if self.lists.setdefault(self.moves[-1], actions) != actions:
            raise RuntimeError("the game's list of actions was changed")
        return self.lists[self.moves[-1]]

    def is_terminal(self) -> bool:
        return not isinstance(self.game[self.moves[-1]], list)

    def get_reward(self) -> Any:
        if not self.is_terminal():
            raise RuntimeError("get_reward() was asked before the end of the game")
        self.asked.append(self.moves[-1])
        return self.game[self.moves[-1]]

    def clone(self) -> Played:
        other = Played(self.game, self.kind, self.moves)
        other.lists, other.asked = self.lists, self.asked
        Clock.ahead += Clock.leap
        return other

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError("a state was copied without clone()")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Played) and hash(self) == hash(other)

    def __hash__(self) -> int:
        return self.moves[-1] % 3

    def __bool__(self) -> bool:
        return self.moves[-1] % 2 == 1

    def apply_action(self, action: Any) -> None:
        self.moves.append(self.game[self.moves[-1]][self.get_legal_actions().index(action)])


def dumped(root: Any) -> list[list[Any]]:
    """[row of the parent, index of the action, place, visits, value, untried, whether the links hold] of each node."""
    rows, waiting = [], [(root, -1)]
    for node, above in waiting:
        own = node.state.get_legal_actions()
        held = node.parent is None if above < 0 else node.parent.children.get(node.action) is node
        index = node.parent.state.get_legal_actions().index(node.action) if above >= 0 else -1
        untried = sorted(own.index(action) for action in node.untried_actions)
        rows.append([above, index, node.state.moves[-1], node.visit_count, node.total_value, untried, held])
        waiting += [(child, len(rows) - 1) for child in node.children.values()]
    return rows


def bounds(nodes: list[list[Any]], constant: float) -> list[Any]:
    """UCT values of nodes with [visits, value, visits above], None for infinity, and their types."""
    found = []
    for visits, value, total in nodes:
        node = mcts.Node(Played([0.0]), parent=mcts.Node(Played([0.0])))
        # What is asked for under another constant, or of other visits, is not to be remembered.
        mcts.C_PUCT, node.parent.visit_count, node.visit_count, node.total_value = constant + 1, 17, 3, 1.0
        node.get_uct_value(total)
        mcts.C_PUCT, node.visit_count, node.total_value = constant, visits, value
        bound = node.get_uct_value(total)
        found.append([None if bound == float("inf") else bound, type(bound).__name__])
    return found


def planted(game: list[Any], trees: list[list[Any]]) -> list[Any]:
    """For each tree (rows, constant, rewards, start, kind) what `_planted` gives."""
    return [_planted(game, *tree) for tree in trees]


def _planted(
    game: list[Any], rows: list[list[Any]], constant: float, rewards: list[list[Any]], start: int, kind: str
) -> list[Any]:
    """Which row is selected from the row `start`, and the tree before and after rewards are propagated from some rows.

    A row is [row of the parent, index of the action, visits, value, untried].
    """
    mcts.C_PUCT, search, nodes = constant, mcts.MCTS(), []  # type: ignore[var-annotated]
    for above, number, visits, value, untried in rows:
        node = mcts.Node(Played(game, kind))
        if above >= 0:
            state, action = nodes[above].state.clone(), KINDS[kind](number)
            state.apply_action(action)
            node = nodes[above].children[action] = mcts.Node(state, parent=nodes[above], action=action)
        node.visit_count, node.total_value, node.untried_actions = visits, value, list(map(KINDS[kind], untried))
        nodes.append(node)
    chosen = search._select(nodes[start])
    before = dumped(nodes[0])
    for row, reward in rewards:
        search._backpropagate(nodes[row], reward)
    return [[node is chosen for node in nodes], before, dumped(nodes[0])]


def expanded(game: list[Any], kind: str, times: int, seed: int) -> list[Any]:
    """Trees after each expansion of one node, and the first three choices, at most, at each of many others.

    At every other one the first choice is not the agent's: it has a child that somebody else has added.
    """
    random.seed(seed)
    root, steps = mcts.Node(Played(game, kind)), []
    while root.untried_actions:
        child = mcts.MCTS()._expand(root)
        steps.append([dumped(root), child is list(root.children.values())[-1], root.state.moves, child.state.moves])
    search, start, choices = mcts.MCTS(), Played(game, kind), []
    places = {action: n for n, action in enumerate(start.get_legal_actions())}
    other = random.Random(seed + 1)
    for turn in range(times):
        node, chosen = mcts.Node(start), []
        if turn % 2 and len(places) > 1:
            chosen.append(node.untried_actions.pop(other.randrange(len(places))))
            state = start.clone()
            state.apply_action(chosen[0])
            node.children[chosen[0]] = mcts.Node(state, parent=node, action=chosen[0])
        while len(chosen) < min(3, len(places)):
            chosen.append(search._expand(node).action)
        choices.append([places[action] for action in chosen])
    return [steps, choices]


def played(game: list[Any], times: int, seed: int) -> list[Any]:
    """Rewards of playouts from the start, their types, and the moves in the given state afterwards."""
    random.seed(seed)
    state = Played(game)
    search = mcts.MCTS()
    rewards = [search._simulate(state) for _ in range(times)]
    return [rewards, sorted({type(reward).__name__ for reward in rewards}), state.moves]


class Watched(mcts.MCTS):  # type: ignore[misc]
    """Remembers the tree from which it chooses."""

    def _select_best_action(self, root: Any) -> Any:
        self.seen = root
        return super()._select_best_action(root)


def searched(game: list[Any], plans: list[list[Any]], constant: float) -> list[Any]:
    """For each plan (simulations, seed, kind, moves): the action's index, the tree, the state's moves afterwards,
    whether the tree is over another object than the state, and how many rewards were asked for.

    One object makes all searches of as many simulations, the first of them with another constant, and all from the
    same place get the same state. Without a seed the generator stays where the last search left it.
    """
    found = []
    searches: dict[int, Any] = {}
    states: dict[Any, Played] = {}
    for count, seed, kind, moves in plans:
        if count not in searches:
            mcts.C_PUCT, searches[count] = constant + 5, Watched(n_simulations=count)
            searches[count].search(Played([[1, 2], 0.0, 1.0]))
        mcts.C_PUCT, search = constant, searches[count]
        state = states.setdefault((kind, *moves), Played(game, kind, moves))
        state.asked.clear()
        Hashed.salt += 1
        if seed is not None:
            random.seed(seed)
        search.seen, Clock.leap = None, 3600
        action = search.search(state)
        Clock.leap = Clock.ahead = 0
        actions = state.get_legal_actions()  # None may be one of them
        index = actions.index(action) if action in actions else None
        # Whoever sees at once that there is no action may build no tree, or choose nothing from it.
        tree = None if search.seen is None else dumped(search.seen)
        found.append([index, tree, state.moves, tree is None or search.seen.state is not state, len(state.asked)])
    return found


def settings(search: Any, game: list[Any]) -> list[Any]:
    """The number of simulations that a search of the judge's probe is set to, and makes."""
    search.__class__ = Watched
    search.search(Played(game))
    return [search.n_simulations, search.seen.visit_count]
