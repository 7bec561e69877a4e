"""Judges a tree search by the trees that it builds: the judge works out the visits that there must be.

A tree that the driver shows is a claim of the process that built it, and believed as far as it follows from the game.
"""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np
from chances import assert_even, assert_shares
from games import C_PUCT, CHAIN, DEFAULT, LONG, UNEVEN, arms, bound, drawn_tree, trap, visits
from trees import assert_planted, built, rows_of

from bench.casekit.given_code import altered
from bench.judge import Probe, check, integer, number, run_command, sequence

WRITTEN = {
    "Node.get_uct_value",
    *(f"MCTS.{it}" for it in ("search", "_select", "_expand", "_simulate", "_backpropagate")),
}
"""What the agent is to write."""
SEARCH = Probe("MCTS(n_simulations=100)", target="mcts:MCTS", observe="driver.py:settings")


def _searches(ws: Any, game: list[Any], plans: list[list[Any]], constant: float) -> list[tuple[Any, list[list[Any]]]]:
    found = sequence(ws.drive("driver.py:searched", game, plans, constant), length=len(plans))
    return [built(game, answer, plan) for answer, plan in zip(found, plans, strict=True)]


@check(weight=2, required=True)
def bound_is_exact(ws: Any) -> None:
    """`get_uct_value(total_visits)` equals the formula to 1e-9, for any constant; without visits it is infinite."""
    for constant in (C_PUCT, 0.0, 0.37, 25.0):
        nodes = [[ws.rng.randint(1, 60), ws.rng.uniform(-90, 90), ws.rng.randint(60, 9000)] for _ in range(12)]
        nodes += [[0, 0.0, 7], [0, 0.0, 1], [1, -3.5, 1], [3, 0.0, 3]]
        found = sequence(ws.drive("driver.py:bounds", nodes, constant), length=len(nodes))
        for node, answer in zip(nodes, found, strict=True):
            answered, kind = sequence(answer, length=2)
            wanted = bound(*node, constant)
            assert kind == "float", f"the UCT value is of the type {kind}"
            value = math.inf if answered is None else number(answered)
            same = value == wanted or abs(value - wanted) <= 1e-9 * max(1, abs(wanted))
            assert same, f"visits, value and visits above {node}: UCT value {value!r}, expected {wanted!r}"


@check(weight=2, required=True)
def planted_trees(ws: Any) -> None:
    """`_select(node)` walks as the judge from any node; `_backpropagate(node, reward)` counts once a level."""
    for game, count in ((CHAIN, 1), (trap(ws)[0], 150), (UNEVEN, 80)):
        trees = []
        for turn, rows in enumerate(drawn_tree(ws, game) for _ in range(count)):
            size = ws.rng.choice([1.0, 1.0, 1e12])
            rewards = [[ws.rng.randrange(len(rows)), size * ws.rng.uniform(-9, 30)] for _ in range(9)]
            rewards.append([len(rows) - 1, 1.5])
            start = ws.rng.randint(1, 3) if turn % 5 == 4 else 0
            kind = ("number", "empty", "mixed")[turn % 3]
            trees.append((rows, ws.rng.choice([0.0, 1.38, 3.0, 6.0]), rewards, start, kind))
        found = sequence(ws.drive("driver.py:planted", game, trees), length=count)
        for tree, answer in zip(trees, found, strict=True):
            assert_planted(*tree[:4], answer)


