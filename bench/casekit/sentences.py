"""Sentences with labels: opinions with negation, names with tags, passages with questions. Written for these cases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_GOOD = [
    "good",
    "great",
    "lovely",
    "bright",
    "clever",
    "warm",
    "gentle",
    "funny",
    "honest",
    "fresh",
    "charming",
    "solid",
]
_BAD = ["bad", "poor", "dull", "dark", "clumsy", "cold", "harsh", "boring", "false", "stale", "tiresome", "weak"]
_THINGS = ["film", "book", "meal", "hotel", "concert", "play", "garden", "phone", "story", "song", "lecture", "museum"]
_FILLERS = ["really", "quite", "rather", "very", "surprisingly", "perhaps"]
_FIRST = ["Anna", "Boris", "Carla", "Deniz", "Emil", "Farah", "Goran", "Hana", "Ivo", "Jun", "Kofi", "Lena"]
_PLACES = ["Avon", "Jordan", "Paris", "Florence", "Chester", "Lincoln", "Sydney", "Austin", "Madison", "Charlotte"]
_FIRMS = ["Acme", "Globex", "Initech", "Lincoln", "Madison", "Stark", "Wayne", "Jordan", "Chester", "Umbra"]
_COLOURS = ["red", "blue", "green", "white", "black", "yellow"]


def opinions(
    rng: np.random.Generator, count: int, negated: float = 0.35, noise: float = 0.0
) -> tuple[list[str], list[int]]:
    """Sentences about things, and whether each likes its thing (1) or not (0), half of each as far as chance goes.

    negated: share of the opinions that are said by "not" and the opposite word, so that single words mislead and pairs
    of words do not. noise: share of wrong labels.
    """
    texts, labels = [], []
    for _ in range(count):
        liked, turned = bool(rng.random() < 0.5), bool(rng.random() < negated)
        word = str(rng.choice(_GOOD if liked != turned else _BAD))
        filler = f"{rng.choice(_FILLERS)} " if rng.random() < 0.5 else ""
        said = f"not {word}" if turned else f"{filler}{word}"
        thing, other = rng.choice(_THINGS, 2, replace=False)
        frame = str(rng.choice(["the {0} was {1}", "i found the {0} {1}", "after the {2} , the {0} seemed {1}"]))
        texts.append(frame.format(thing, said, other))
        labels.append(int(liked != (rng.random() < noise)))
    return texts, labels


TAGS = ("O", "PER", "LOC", "ORG")


def tagged(rng: np.random.Generator, count: int) -> list[tuple[list[str], list[str]]]:
    """Sentences as words, each with its tag of `TAGS`.

    Some names are both a place and a firm, or a person's family name: the words around them tell which.
    """
    frames = (
        "{P} flew to {L} yesterday", "{O} opened an office in {L}", "{P} works for {O}", "{O} hired {P} in {L}",
        "shares of {O} fell", "{P} of {O} spoke in {L}", "the mayor of {L} met {P}", "{O} sued {O}",
    )  # fmt: skip
    found = []
    for _ in range(count):
        words, tags = [], []
        for part in str(rng.choice(frames)).split():
            if part == "{P}":
                words += [str(rng.choice(_FIRST)), str(rng.choice(_FIRMS + _PLACES))]
                tags += ["PER", "PER"]
            elif part in ("{L}", "{O}"):
                words.append(str(rng.choice(_PLACES if part == "{L}" else _FIRMS)))
                tags.append("LOC" if part == "{L}" else "ORG")
            else:
                words.append(part)
                tags.append("O")
        found.append((words, tags))
    return found


@dataclass(frozen=True)
class Question:
    """A passage, a question about it, and the answer in two forms."""

    passage: str
    question: str
    answer: bool
    span: str
    """The word of the passage that decides."""


def questions(rng: np.random.Generator, count: int, facts: int = 3) -> list[Question]:
    """Passages of `facts` facts with a question that is answered by yes or no, half of each as far as chance goes.

    The word that is asked for occurs in every passage, so that only what belongs to the right person tells.
    """
    if not 2 <= facts <= len(_COLOURS):
        raise ValueError(f"two to {len(_COLOURS)} facts fit into a passage")
    found = []
    for _ in range(count):
        people = [str(it) for it in rng.choice(_FIRST, facts, replace=False)]
        colours = [str(it) for it in rng.choice(_COLOURS, facts, replace=False)]
        things = [str(it) for it in rng.choice(_THINGS, facts, replace=False)]
        passage = " ".join(f"{p} has a {c} {t} ." for p, c, t in zip(people, colours, things, strict=True))
        who, answer = int(rng.integers(facts)), bool(rng.random() < 0.5)
        colour = colours[who] if answer else colours[(who + int(rng.integers(1, facts))) % facts]
        found.append(Question(passage, f"does {people[who]} have something {colour} ?", answer, colours[who]))
    return found
