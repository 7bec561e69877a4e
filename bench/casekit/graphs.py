"""Small graphs in the manner of citations: nodes with words and classes, edges that prefer their own class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int = NDArray[np.int64]


@dataclass(frozen=True)
class Graph:
    """Nodes are numbered from 0, in the order of their years."""

    features: NDArray[np.uint8]
    """nodes x words: whether a word occurs."""
    edges: Int
    """edges x 2: the node that cites and the older one that is cited; no edge occurs twice."""
    labels: Int
    """Class of each node."""
    years: Int
    """Of each node, not falling: for a split by time."""


def citations(
    rng: np.random.Generator,
    nodes: int = 2000,
    classes: int = 7,
    words: int = 200,
    degree: float = 4.0,
    homophily: float = 0.8,
    signal: float = 0.06,
) -> Graph:
    """Draw a graph whose classes neither the words nor the edges tell alone.

    degree: mean number of citations a node makes. homophily: share of them within the class, the rest goes anywhere.
    signal: how much more often than in other classes (3 %) a word of the class occurs; each class has a tenth of the
    words. With the defaults the nearest centroid of the words is right for four or five of ten later nodes, and that of
    the words averaged over neighbours for eight of ten.
    """
    if not 0 <= homophily <= 1 or classes < 2 or nodes < 10 * classes:
        raise ValueError("a homophily in [0, 1], two classes, and ten nodes a class are needed at least")
    labels = rng.integers(0, classes, nodes)
    own = rng.random((classes, words)) < 0.1
    features = rng.random((nodes, words)) < 0.03 + signal * own[labels]
    groups = [np.flatnonzero(labels == name) for name in range(classes)]
    edges: set[tuple[int, int]] = set()
    for node in range(1, nodes):
        older = groups[labels[node]][: np.searchsorted(groups[labels[node]], node)]
        for _ in range(int(rng.poisson(degree))):
            near = rng.random() < homophily and len(older)
            edges.add((node, int(rng.choice(older)) if near else int(rng.integers(0, node))))
    years = 2000 + (np.arange(nodes) * 20) // nodes
    pairs = np.array(sorted(edges), np.int64).reshape(-1, 2)
    return Graph(features.astype(np.uint8), pairs, labels.astype(np.int64), years.astype(np.int64))
