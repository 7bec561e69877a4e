"""The judge's games, and what a search by UCT must do in them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

C_PUCT = 1.38
DEFAULT = "number", [0]
"""Kind of the actions, and the moves before the search."""
CHAIN: list[Any] = [*([place + 1] for place in range(1500)), 2.5]
"""A game of single moves."""
LONG: list[Any] = [*([place + 1] for place in range(30_000)), 2.5]
"""The same, for searches: thirty thousand moves."""
UNEVEN: list[Any] = [[1, 2, 3], 1.0, [4, 5], [6, 7, 8, 9], 2.0, 3.0, 4.0, 5.0, [10, 11], 6.0, 7.0, 8.0]
"""A game whose ends lie one to three moves from the start."""
SCALES = *[(-2.0, 2.0)] * 6, (-3e13, -1e13), (-3e200, -1e200), (1e13, 3e13), (1e9, 1e9 + 4)
"""Means of nodes in planted trees: a reward may be any number, and large ones may differ by little."""


def bound(visits: int, value: float, total: int, constant: float) -> float:
    return math.inf if not visits else value / visits + constant * math.sqrt(math.log(total) / visits)


def grown(wide: int, depth: int) -> tuple[list[Any], list[tuple[int, list[int]]]]:
    """A game of `depth` rounds of `wide` moves each, and the places of its ends with the moves that lead there."""
    game: list[Any] = [0.0]
    level: list[tuple[int, list[int]]] = [(0, [])]
    for _ in range(depth):
        for place, _moves in level:
            game[place] = list(range(len(game), len(game) + wide))
            game += [0.0] * wide
        level = [(child, [*moves, n]) for place, moves in level for n, child in enumerate(game[place])]
    return game, level


def arms(rewards: list[float], depth: int) -> list[Any]:
    """A game in which the first move decides the reward."""
    game, ends = grown(len(rewards), depth)
    for place, moves in ends:
        game[place] = rewards[moves[0]]
    return game


def trap(ws: Any) -> tuple[list[Any], int]:
    """A game whose best end lies behind the move that is worst on average; and that move."""
    game, ends = grown(3, 3)
    path = [ws.rng.randrange(3) for _ in range(3)]
    for place, moves in ends:
        near = moves[0] == path[0]
        game[place] = 1.0 if moves == path else 0.09 * (moves[1] == path[1]) if near else ws.rng.uniform(0.3, 0.4)
    return game, path[0]


def visits(rewards: list[float], simulations: int, constant: float) -> list[int]:
    """Visits of moves with these rewards after simulations by UCT: each once, and then the largest bound."""
    counts = [1] * len(rewards)
    for done in range(len(rewards), simulations):
        values = [bound(n, n * reward, done, constant) for n, reward in zip(counts, rewards, strict=True)]
        counts[int(np.argmax(values))] += 1
    return counts


def drawn_tree(ws: Any, game: list[Any]) -> list[list[Any]]:
    """Random visits and values over a game of three moves; some nodes are not fully expanded, or not visited.

    Below a node without visits there are none; it has children nevertheless, as in a tree that somebody has built.
    """
    rows: list[list[Any]] = [[-1, -1, 10 ** ws.rng.randint(2, 9), ws.rng.uniform(-50, 50), []]]
    # A walk ends at the first node without visits, so that most trees have none.
    places, scale, visited = [0], ws.rng.choice(SCALES), ws.rng.choice([1.0, 1.0, 0.92])
    for above, place in enumerate(places):
        after = game[place] if isinstance(game[place], list) else []
        rows[above][4] = [n for n in range(len(after)) if above and len(after) > 1 and ws.rng.random() < 0.1]
        for n, child in enumerate(after):
            if n not in rows[above][4]:
                visits = ws.rng.randint(2, 60) if rows[above][2] and ws.rng.random() < visited else 0
                rows.append([above, n, visits, visits * ws.rng.uniform(*scale), []])
                places.append(child)
    return rows


def propagated(rows: list[list[Any]], rewards: list[list[Any]]) -> list[list[Any]]:
    """The rows after rewards, each at a row of the tree."""
    now = [list(row) for row in rows]
    for at, reward in rewards:
        while at >= 0:
            now[at][2:4] = [now[at][2] + 1, now[at][3] + reward]
            at = now[at][0]
    return now


def selected(rows: list[list[Any]], constant: float, start: int) -> list[int]:
    """The rows where a walk from the row `start` by the largest bound may end: of equal bounds any is the largest."""
    below: list[list[int]] = [[] for _ in rows]
    for n, row in enumerate(rows[1:], 1):
        below[row[0]].append(n)
    walked, ends = [start], []
    for at in walked:
        if rows[at][4] or not below[at]:
            ends.append(at)
            continue
        bounds = {n: bound(*rows[n][2:4], rows[at][2], constant) for n in below[at]}
        walked += [n for n, value in bounds.items() if math.isclose(value, max(bounds.values()), rel_tol=1e-12)]
    return ends
