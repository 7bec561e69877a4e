"""Draws a network of papers: word vectors, fields, years and citations, in the files of OGB's node classification."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FIELDS, WORDS = 16, 64
FIRST_YEAR, LAST_TRAIN, VALID_YEAR, LAST_YEAR = 2010, 2017, 2018, 2020
SIGNAL, HOMOPHILY, DRIFT = 0.30, 0.55, 0.8
TABLES = (
    *(f"raw/{name}" for name in ("edge", "node-feat", "node-label", "node_year", "num-node-list", "num-edge-list")),
    *(f"split/time/{name}" for name in ("train", "valid", "test")),
)
LABELS = "networks/ogbn_arxiv/raw/node-label.csv.gz"
HIDDEN = -1
"""Stands in node-label.csv.gz for the field of a test paper."""


@dataclass(frozen=True)
class Papers:
    """Papers are numbered from 0 in the order of their years."""

    words: NDArray[np.float64]
    fields: NDArray[np.int64]
    years: NDArray[np.int64]
    citations: NDArray[np.int64]
    """citations x 2: the paper that cites and the older one that is cited."""

    @property
    def test(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.years > VALID_YEAR)


def papers(rng: np.random.Generator, count: int, unseen: np.random.Generator | None = None) -> Papers:
    """A network of `count` papers. Word vectors and citations tell a field together far better than either alone.

    Which fields are written about changes over the years. unseen: draws the fields of the test papers and the noise
    in their words, so that who could guess the other generator would not know them.
    """
    when = np.arange(count) / count
    years = FIRST_YEAR + np.searchsorted(np.cumsum(_shares()), when, side="right")
    liking = np.exp(rng.normal(0, DRIFT, FIELDS) * (when[:, None] - 0.5))
    bounds = np.cumsum(liking / liking.sum(axis=1, keepdims=True), axis=1)
    draw = rng.random(count)
    if unseen is not None:
        draw[years > VALID_YEAR] = unseen.random(int((years > VALID_YEAR).sum()))
    fields = np.minimum((draw[:, None] > bounds).sum(axis=1), FIELDS - 1)
    # At right angles, so that no network is easier than another one.
    centres = np.sqrt(WORDS) * np.linalg.qr(rng.normal(0, 1, (WORDS, FIELDS)))[0].T
    noise = rng.normal(0, 1, (count, WORDS))
    if unseen is not None:
        noise[years > VALID_YEAR] = unseen.normal(0, 1, (int((years > VALID_YEAR).sum()), WORDS))
    words = np.round(SIGNAL * centres[fields] + noise, 3)
    return Papers(words, fields, years, _citations(rng, fields))


def _shares() -> NDArray[np.float64]:
    grown = 1.15 ** np.arange(LAST_YEAR - FIRST_YEAR + 1)
    return np.asarray(grown / grown.sum())


def _citations(rng: np.random.Generator, fields: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each paper but the first cites 3 to 8 older ones, 55 of 100 from its own field where there is one."""
    count = len(fields)
    order = np.argsort(fields, kind="stable")  # papers of one field together, by age
    start = np.searchsorted(fields[order], np.arange(FIELDS))
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count) - start[fields[order]]
    citing = np.repeat(np.arange(1, count), rng.integers(3, 9, count - 1))
    own = (rng.random(len(citing)) < HOMOPHILY) & (rank[citing] > 0)
    draw = rng.random(len(citing))
    within = order[start[fields[citing]] + (draw * np.where(own, rank[citing], 1)).astype(np.int64)]
    cited = np.where(own, within, (draw * citing).astype(np.int64))
    return np.unique(np.stack([citing, cited], axis=1), axis=0)


def files(network: Papers) -> dict[str, bytes]:
    """The raw files under networks/ogbn_arxiv, without the fields of the test papers."""
    shown = network.fields.copy()
    shown[network.test] = HIDDEN
    count = np.arange(len(shown))
    split = {
        "train": count[network.years <= LAST_TRAIN],
        "valid": count[network.years == VALID_YEAR],
        "test": network.test,
    }
    tables: dict[str, NDArray[Any]] = {
        "raw/edge": network.citations, "raw/node-feat": network.words, "raw/node-label": shown[:, None],
        "raw/node_year": network.years[:, None], "raw/num-node-list": np.array([[len(shown)]]),
        "raw/num-edge-list": np.array([[len(network.citations)]]),
    } | {f"split/time/{name}": rows[:, None] for name, rows in split.items()}  # fmt: skip
    return {f"networks/ogbn_arxiv/{name}.csv.gz": _packed(table) for name, table in tables.items()}


def renumbered(packed: bytes, order: NDArray[np.int64]) -> bytes:
    """The file LABELS, in which field k is order[k]."""
    labels = np.array(gzip.decompress(packed).decode().split(), np.int64)
    return _packed(np.where(labels == HIDDEN, HIDDEN, order[labels])[:, None])


def _packed(table: NDArray[Any]) -> bytes:
    """Rows of comma-separated numbers without a header; equal tables give equal bytes."""
    lines = [",".join(map(str, row)) for row in table.tolist()]
    return gzip.compress("\n".join([*lines, ""]).encode(), compresslevel=3, mtime=0)