@check(weight=2, required=True)
def expansion_adds_one_child(ws: Any) -> None:
    """`_expand(node)` adds one child at a time, each untried action equally likely, and leaves the node's state."""
    for wide, kind in ((5, "number"), (1, "pair"), (4, "text")):
        game = arms([float(n) for n in range(wide)], 2)
        steps, _ = sequence(ws.drive("driver.py:expanded", game, kind, 1, ws.seed_for(kind)), length=2)
        for done, step in enumerate(sequence(steps, length=wide), 1):
            tree, last, own, moves = sequence(step, length=4)
            rows = rows_of(tree)
            assert len(rows) == done + 1 and last is True, f"{len(rows) - 1} children after {done} expansions"
            assert own == [0], "the expansion has moved the node's own state"
            assert moves == [0, game[0][rows[-1][1]]], "the child's state is not that after its action"
            assert not any(row[3] or row[4] for row in rows), "an expansion counts visits or values"
            tried = sorted(row[1] for row in rows[1:])
            assert sorted(tried + rows[0][5]) == list(range(wide)), f"tried {tried}, untried {rows[0][5]}"
    orders = {order: n for n, order in enumerate(permutations(range(3)))}
    for wide, kind, times in ((3, "number", 12000), (5, "pair", 12000), (150, "number", 4000)):
        game = [list(range(1, wide + 1)), *map(float, range(wide))]
        steps, found = sequence(ws.drive("driver.py:expanded", game, kind, times, ws.seed_for(f"{wide}")), length=2)
        choices = [[integer(n, 0, wide - 1) for n in sequence(it, length=3)] for it in sequence(found, length=times)]
        assert all(len(set(it)) == 3 for it in choices), "an action was expanded twice"
        for turn, chosen in enumerate(zip(*choices, strict=True), 1):
            assert_even(list(chosen), wide, f"choice {turn} of {wide} untried actions")
        if wide == 3:
            assert_even([orders[tuple(it)] for it in choices], 6, "orders of three actions")


@check(weight=2, required=True)
def playouts_are_uniform(ws: Any) -> None:
    """`_simulate(state)` gives each end with its probability under uniform moves, and leaves the state alone."""
    scale = ws.rng.uniform(-400, -100)
    # Ends at different depths, so that uniform moves are not uniform ends.
    game = [it if isinstance(it, list) else it * scale for it in UNEVEN]
    chances = np.array([1 / 3, 1 / 6, 1 / 6, 1 / 12, 1 / 12, 1 / 12, 1 / 24, 1 / 24])
    rewards, kinds, moves = sequence(ws.drive("driver.py:played", game, 12000, ws.seed_for("playouts")), length=3)
    ends = np.array([number(reward) / scale for reward in sequence(rewards, length=12000)])
    assert np.abs(ends - np.round(ends)).max() < 1e-9, "a playout's reward is not that of a terminal state"
    places = np.round(ends).astype(int) - 1
    assert places.min() >= 0 and places.max() < 8, "a playout's reward is not that of a terminal state"
    assert_shares(places.tolist(), chances, "ends were met")
    assert moves == [0], "the playout has changed the state that it was given"
    assert kinds == ["float"], f"rewards of playouts have the types {kinds}"
    for wide, times in ((3, 16000), (5, 16000), (150, 4000)):
        game = [list(range(1, wide + 1)), *map(float, range(wide))]
        rewards, *_ = sequence(ws.drive("driver.py:played", game, times, ws.seed_for(f"{wide}")), length=3)
        firsts = [int(number(it, 0, wide - 1)) for it in sequence(rewards, length=times)]
        assert_even(firsts, wide, f"moves of playouts among {wide}")
        if wide == 3:
            pairs = [3 * first + second for first, second in zip(firsts[::2], firsts[1::2], strict=True)]
            assert_shares(pairs, np.full(9, 1 / 9), "pairs of moves of successive playouts")
    for reward in (7, -2.5):
        own, kinds, _ = sequence(ws.drive("driver.py:played", [reward], 3, 1), length=3)
        assert [number(it) for it in sequence(own)] == [reward] * 3, f"from a terminal state of {reward}: {own}"
        assert kinds == ["float"], f"from a terminal state the type is {kinds}"


@check(weight=4, required=True)
def visits_are_those_of_uct(ws: Any) -> None:
    """Where all rewards below a move are equal, the visits of all moves are exactly those that UCT gives."""
    for wide, depth, size in ((2, 1, 1.0), (5, 1, 1.0), (3, 3, 4.0), (6, 2, 0.2), (4, 3, 1.0)):
        constant, rewards = ws.rng.choice([0.2, 1.38, 3.0]), [ws.rng.uniform(-size, size) for _ in range(wide)]
        plans = [[count, ws.rng.getrandbits(32), *DEFAULT] for count in (wide - 1, wide, wide + 1, 37, 211)]
        game, early = arms(rewards, depth), ws.rng.randrange(wide)
        if depth == 3:  # one move ends the game, beside others that do not
            game[game[0][early]] = rewards[early]
        for plan, (_, rows) in zip(plans, _searches(ws, game, plans, constant), strict=True):
            counts = [row[3] for row in sorted(rows[1:], key=lambda row: row[1]) if row[0] == 0]
            wanted = visits(rewards, plan[0], constant) if plan[0] >= wide else counts
            assert counts == wanted, f"{plan[0]} simulations of {wide} moves: visits {counts}, expected {wanted}"


