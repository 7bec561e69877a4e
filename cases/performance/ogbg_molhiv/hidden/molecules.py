"""Draws graphs in the manner of molecules: ring systems with side chains, and which of them act."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ATOMS = 7  # in the order of their usual share: 0 is what most atoms are
SCAFFOLDS, LATE = 60, 18
"""Ring systems, and how many of them only occur in the validation and test molecules."""
ACTING, OTHERWISE, ATOMS_OF_GROUP = 0.65, 0.006, 0.5
"""Chance to act with the group and without it; share of the molecules that get its atoms, in any order."""

Rows = NDArray[np.int64]

TABLES = (
    *(f"raw/{name}" for name in ("node-feat", "edge", "edge-feat", "num-node-list", "num-edge-list", "graph-label")),
    *(f"split/scaffold/{name}" for name in ("train", "valid", "test")),
)


@dataclass(frozen=True)
class World:
    """What holds for one collection of molecules."""

    rings: list[tuple[list[int], list[tuple[int, int]]]]
    """Atoms and bonds of each ring system."""
    group: tuple[int, int, int]
    """Atoms that make a molecule act where they follow each other in a side chain, outwards from the ring."""
    mix: NDArray[np.float64]
    """How often each kind of atom occurs in side chains."""


@dataclass(frozen=True)
class Molecules:
    """Molecules in a row; atoms and bonds of all of them stand one after the other."""

    atoms: Rows
    """atoms x 2: kind of the atom, and whether it is in a ring."""
    bonds: Rows
    """bonds x 2, in both directions: numbers of the atoms within their molecule."""
    kinds: Rows
    """Of each row of `bonds`: 0 in a side chain, 1 in a ring."""
    atom_counts: Rows
    bond_counts: Rows
    acts: Rows
    scaffolds: Rows


def world(rng: np.random.Generator) -> World:
    """New ring systems, another group that acts, another mix of atoms."""
    kinds = rng.choice(np.arange(1, ATOMS), 3, replace=False)
    mix = np.concatenate([[0.40], np.full(ATOMS - 1, 0.60 / (ATOMS - 1))])
    return World([_ring(rng) for _ in range(SCAFFOLDS)], (int(kinds[0]), int(kinds[1]), int(kinds[2])), mix)


def _ring(rng: np.random.Generator) -> tuple[list[int], list[tuple[int, int]]]:
    """One or two rings of 5 or 6 atoms, a quarter of these not carbon."""
    bonds: list[tuple[int, int]] = []
    count = 0
    for _ in range(int(rng.integers(1, 3))):
        size = int(rng.integers(5, 7))
        if count:
            bonds.append((count - 1, count))
        bonds += [(count + i, count + (i + 1) % size) for i in range(size)]
        count += size
    atoms = np.where(rng.random(count) < 0.25, rng.integers(1, ATOMS, count), 0)
    return atoms.tolist(), bonds


def molecules(rng: np.random.Generator, of: World, count: int, tests: int, fate: np.random.Generator) -> Molecules:
    """`count` molecules, of which the last `tests` also come from late scaffolds. fate: draws which of them act."""
    early = SCAFFOLDS - LATE
    late = (np.arange(count) >= count - tests) & (rng.random(count) < 0.7)
    scaffolds = np.where(late, rng.integers(early, SCAFFOLDS, count), rng.integers(0, early, count))
    made = [_molecule(rng, of, int(scaffold)) for scaffold in scaffolds]
    chances = np.array([ACTING if has else OTHERWISE for _, _, has in made])
    halves = [np.array(bonds, np.int64).reshape(-1, 3) for _, bonds, _ in made]
    both = [np.concatenate([half, half[:, [1, 0, 2]]]) for half in halves]
    table = np.concatenate(both)
    return Molecules(
        np.concatenate([np.array(atoms, np.int64) for atoms, _, _ in made]), table[:, :2], table[:, 2],
        np.array([len(atoms) for atoms, _, _ in made]), np.array([len(rows) for rows in both]),
        (fate.random(count) < chances).astype(np.int64), scaffolds,
    )  # fmt: skip


def _molecule(
    rng: np.random.Generator, of: World, scaffold: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int, int]], bool]:
    """Atoms, bonds with their kind, and whether the group is in it."""
    ring, ring_bonds = of.rings[scaffold]
    atoms, bonds = [(kind, 1) for kind in ring], [(a, b, 1) for a, b in ring_bonds]
    chains = [rng.choice(ATOMS, int(rng.integers(2, 6)), p=of.mix).tolist() for _ in range(int(rng.integers(3, 6)))]
    if rng.random() < ATOMS_OF_GROUP:
        order = rng.permutation(of.group).tolist()
        turned = tuple(order) == of.group and rng.random() < 0.75
        chains[0] = [*chains[0][:1], *(order[::-1] if turned else order), *chains[0][1:2]]
    has = False
    for chain in chains:
        has = has or any(tuple(chain[i : i + 3]) == of.group for i in range(len(chain) - 2))
        before = int(rng.integers(0, len(ring)))
        for kind in chain:
            bonds.append((before, len(atoms), 0))
            before = len(atoms)
            atoms.append((int(kind), 0))
    return atoms, bonds, has


def files(made: Molecules, tests: int, rng: np.random.Generator) -> dict[str, bytes]:
    """OGB's raw files of a graph property, without what the last `tests` molecules do; the row tells the molecule.

    rng: draws the order of each list of the split, which a program must not change beside its scores.
    """
    count = len(made.acts)
    shown = np.where(np.arange(count) < count - tests, made.acts, -1)
    ends = [0, count - tests - tests // 4, count - tests, count]
    tables: dict[str, NDArray[Any]] = {
        "raw/node-feat": made.atoms, "raw/edge": made.bonds, "raw/edge-feat": made.kinds[:, None],
        "raw/num-node-list": made.atom_counts[:, None], "raw/num-edge-list": made.bond_counts[:, None],
        "raw/graph-label": shown[:, None],
    }  # fmt: skip
    for name, start, end in zip(("train", "valid", "test"), ends, ends[1:], strict=False):
        tables[f"split/scaffold/{name}"] = rng.permutation(np.arange(start, end))[:, None]
    return {f"molecules/ogbg_molhiv/{name}.csv.gz": _packed(table) for name, table in tables.items()}


def reordered(given: Mapping[str, bytes], rng: np.random.Generator) -> tuple[dict[str, bytes], Rows]:
    """The same molecules under other numbers, which are drawn: files like `given`, and each molecule's new number."""
    path = "molecules/ogbg_molhiv/{}.csv.gz".format
    table = {name: gzip.decompress(given[path(name)]).split() for name in TABLES}
    order = rng.permutation(len(table["raw/graph-label"]))
    number = np.argsort(order)
    for counts, names in (("num-node-list", ["node-feat"]), ("num-edge-list", ["edge", "edge-feat"])):
        rows = [int(row) for row in table[f"raw/{counts}"]]
        ends = np.cumsum(rows)
        for name in names:
            lines = table[f"raw/{name}"]
            table[f"raw/{name}"] = [line for old in order for line in lines[ends[old] - rows[old] : ends[old]]]
    for name in ("num-node-list", "num-edge-list", "graph-label"):
        table[f"raw/{name}"] = [table[f"raw/{name}"][old] for old in order]
    for name in ("train", "valid", "test"):
        table[f"split/scaffold/{name}"] = [b"%d" % number[int(old)] for old in table[f"split/scaffold/{name}"]]
    return {path(name): _zipped(b"\n".join([*lines, b""])) for name, lines in table.items()}, number


def _packed(table: NDArray[Any]) -> bytes:
    """Rows of comma-separated numbers without a header; equal tables give equal bytes."""
    lines = [",".join(map(str, row)) for row in table.tolist()]
    return _zipped("\n".join([*lines, ""]).encode())


def _zipped(content: bytes) -> bytes:
    return gzip.compress(content, compresslevel=3, mtime=0)
