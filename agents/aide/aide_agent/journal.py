"""The tree of attempts: what was tried, what came of it, and which attempt is the best."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

Stage = Literal["draft", "debug", "improve"]


@dataclass
class Node:
    """One attempt."""

    number: int
    """Its place in the journal, from 0."""
    parent: int | None
    plan: str
    code: str
    created: float = field(default_factory=time.time)
    output: str = ""
    status: int | None = None
    """Of the script; None: it has not run, or a time limit ended it."""
    seconds: float = 0.0
    fault: str = ""
    """Why it could not be stored or run, or its files not be kept."""
    files: list[str] = field(default_factory=list)
    """What it made, changed and deleted."""
    reviewed: bool = False
    analysis: str = ""
    metric: float | None = None
    lower_is_better: bool | None = None
    buggy: bool = True


class Journal:
    """All nodes in the order in which they were made."""

    def __init__(self, lower_is_better: bool | None = None) -> None:
        self.nodes: list[Node] = []
        self._direction = lower_is_better

    def add(self, parent: Node | None, plan: str, code: str) -> Node:
        node = Node(len(self.nodes), None if parent is None else parent.number, plan, code)
        self.nodes.append(node)
        return node

    @property
    def drafts(self) -> list[Node]:
        return [node for node in self.nodes if node.parent is None]

    @property
    def good(self) -> list[Node]:
        return [node for node in self.nodes if not node.buggy]

    def stage(self, node: Node) -> Stage:
        if node.parent is None:
            return "draft"
        return "debug" if self.nodes[node.parent].buggy else "improve"

    def is_leaf(self, node: Node) -> bool:
        return all(other.parent != node.number for other in self.nodes)

    def debug_depth(self, node: Node) -> int:
        """How many repairs in a row led to it."""
        depth = 0
        while self.stage(node) == "debug" and node.parent is not None:
            depth += 1
            node = self.nodes[node.parent]
        return depth

    @property
    def lower_is_better(self) -> bool:
        """One direction for all nodes: the given one, else what most good nodes say, the first of them at a draw."""
        if self._direction is not None:
            return self._direction
        said = [node.lower_is_better for node in self.good if node.lower_is_better is not None]
        lower = sum(said)
        return said[0] if said and 2 * lower == len(said) else 2 * lower > len(said)

    def best(self) -> Node | None:
        """The good node with the best metric, the earliest of equals. Zero is a metric like any other."""
        sign = -1.0 if self.lower_is_better else 1.0
        measured = [(sign * node.metric, -node.number) for node in self.good if node.metric is not None]
        return self.nodes[-max(measured)[1]] if measured else None

    def extremes(self) -> set[int]:
        """The only nodes that can be the best one, whichever direction turns out to be right."""
        measured = [node for node in self.good if node.metric is not None]
        if not measured:
            return set()
        metrics = [node.metric for node in measured if node.metric is not None]
        return {measured[metrics.index(max(metrics))].number, measured[metrics.index(min(metrics))].number}

    def to_export(self) -> Node | None:
        """What the workspace shall hold: the best node, or for want of one the latest that ran to its end."""
        ended = [node for node in self.nodes if node.status == 0 and not node.fault]
        return self.best() or (ended[-1] if ended else None)

    def save(self, path: Path) -> None:
        best = self.best()
        content = {
            "schema": 1,
            "lower_is_better": self.lower_is_better,
            "best": None if best is None else best.number,
            "nodes": [
                {**asdict(node), "stage": self.stage(node), "debug_depth": self.debug_depth(node)}
                for node in self.nodes
            ],
        }
        new = path.with_suffix(".new")
        new.write_text(json.dumps(content, indent=1), encoding="ascii")
        os.replace(new, path)


def new_folder(out: Path) -> Path:
    """A folder for this search that no earlier one has used: `search-1`, `search-2`, ..."""
    used = [int(path.name[7:]) for path in out.glob("search-*") if path.name[7:].isdecimal()]
    folder = out / f"search-{max(used, default=0) + 1}"
    folder.mkdir(parents=True)
    return folder
