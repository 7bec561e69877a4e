"""What to do next: a new draft, the repair of a failed attempt, or a change to the best one."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .journal import Journal, Node, Stage
from .settings import Search


@dataclass(frozen=True)
class Move:
    stage: Stage
    parent: Node | None


def next_move(journal: Journal, search: Search, generator: random.Random) -> Move:
    """AIDE's rules, in its order; one number is drawn a step once the drafts are made, two for a repair."""
    if len(journal.drafts) < search.drafts:
        return Move("draft", None)
    if generator.random() < search.debug_probability:
        candidates = [
            node
            for node in journal.nodes
            if node.buggy and journal.is_leaf(node) and journal.debug_depth(node) <= search.deepest_debug
        ]
        if candidates:
            return Move("debug", generator.choice(candidates))
    best = journal.best()
    return Move("draft", None) if best is None else Move("improve", best)
