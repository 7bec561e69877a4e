"""What the simulations take for real: how hard cases are, and what a change of the agent does to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench.stats.intervals import Floats

DESIGNS = ((20, 3), (50, 3), (50, 5))
"""Cases, and trials of each."""
DROP = 0.1
REDRAWN = 0.2
"""The share of cases that changes which leave the mean where it was touch."""


@dataclass(frozen=True)
class Mixture:
    """How hard the cases are: shares of impossible and of trivial ones, and Beta(a, b) for the rest."""

    name: str
    never: float
    always: float
    a: float
    b: float

    @property
    def mean(self) -> float:
        return self.always + (1 - self.never - self.always) * self.a / (self.a + self.b)

    def draw(self, rng: np.random.Generator, cases: int) -> Floats:
        p = rng.beta(self.a, self.b, size=cases)
        kind = rng.random(cases)
        return np.where(kind < self.never, 0.0, np.where(kind > 1 - self.always, 1.0, p))


MIXTURES = (
    Mixture("middling agent", 0.3, 0.3, 1.0, 1.0),
    Mixture("weak agent", 0.5, 0.1, 1.0, 2.0),
    Mixture("strong agent", 0.1, 0.5, 2.0, 1.0),
    Mixture("no sure cases", 0.0, 0.0, 0.8, 0.8),
)
FAILING = Mixture("failing agent", 0.7, 0.02, 1.0, 3.0)
CEILING = Mixture("ceiling agent", 0.0, 0.0, 20.0, 1.2)
"""Fails seldom and anywhere, so that the mean of few trials is skewed."""
Change = Callable[[Floats, Mixture, np.random.Generator], Floats]


def unchanged(p: Floats, mixture: Mixture, rng: np.random.Generator) -> Floats:
    return p


def everywhere(p: Floats, mixture: Mixture, rng: np.random.Generator) -> Floats:
    return p * (1 - DROP / mixture.mean)


def broken(p: Floats, mixture: Mixture, rng: np.random.Generator) -> Floats:
    return _broken_by(p, DROP, rng)


def _broken_by(p: Floats, drop: float, rng: np.random.Generator) -> Floats:
    order = rng.permutation(len(p))
    before = np.cumsum(p[order]) - p[order]
    found = p.copy()
    found[order] -= np.clip(drop * len(p) - before, 0, p[order])
    return found


def broken_at_random(p: Floats, mixture: Mixture, rng: np.random.Generator) -> Floats:
    return np.where(rng.random(len(p)) < DROP / mixture.mean, 0.0, p)


def masked(p: Floats, mixture: Mixture, rng: np.random.Generator) -> Floats:
    """Broken cases take 15 points, and gains on the others give five back."""
    found = _broken_by(p, 1.5 * DROP, rng)
    room = np.where(found == p, 1 - p, 0.0)
    left = float(p.mean() - DROP - found.mean())
    return found + room * min(1.0, max(0.0, left) / max(float(room.mean()), 1e-12))


def redrawn(p: Floats, mixture: Mixture, rng: np.random.Generator) -> Floats:
    """A fifth of the cases are as hard as any other now: much changes, and on average nothing."""
    return np.where(rng.random(len(p)) < REDRAWN, mixture.draw(rng, len(p)), p)


def balanced(p: Floats, mixture: Mixture, rng: np.random.Generator) -> Floats:
    """A fifth of the cases breaks, and the others gain as much: the differences are skewed, and nothing on average."""
    lost = REDRAWN * mixture.mean
    gained = lost / ((1 - REDRAWN) * (1 - mixture.mean))
    return np.where(rng.random(len(p)) < REDRAWN, 0.0, p + gained * (1 - p))


CHANGES: dict[str, Change] = {
    "none": unchanged,
    "redrawn": redrawn,
    "balanced": balanced,
    "everywhere": everywhere,
    "broken": broken,
    "broken at random": broken_at_random,
    "masked by gains": masked,
}
UNCHANGED = ("none", "redrawn", "balanced")
"""Changes that leave the mean over all possible cases where it was."""


def at_night(p: Floats, effect: float) -> Floats:
    """The chances in a night that adds `effect` to the logit of each."""
    odds = p * np.exp(effect)
    found: Floats = odds / (1 - p + odds)
    return found
