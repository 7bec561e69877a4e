"""Reviews that like something or not, as numbers of words: opinions among plain words, three in ten of them negated.

The roles of numbers are those of the pretrained model; data.py and check.py shuffle the numbers and invent the words.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load_file, save

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD, UNK, CLS, SEP, MASK = range(5)
NOT, VERY, GOOD, BAD, PLAIN = range(5, 7), range(7, 11), range(11, 36), range(36, 61), range(61, 181)
VERDICTS = range(181, 183)  # only in the text of the pretraining
WORDS, LENGTH = 183, 36
MOST_WORDS = LENGTH - 2  # beside [CLS] and [SEP]
AGREES, NEGATED, STRESSED = 0.85, 0.35, 0.2
"""Shares of the opinions that agree with the label, are said by "not" and the opposite word, or are made stronger."""
SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
_ZIPF = 1 / np.arange(4, 4 + len(PLAIN))


class Reviews(NamedTuple):
    """Numbers of words, N x 36, padded at the end; and the labels, N: 1 likes it."""

    ids: Any
    labels: Any


class Language(NamedTuple):
    """The words of a trial by their number, and the number that each role has in it."""

    words: list[str]
    order: Any


def draw(rng: np.random.Generator, count: int, words: int = 0) -> Reviews:
    """Reviews with four to seven opinions among 10 to 18 plain words, or more if they must have `words`."""
    labels = rng.integers(2, size=count)
    ids = np.full((count, LENGTH), PAD)
    for row, label in enumerate(labels):
        said = [CLS, *_review(rng, bool(label), words), SEP]
        ids[row, : len(said)] = said
    return Reviews(ids, labels)


def _review(rng: np.random.Generator, label: bool, words: int) -> list[int]:
    parts = [[int(word)] for word in rng.choice(PLAIN, rng.integers(10, 19), p=_ZIPF / _ZIPF.sum())]
    for _ in range(rng.integers(4, 8)):
        likes, turned = label == (rng.random() < AGREES), rng.random() < NEGATED
        word = int(rng.choice(GOOD if likes != turned else BAD))
        stressed = not turned and rng.random() < STRESSED
        before = [int(rng.choice(NOT))] if turned else [int(rng.choice(VERY))] if stressed else []
        parts.insert(int(rng.integers(len(parts) + 1)), [*before, word])
    for _ in range(words - sum(map(len, parts))):
        parts.insert(int(rng.integers(len(parts) + 1)), [int(rng.choice(PLAIN, p=_ZIPF / _ZIPF.sum()))])
    return [word for part in parts for word in part]


def new_language(rng: np.random.Generator) -> Language:
    """Invented words and the special ones in an order of their own; only the padding stays in front."""
    order = np.concatenate([[PAD], 1 + rng.permutation(WORDS - 1)])
    invented = dict.fromkeys("".join(rng.choice(SYLLABLES, 2)) for _ in range(4 * WORDS))
    words = [*SPECIAL, *invented]
    return Language([words[role] for role in np.argsort(order)], order)


def texts(reviews: Reviews, language: Language) -> list[str]:
    """The reviews in words, without the special ones."""
    return [" ".join(language.words[language.order[it]] for it in row if it >= len(SPECIAL)) for row in reviews.ids]


def model_files(asset: Path, language: Language) -> dict[str, bytes]:
    """The folder of the pretrained model for the words of a language: file names and contents."""
    weights, name = load_file(asset / "model.safetensors"), "distilbert.embeddings.word_embeddings.weight"
    shuffled = np.empty_like(weights[name])
    shuffled[language.order] = weights[name]
    return {
        "config.json": json.dumps(json.loads((asset / "facts.json").read_text())["config"], indent=2).encode(),
        "model.safetensors": save({**weights, name: shuffled}, metadata={"format": "pt"}),
        "vocab.txt": ("\n".join(language.words) + "\n").encode(),
    }


def as_csv(columns: dict[str, Any]) -> str:
    """Columns of one length as a table."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(columns)
    rows.writerows(zip(*columns.values(), strict=True))
    return out.getvalue()
