"""How many times faster the agent's code is than a reference: CPU time, taken outside the process that is timed.

Reference and answer take turns. Each time they get new arguments, since what a call has met may be known to the next.
What a call costs without its work is measured with the reference and taken off, so an answer cannot inflate it.
Only the reference's own spread calls for more repetitions: an answer that varies counts at its slow end.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.guest import codec
from bench.judge.deadline import Timed

_REPETITIONS, _MOST_REPETITIONS = 5, 9
_STEADY = 0.2
"""Spread of the reference's times, as a share of their median, above which they are taken again."""
_ENOUGH_S = 0.15
"""Of CPU time in one call of the answer: less would drown in what the call itself takes."""
_CONFIDENCE = 0.9
_LEAST_S = 1e-4


@dataclass(frozen=True)
class Work:
    """What is timed, and the judge's own view of it."""

    target: str
    """Function of a hidden driver, as `file.py:function`, that does the rounds of work which its arguments hold."""
    draw: Callable[[int], tuple[Any, ...]]
    """New arguments for so many rounds of work, never the same again; for none, as large as for many."""
    right: Callable[[tuple[Any, ...], Any], None]
    """Raises `AssertionError` where this is not the value for these arguments."""
    most_rounds: int = 128
    """In one call."""


@dataclass(frozen=True)
class Timing:
    """How fast the answer is beside the reference."""

    ratio: float
    """The reference's time over the answer's, by the medians of both."""
    low: float
    """The same at the slow end of the answer's times: what counts."""
    high: float
    answer_s: float
    """CPU time of one round of the answer."""
    reference_s: float
    repetitions: int
    trusted: bool
    """Whether the kernel counted it all, where the code that was timed could not escape it."""


Call = Callable[[str, tuple[Any, ...]], Timed]


class Stopwatch:
    """Times one answer against one reference.

    answer, reference: make a call on the agent's workspace, and on the one that it was given.
    """

    def __init__(self, work: Work, answer: Call, reference: Call) -> None:
        self._work = work
        self._answer, self._reference = answer, reference
        self._met: set[bytes] = set()
        self._empty: list[float] = []
        self._trusted = True

    def compare(self) -> Timing:
        """Raises `AssertionError` where the answer gives a wrong value while it is timed."""
        self._time_empty()
        self._time_empty()
        rounds = self._enough_rounds()
        references: list[float] = []
        answers: list[float] = []
        while len(answers) < _REPETITIONS or (_unsteady(references) and len(answers) < _MOST_REPETITIONS):
            self._time_empty()
            references.append(self._time(self._reference, 1)[0])
            answers.append(self._time_answer(rounds))
        reference_s = statistics.median(self._work_s(total, 1) for total in references)
        times = [self._work_s(total, rounds) for total in answers]
        fast, slow = interval(times)
        return Timing(
            ratio=reference_s / statistics.median(times),
            low=reference_s / slow,
            high=reference_s / fast,
            answer_s=statistics.median(times),
            reference_s=reference_s,
            repetitions=len(times),
            trusted=self._trusted,
        )

    def _enough_rounds(self) -> int:
        """So many that the work of one call of the answer can be told from the call itself."""
        rounds, most = 1, self._work.most_rounds
        while rounds < most:
            seconds = self._work_s(self._time_answer(rounds), 1)
            if seconds >= _ENOUGH_S:
                break
            rounds = min(most, max(2 * rounds, int(1.3 * _ENOUGH_S / seconds * rounds)))
        return rounds

    def _time_answer(self, rounds: int) -> float:
        seconds, arguments, value = self._time(self._answer, rounds)
        self._work.right(arguments, value)
        return seconds

    def _time_empty(self) -> None:
        """With the reference: an answer could make its own empty call expensive, and so the rest of it cheap."""
        self._empty.append(self._time(self._reference, 0)[0])

    def _time(self, call: Call, rounds: int) -> tuple[float, tuple[Any, ...], Any]:
        arguments = self._fresh(rounds)
        timed = call(self._work.target, arguments)
        self._trusted &= timed.trusted
        return timed.cpu_s, arguments, timed.value

    def _fresh(self, rounds: int) -> tuple[Any, ...]:
        """Arguments that no call has had; raises `RuntimeError` where the case repeats itself."""
        arguments = self._work.draw(rounds)
        tree, parts = codec.encode(list(arguments), scalars=False)
        digest = hashlib.blake2b(repr(tree).encode())
        for part in parts:
            digest.update(part)
        if digest.digest() in self._met:
            raise RuntimeError("the case draws the same arguments twice: the second time, an answer may know them")
        self._met.add(digest.digest())
        return arguments

    def _work_s(self, total: float, rounds: int) -> float:
        """Of each round, without what a call costs; at least as much as that varies: noise makes no answer fast."""
        cost = statistics.median(self._empty)
        noise = statistics.median(abs(value - cost) for value in self._empty)
        return max(total - cost, noise, _LEAST_S) / rounds


def interval(values: Sequence[float]) -> tuple[float, float]:
    """An interval that holds the median of what `values` were drawn from, with 90 % confidence where they are enough.

    Distribution-free: between order statistics, as many from either end as the binomial distribution allows.
    """
    ordered, count = sorted(values), len(values)
    outside, place = 0.0, 0
    for below in range((count - 1) // 2):
        outside += 2 * math.comb(count, below) / 2**count
        if outside > 1 - _CONFIDENCE:
            break
        place = below
    return ordered[place], ordered[count - 1 - place]


def _unsteady(references: Sequence[float]) -> bool:
    """By the times of the reference alone: an answer must not be able to ask for more."""
    return max(references) - min(references) > _STEADY * statistics.median(references)
