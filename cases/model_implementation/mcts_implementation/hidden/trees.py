"""Trees that the driver dumped: their form, and what every tree of a search or of planted nodes must have."""

from __future__ import annotations

from typing import Any

from games import propagated, selected

from bench.judge import integer, number, sequence


def rows_of(found: Any) -> list[list[Any]]:
    """A tree that the driver dumped, in valid form."""
    rows: list[list[Any]] = []
    for entry in sequence(found):
        above, action, place, visits, value, untried, held = sequence(entry, length=7)
        assert held is True, "a child is not registered with its parent under its action"
        plain = [integer(above, high=len(rows) - 1), integer(action), integer(place), integer(visits), number(value)]
        rows.append([*plain, [integer(n) for n in sequence(untried)]])
    assert rows, "there is no tree"
    return rows


def built(game: list[Any], answer: Any, plan: list[Any]) -> tuple[Any, list[list[Any]]]:
    """The chosen action and the tree of a search, which has what every tree of so many simulations has."""
    best, tree, moves, cloned, asked = sequence(answer, length=5)
    assert moves == plan[3], "the search has changed the state that it was given"
    assert cloned is True, "the tree is over the state itself, and not over a clone"
    if tree is None:
        ended = plan[0] == 0 or not isinstance(game[plan[3][-1]], list)
        assert ended and best is None, f"{plan[0]} simulations chose {best} without `_select_best_action`"
        assert integer(asked) in (0, plan[0]), f"{plan[0]} simulations asked for {asked} rewards"
        return best, []
    assert integer(asked) == plan[0], f"{plan[0]} simulations asked for {asked} rewards"
    rows = rows_of(tree)
    children: list[list[list[Any]]] = [[] for _ in rows]
    for row in rows[1:]:
        children[row[0]].append(row)
    assert rows[0][3] == plan[0], f"the root has {rows[0][3]} visits after {plan[0]} simulations"
    # As the given method does: of equally many visits the child that came first.
    chosen = max(children[0], key=lambda child: child[3], default=None)
    assert best == (chosen and chosen[1]), f"move {best} was returned, the given method chooses {chosen and chosen[1]}"
    ends = [end for end in game if not isinstance(end, list)]
    for above, (row, below) in enumerate(zip(rows, children, strict=True)):
        _, _, place, visits, value, untried = row
        after, told = game[place], f"a node with {visits} visits and {len(below)} children"
        if not isinstance(after, list):
            assert not below, "a terminal node has children"
            assert abs(value - visits * after) <= 1e-9 * max(1, abs(value)), f"{told}: value {value} of reward {after}"
            continue
        tried = sorted(child[1] for child in below)
        assert sorted(tried + untried) == list(range(len(after))), f"{told}: tried {tried}, untried {untried}"
        assert all(child[2] == after[child[1]] for child in below), f"{told}: a child has the state of another action"
        through = sum(child[3] for child in below)
        assert visits == through + (above > 0), f"{told}: these have {through} visits"
        assert not untried or all(child[3] == 1 for child in below), f"{told}: a child was selected before the last one"
        total = sum(child[4] for child in below)
        own = [value - total - reward for reward in (ends if above else [0.0])]
        near = min(map(abs, own)) <= 1e-9 * max(1, abs(value))
        assert near, f"{told}: of its value {value}, {value - total} is not the reward of one playout"
    return best, rows


def assert_planted(rows: list[list[Any]], constant: float, rewards: list[list[Any]], start: int, answer: Any) -> None:
    marks, *trees = sequence(answer, length=3)
    at = [n for n, mark in enumerate(sequence(marks, length=len(rows))) if mark is True]
    assert len(at) == 1 and at[0] in selected(rows, constant, start), f"the wrong node of {len(rows)} was selected"
    before, after = ([[*row[:2], *row[3:]] for row in rows_of(tree)] for tree in trees)
    assert before == rows, "the selection has changed the tree"
    assert len(after) == len(rows), "the back-propagation has changed the tree"
    for now, wanted in zip(after, propagated(rows, rewards), strict=True):
        same = now[2] == wanted[2] and abs(now[3] - wanted[3]) <= 1e-9 * max(1, abs(wanted[3]))
        assert same, f"a node has the visits and value {now[2:4]} after rewards, expected {wanted[2:4]}"
