"""Speaks an invented language: sentences about one of five subjects, in which verbs agree with a noun further off.

A conversation keeps its subject for ten sentences. Adjectives tell nothing about it, so a model that sees two words
back does not know it; and a verb has the number of the noun before a clause, not of the last one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

SUBJECTS, NOUNS, VERBS, ADJECTIVES, ADVERBS, PREPOSITIONS = 5, 6, 4, 12, 8, 6
START, THE, THAT, STOP = range(4)
WORDS = 4 + ADJECTIVES + ADVERBS + PREPOSITIONS + 2 * SUBJECTS * (NOUNS + VERBS)
SENTENCES = 10
LEAST = 1e-9
"""The smallest probability that counts: what has none costs 30 bits."""
SOURCES = (
    "aochildes", "bnc_spoken", "cbt", "children_stories", "gutenberg", "open_subtitles", "qed", "simple_wikipedia",
    "switchboard", "wikipedia",
)  # fmt: skip
SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
_ADJECTIVES = range(4, 4 + ADJECTIVES)
_ADVERBS = range(_ADJECTIVES.stop, _ADJECTIVES.stop + ADVERBS)
_PREPOSITIONS = range(_ADVERBS.stop, _ADVERBS.stop + PREPOSITIONS)


class Language(NamedTuple):
    """Words by their number, and the number that each role has."""

    words: list[str]
    order: Any


def new_language(rng: np.random.Generator) -> Language:
    """Invented words; the start of a block is always number 0."""
    order = np.concatenate([[0], 1 + rng.permutation(WORDS - 1)])
    invented = dict.fromkeys("".join(rng.choice(SYLLABLES, 2)) for _ in range(6 * WORDS))
    return Language(["<s>", *invented][:WORDS], order)


def conversation(rng: np.random.Generator, length: float) -> list[list[int]]:
    """Ten sentences about one subject, as roles. length: from 0 to 1, how often a sentence is made longer."""
    subject = int(rng.integers(SUBJECTS))
    dice = rng.random((SENTENCES, 40)).tolist()
    return [_sentence(iter(row), subject, length) for row in dice]


def _sentence(dice: Any, subject: int, length: float) -> list[int]:
    base = _PREPOSITIONS.stop + 2 * subject * (NOUNS + VERBS)

    def one(kind: range) -> int:
        return kind[int(next(dice) * len(kind))]

    def thing() -> tuple[list[int], int]:
        many, noun = int(next(dice) * 2), int(next(dice) * NOUNS)
        words = [THE, one(_ADJECTIVES)] if next(dice) < 0.75 else [THE]
        return [*words, base + 2 * noun + many], many

    def does(many: int) -> int:
        return base + 2 * NOUNS + 2 * int(next(dice) * VERBS) + many

    said, many = thing()
    if next(dice) < length:
        inner, number = thing()
        said += [THAT, *inner, does(number)]
    said.append(does(many))
    if next(dice) < 0.4:
        said.append(one(_ADVERBS))
    said += thing()[0]
    if next(dice) < length:
        said += [one(_PREPOSITIONS), *thing()[0]]
    return [*said, STOP]


def corpus(rng: np.random.Generator, words: int) -> dict[str, list[list[int]]]:
    """Sentences of each source, as roles, of `words` words or a few more in all; sources differ in length alone."""
    found: dict[str, list[list[int]]] = {}
    for number, source in enumerate(SOURCES):
        said: list[list[int]] = []
        while sum(map(len, said)) < words / len(SOURCES):
            said += conversation(rng, 0.2 + 0.4 * number / len(SOURCES))
        found[source] = said
    return found


def text(sentences: list[list[int]], language: Language) -> str:
    """One sentence a line."""
    return "".join(" ".join(language.words[language.order[role]] for role in said) + "\n" for said in sentences)


def blocks(rng: np.random.Generator, count: int, length: int, language: Language) -> Any:
    """Numbers of words, N x length: each block begins a conversation with number 0."""
    rows = []
    for _ in range(count):
        said = [START]
        while len(said) < length:
            said += [role for part in conversation(rng, float(rng.uniform(0.2, 0.6))) for role in part]
        rows.append(said[:length])
    return language.order[np.array(rows)]


def size_of(numbers: Any, language: Language) -> int:
    """Bytes of the words as text, each with the space or the line's end behind it."""
    sizes = np.array([len(word.encode()) + 1 for word in language.words])
    return int(sizes[numbers].sum())


def files(rng: np.random.Generator, language: Language, folder: str, ending: str, words: int) -> dict[str, str]:
    """Paths and texts of ten sources, as `babylm_data/<folder>/<source>.<ending>`."""
    said = corpus(rng, words)
    return {f"babylm_data/{folder}/{name}.{ending}": text(part, language) for name, part in said.items()}


def pair_bits(texts: dict[str, str], tried: Any, language: Language) -> float:
    """Bits a byte of a count of pairs of words in the texts (absolute discount) on blocks, N x length, of numbers."""
    known = {word: number for number, word in enumerate(language.words)}
    seen = np.array([known[word] for content in texts.values() for word in content.split()])
    pairs = np.zeros((WORDS, WORDS))
    np.add.at(pairs, (np.concatenate([[known[language.words[language.order[STOP]]]], seen[:-1]]), seen), 1)
    pairs[0] = pairs[language.order[STOP]]  # a block begins where a sentence does
    single = (pairs.sum(axis=0) + 0.1) / (pairs.sum() + 0.1 * WORDS)
    total = np.maximum(pairs.sum(axis=1, keepdims=True), 1)
    chances = np.maximum(pairs - 0.75, 0) / total
    chances += (1 - chances.sum(axis=1, keepdims=True)) * single
    return bits(np.broadcast_to(chances[tried], (*tried.shape, WORDS)), tried, language)


def bits(chances: Any, numbers: Any, language: Language) -> float:
    """Bits a byte. chances: N x length x words, of the word behind each place; numbers: N x length."""
    told = np.take_along_axis(chances[:, :-1], numbers[:, 1:, None], axis=2)
    return float(-np.log2(np.maximum(told, LEAST)).sum() / size_of(numbers[:, 1:], language))


def vocabulary(language: Language) -> str:
    return "\n".join(language.words) + "\n"