@check(weight=3, required=True)
def best_move_is_found(ws: Any) -> None:
    """600 simulations find the best end behind the move that random playouts like least."""
    right = []
    for _ in range(6):
        game, best = trap(ws)
        [(found, _)] = _searches(ws, game, [[600, ws.rng.getrandbits(32), *DEFAULT]], 0.7)
        right.append(found == best)
    ws.metric("best_moves", sum(right) / len(right))
    assert all(right), f"the best move was found in {sum(right)} of {len(right)} games"


@check(weight=2, required=True)
def ends_and_sizes(ws: Any) -> None:
    """Terminal states, no simulations, one move, thousands of moves, actions of any kind; a seed repeats a search."""
    rewards, seed = [ws.rng.uniform(-1, 1) for _ in range(3)], ws.rng.getrandbits(32)
    game = arms(rewards, 3)
    plans = [[90, it, *DEFAULT] for it in (seed, seed + 1, seed)] + [
        [90, seed, kind, [0]] for kind in ("text", "pair", "mixed")
    ]
    plans += [[40, 1, "number", [0, 3, 11]], [9, 1, "number", [0, 1, 4, 13]], [0, 1, *DEFAULT], [1, 1, *DEFAULT]]
    found = _searches(ws, game, plans, C_PUCT)
    first, other, again = (rows for _, rows in found[:3])
    assert first == again, "the same seed has built another tree"
    assert first != other, "another seed has built the same tree"
    # Here playouts decide what the tree becomes.
    plans = [[120, it, "hashed", [0]] for it in (seed, seed, seed, seed, None)]
    *same, (_, after) = _searches(ws, trap(ws)[0], plans, 0.7)
    first = same[0][1]
    assert all(rows == first for _, rows in same), "after the same random.seed playouts have built another tree"
    assert first != after, "the next search draws again what the last one drew"
    plans = [[1, seed if n == 0 else None, *DEFAULT] for n in range(12)]
    firsts = {rows[1][1] for _, rows in _searches(ws, arms([0.0] * 6, 1), plans, C_PUCT)}
    assert len(firsts) > 1, "twelve searches of one simulation, one after the other, have drawn the same action"
    wanted = visits(rewards, 90, C_PUCT)
    for best, _ in found[:6]:
        assert wanted[integer(best, 0, 2)] == max(wanted), f"move {best} was chosen, visits must be {wanted}"
    [(best, rows)] = _searches(ws, LONG, [[3, 1, *DEFAULT]], C_PUCT)
    assert best == 0 and len(rows) == 4 and rows[0][4] == 7.5, "a game of single moves has another tree"


@check(weight=1, required=True)
def called_as_promised(ws: Any) -> None:
    """`MCTS(n_simulations=100)` by name, by position and left out."""

    def right(values: dict[str, Any], extra: Any, value: Any) -> None:
        counts = [integer(it) for it in sequence(value, length=2)]
        assert counts == [values["n_simulations"]] * 2, f"set to and made: {counts} simulations"

    SEARCH.signature(ws, {"n_simulations": 33}, lambda _: [arms([0.5, 1.0], 3)], right)


@check(weight=0, guard=True)
def given_code_stays(ws: Any) -> None:
    """What `mcts.py` gives is as it was; comments, docstrings, form and further definitions are free."""
    changed = altered(ws.original("mcts.py").read_text("utf-8"), ws.source("mcts.py"), WRITTEN)
    assert not changed, f"given in mcts.py, and changed: {', '.join(changed)}"


@check(weight=0, required=True)
def visible_test_passes(ws: Any) -> None:
    """The visible test ends well."""
    run_command(ws, "python test_mcts.py")
