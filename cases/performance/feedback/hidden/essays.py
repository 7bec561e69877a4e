"""Invents essays of English learners with six scores each: every score shows in the text by a sign of its own.

Home graders gave the agent's scores. Every grading draws graders of its own, who are stricter or milder, and
essays about other subjects.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

SCORES = ("cohesion", "syntax", "vocabulary", "phraseology", "grammar", "conventions")
COMMON, BLUR, DOUBT = 0.25, 0.25, 0.2
"""Share of the ability that all six have in common; what text and grader each add by chance, in abilities."""


def _words(text: str) -> list[str]:
    return text.split()


_SUBJECTS = {
    "school": _words("teacher pupil lesson homework classroom book exam library friend uniform"),
    "phones": _words("phone screen message camera video game battery app call picture"),
    "sport": _words("team coach game ball match player training stadium victory fan"),
    "travel": _words("city train ticket hotel beach museum map airport suitcase guide"),
    "food": _words("kitchen meal cook restaurant soup bread market fruit dinner recipe"),
    "work": _words("office boss worker salary meeting job company customer holiday desk"),
}
HOME, AWAY = ("school", "phones", "sport"), ("travel", "food", "work")
_PEOPLE = _words("student parent neighbour child person mother brother family group principal")
_VERBS = _words("help show need like want follow explain change share visit respect support")
_PLAIN = _words("good bad big small nice new old happy sad easy hard many")
_RARE = _words(
    "beneficial considerable fundamental challenging responsible extraordinary meaningful significant "
    "inevitable comprehensive remarkable indispensable"
)
_LINKS = _words("however therefore moreover furthermore consequently nevertheless meanwhile finally")
_SMALL = _words("the a my our this every")
_TAILS = _words("in at with for about after before without")


class Graders(NamedTuple):
    """Their mean score, and how many points one standard deviation of an ability makes."""

    level: float
    spread: float
    subjects: tuple[str, ...]


USUAL = Graders(3.1, 0.65, HOME)


def other_graders(rng: np.random.Generator) -> Graders:
    """Stricter or milder by 0.6 to 0.8 points, for essays about other subjects."""
    return Graders(3.1 + rng.choice([-1, 1]) * rng.uniform(0.6, 0.8), rng.uniform(0.55, 0.7), AWAY)


def essays(
    rng: np.random.Generator, count: int, graders: Graders = USUAL
) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64]]:
    """`count` texts, N x 6 abilities (standard normal), and the abilities as the text shows them."""
    common, own = rng.standard_normal((count, 1)), rng.standard_normal((count, len(SCORES)))
    abilities = np.sqrt(COMMON) * common + np.sqrt(1 - COMMON) * own
    shown = abilities + BLUR * rng.standard_normal(abilities.shape)
    dice = random.Random(int(rng.integers(2**63)))
    return [_essay(dice, row, graders.subjects) for row in shown.tolist()], abilities, shown


def graded(rng: np.random.Generator, abilities: NDArray[np.float64], graders: Graders = USUAL) -> NDArray[np.float64]:
    """N x 6 scores from 1 to 5 in halves; `rng` draws the graders' doubts."""
    points = graders.level + graders.spread * (abilities + DOUBT * rng.standard_normal(abilities.shape))
    return np.clip(np.round(2 * points) / 2, 1, 5)


def table(ids: list[str], texts: list[str], scores: NDArray[np.float64] | None = None) -> dict[str, Any]:
    """Columns of train.csv, or of test.csv where no scores are given."""
    columns: dict[str, Any] = {"text_id": ids, "full_text": texts}
    return columns if scores is None else columns | dict(zip(SCORES, scores.T, strict=True))


def new_ids(rng: np.random.Generator, count: int) -> list[str]:
    """Different texts of twelve signs, whose order tells nothing."""
    numbers = rng.choice(16**8, count, replace=False)
    return [f"{number:08X}{rng.integers(16**4):04X}" for number in numbers]


def _chance(base: float, slope: float, ability: float) -> float:
    return float(1 / (1 + np.exp(-base - slope * ability)))


def _essay(dice: random.Random, shown: list[float], subjects: tuple[str, ...]) -> str:
    """80 to 130 words and a few more about one subject, written by somebody with these six abilities."""
    cohesion, syntax, vocabulary, phraseology, grammar, conventions = shown
    nouns = _SUBJECTS[dice.choice(subjects)] + _PEOPLE
    rare, slip = _chance(-1.2, 1.0, vocabulary), _chance(-1.6, -0.9, grammar)
    said: list[str] = []
    length, enough = 0, dice.randint(80, 130)
    while length < enough:
        words = [dice.choice(_LINKS) + ","] if dice.random() < _chance(-1.0, 1.1, cohesion) else []
        words += _clause(dice, nouns, rare, slip)
        while dice.random() < _chance(-1.0, 0.8, syntax) and len(words) < 36:
            words += [dice.choice(["because", "which", "when", "so"]), *_clause(dice, nouns, rare, slip)]
        if dice.random() < _chance(-1.4, -1.0, phraseology):
            at = dice.randrange(len(words))
            words.insert(at, words[at])
        careless = _chance(-1.4, -1.0, conventions)
        if dice.random() >= careless:
            words[0] = words[0].capitalize()
        length += len(words)
        said.append(" ".join(words) + ("" if dice.random() < careless else "."))
    return " ".join(said)


def _clause(dice: random.Random, nouns: list[str], rare: float, slip: float) -> list[str]:
    """Somebody does something with something: 6 or 9 words."""
    verb = dice.choice(_VERBS)
    words = [dice.choice(_SMALL), dice.choice(nouns), verb if dice.random() < slip else _third(verb)]
    words += [dice.choice(_SMALL), dice.choice(_RARE if dice.random() < rare else _PLAIN), dice.choice(nouns)]
    if dice.random() < 0.3:
        words += [dice.choice(_TAILS), dice.choice(_SMALL), dice.choice(nouns)]
    return words


def _third(verb: str) -> str:
    """The form after he, she and it."""
    return verb[:-1] + "ies" if verb.endswith("y") and verb[-2] not in "aeiou" else verb + "s"
