"""Draws weighted graphs and works out, for each pair of nodes, the pointer of the best path under a given rule."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Rule = Callable[[Array], Array]
TRAIN, SMALL = 400, (8, 12)
TEST, LARGE = 40, (16, 24)
DENSITY = (0.3, 0.6)


@dataclass(frozen=True)
class Graphs:
    """Graphs, padded to the size of the largest one."""

    sizes: Array  # graphs
    weights: Array  # graphs x nodes x nodes, symmetric, float32; 0 where there is no edge
    pointers: Array  # graphs x source x target: the node before the target; -1 on the diagonal and beside the graph


def total(weights: Array) -> Array:
    """The rule of Floyd and Warshall: an edge costs its weight."""
    return weights


def near(centre: float, sharpness: float) -> Rule:
    """A rule of the judge: the nearer to `centre` a weight is, the better; the worst edge decides most."""
    return lambda weights: np.exp(sharpness * np.abs(weights - centre))


def draw_rule(rng: np.random.Generator) -> Rule:
    """One of a continuum of rules, so that no list of algorithms holds it."""
    return near(float(rng.uniform(0.5, 0.7)), float(rng.uniform(4, 6)))


def draw(rng: np.random.Generator, count: int, sizes: tuple[int, int], rule: Rule) -> Graphs:
    """Connected graphs whose edges weigh sqrt(u v + 0.001), u and v uniform; the cost of a path sums up `rule`."""
    widest = sizes[1]
    found = rng.integers(sizes[0], widest + 1, count)
    weights = np.zeros((count, widest, widest), np.float32)
    pointers = np.full((count, widest, widest), -1, np.int64)
    for row, size in enumerate(found):
        inner = (row, slice(size), slice(size))
        known = np.array([[-1]])
        while (known < 0).any():
            one = _weights(rng, int(size))
            known = _pointers(one, rule)
        np.fill_diagonal(known, -1)
        weights[inner], pointers[inner] = one, known
    return Graphs(found, weights, pointers)


def renamed(rng: np.random.Generator, sizes: Array, weights: Array, rule: Rule) -> Graphs:
    """The same graphs in another order, and the nodes of each in another order, too."""
    order = rng.permutation(len(sizes))
    other, pointers = np.zeros_like(weights), np.full(weights.shape, -1, np.int64)
    for row, graph in enumerate(order):
        size = int(sizes[graph])
        nodes = rng.permutation(size)
        other[row, :size, :size] = weights[graph][np.ix_(nodes, nodes)]
        pointers[row, :size, :size] = _pointers(other[row, :size, :size], rule)
        np.fill_diagonal(pointers[row], -1)
    return Graphs(sizes[order], other, pointers)


def pairs(graphs: Graphs) -> tuple[list[str], Array]:
    """Every pair of two nodes as `graph:source:target`, and its pointer."""
    places = np.argwhere(graphs.pointers >= 0)
    return [f"{graph}:{source}:{target}" for graph, source, target in places], graphs.pointers[tuple(places.T)]


def files(train: Graphs, test: Graphs) -> dict[str, bytes]:
    """What `graphs/` holds: pointers for the training graphs alone."""
    return {
        "graphs/train.npz": _packed(sizes=train.sizes, weights=train.weights, pointers=train.pointers),
        "graphs/test.npz": asked(test),
    }


def asked(test: Graphs) -> bytes:
    """`graphs/test.npz`: without the pointers."""
    return _packed(sizes=test.sizes, weights=test.weights)


def _weights(rng: np.random.Generator, size: int) -> Array:
    above = np.triu(rng.random((size, size)) < rng.uniform(*DENSITY), 1)
    weights = np.where(above, np.sqrt(rng.random((size, size)) * rng.random((size, size)) + 0.001), 0)
    return (weights + weights.T).astype(np.float32)


def _pointers(weights: Array, rule: Rule) -> Array:
    """Floyd and Warshall's loop; -1 where there is no path."""
    size = len(weights)
    distance = np.where(weights > 0, rule(weights.astype(np.float64)), np.inf)
    np.fill_diagonal(distance, 0)
    pointers = np.where(np.isfinite(distance), np.arange(size)[:, None], -1)
    for middle in range(size):
        through = distance[:, [middle]] + distance[[middle]]
        better = through < distance
        distance = np.where(better, through, distance)
        pointers = np.where(better, pointers[middle], pointers)
    return pointers


def _packed(**arrays: Array) -> bytes:
    """An .npz of equal bytes for equal arrays: NumPy gives its members a fixed time."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()
