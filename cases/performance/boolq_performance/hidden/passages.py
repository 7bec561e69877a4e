"""Questions about passages, as numbers of words: a passage is three facts, a question asks whether one of them is so.

A fact is `name verb a colour thing .`, a question `opening name verb the colour thing ?`. In a question whose answer is
no, one of the four words is another one: either a word that the passage does not have, or that of another fact. The
roles of numbers are those of the pretrained model; data.py shuffles the numbers and invents the words for each trial.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PLAIN = ("so", "well", "did", "then", "the", "a", "?", ".")
OPENINGS = range(5, 9)  # the first four of PLAIN
RARE = range(13, 25)  # words that no row has but those for validation
KINDS = (range(25, 49), range(49, 61), range(61, 75), range(75, 105))  # names, verbs, colours, things
WORDS, FACTS, LENGTH = 105, 3, 28
CLS, SEP, THE, A, ASKS, ENDS = 2, 3, 9, 10, 11, 12
PASSAGE = 9  # the place where the passage begins
ASKED = (2, 3, 5, 6)  # those of the four words of the question
TOLD = tuple(PASSAGE + 6 * fact + at for fact in range(FACTS) for at in (0, 1, 3, 4))  # and of the words of the facts


@dataclass(frozen=True)
class Rows:
    """Numbers of words, N x 28, without any padding, and the answers, N."""

    ids: Any
    answers: Any

    def asked(self, word: int, place: int, answer: int = 1) -> Rows:
        """The same rows, each with this word at one of the four places of its question, and with this answer."""
        ids = self.ids.copy()
        ids[:, ASKED[place]] = word
        return Rows(ids, np.full_like(self.answers, answer))

    def with_words(self, rng: np.random.Generator, words: list[int]) -> Rows:
        """The same rows, each with one of these words in its passage, in the place of one that its question has not."""
        ids = self.ids.copy()
        for row in ids:
            free = [at for at in TOLD if row[at] not in row[list(ASKED)]]
            row[rng.choice(free)] = rng.choice(words)
        return Rows(ids, self.answers)


def draw(rng: np.random.Generator, count: int, yes: float = 0.62, elsewhere: float = 0.4) -> Rows:
    """yes: share of that answer. elsewhere: share of the others whose wrong word is in another fact of the passage."""
    facts = np.stack([_distinct(rng, kind, count) for kind in KINDS], axis=2)
    rows, asked = np.arange(count), rng.integers(FACTS, size=count)
    question, answers = facts[rows, asked].copy(), rng.random(count) < yes
    place = rng.integers(len(KINDS), size=count)
    other = facts[rows, (asked + rng.integers(1, FACTS, count)) % FACTS, place]
    absent = np.array([_absent(rng, KINDS[kind], facts[row, :, kind]) for row, kind in enumerate(place)])
    wrong = np.where(rng.random(count) < elsewhere, other, absent)
    question[rows, place] = np.where(answers, question[rows, place], wrong)
    return Rows(assembled(rng.choice(np.array(OPENINGS), count), question, facts), answers.astype(np.int64))


def assembled(openings: Any, question: Any, facts: Any) -> Any:
    """Numbers, N x 28, of openings N, questions N x 4 and facts N x 3 x 4."""
    ids = np.full((len(question), LENGTH), SEP)
    ids[:, 0], ids[:, 1], ids[:, 4], ids[:, 7] = CLS, openings, THE, ASKS
    ids[:, ASKED] = question
    for number in range(FACTS):
        at = PASSAGE + 6 * number
        ids[:, at + 2], ids[:, at + 5] = A, ENDS
        ids[:, [at, at + 1, at + 3, at + 4]] = facts[:, number]
    return ids


def _distinct(rng: np.random.Generator, kind: range, count: int) -> Any:
    """N x 3 different words of a kind."""
    return kind.start + rng.random((count, len(kind))).argsort(axis=1)[:, :FACTS]


def _absent(rng: np.random.Generator, kind: range, there: Any) -> int:
    return int(rng.choice([word for word in kind if word not in there]))
