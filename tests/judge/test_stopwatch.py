"""The stopwatch: new arguments each time, times from outside, and a noisy answer that gains nothing."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.base.errors import InfraError
from bench.judge.deadline import Timed
from bench.judge.stopwatch import Stopwatch, Timing, Work, interval
from bench.judge.workspace import Workspace
from bench.sandbox.job import Sandbox
from tests.helpers.cells import judge, make_case

_CALL_S, _REFERENCE_S, _ANSWER_S = 0.03, 0.4, 0.002


def _work(**changes: Any) -> Work:
    counter = itertools.count()
    facts: dict[str, Any] = {
        "target": "driver.py:work",
        "draw": lambda rounds: (next(counter), rounds),
        "right": lambda arguments, value: None,
    }
    return Work(**{**facts, **changes})


def _side(seconds: Callable[[], float], met: list[Any] | None = None) -> Callable[[str, tuple[Any, ...]], Timed]:
    def call(target: str, arguments: tuple[Any, ...]) -> Timed:
        if met is not None:
            met.append(arguments)
        return Timed(list(arguments), _CALL_S + arguments[1] * seconds(), trusted=True)

    return call


def _measured(answer: Callable[[], float], reference: Callable[[], float] = lambda: _REFERENCE_S) -> Timing:
    return Stopwatch(_work(), _side(answer), _side(reference)).compare()


def test_the_ratio_is_that_of_the_work_without_the_call() -> None:
    timing = _measured(lambda: _ANSWER_S)
    assert timing.ratio == pytest.approx(200)
    assert timing.low == pytest.approx(200)
    assert timing.answer_s == pytest.approx(_ANSWER_S)
    assert timing.repetitions == 5
    assert timing.trusted


def test_no_side_meets_the_same_arguments_twice() -> None:
    met: list[Any] = []
    Stopwatch(_work(), _side(lambda: 0.002, met), _side(lambda: 0.4, met)).compare()
    assert len(set(met)) == len(met)


def test_a_case_that_repeats_itself_is_at_fault() -> None:
    with pytest.raises(RuntimeError, match="same arguments twice"):
        Stopwatch(_work(draw=lambda rounds: (1, rounds)), _side(lambda: 0.1), _side(lambda: 0.1)).compare()


def test_a_wrong_value_in_any_timed_call_is_a_failed_check() -> None:
    for wrong in range(6):
        turns = itertools.count()

        def right(arguments: Any, value: Any, wrong: int = wrong, turns: Any = turns) -> None:
            assert next(turns) != wrong, "other values"

        with pytest.raises(AssertionError, match="other values"):
            Stopwatch(_work(right=right), _side(lambda: 0.2), _side(lambda: 0.4)).compare()


def test_a_noisy_answer_counts_at_its_slow_end_and_asks_for_nothing() -> None:
    rng = random.Random(4)
    timing = _measured(lambda: rng.choice([0.001, 0.1]))
    assert timing.repetitions == 5
    assert timing.low < 10


def test_a_noisy_reference_is_repeated_and_not_for_ever() -> None:
    rng = random.Random(4)
    timing = _measured(lambda: _ANSWER_S, lambda: rng.uniform(0.3, 0.6))
    assert timing.repetitions == 9


def test_an_answer_that_takes_nothing_is_not_infinitely_fast() -> None:
    rng = random.Random(4)
    side = _side(lambda: 0.0)

    def noisy(target: str, arguments: tuple[Any, ...]) -> Timed:
        timed = side(target, arguments)
        work_s = arguments[1] * _REFERENCE_S
        return Timed(timed.value, timed.cpu_s + work_s + rng.uniform(0, 0.002), trusted=True)

    timing = Stopwatch(_work(), side, noisy).compare()
    assert math.isfinite(timing.high)
    assert timing.high <= _REFERENCE_S / 1e-4 * 128 * 1.1


def test_what_is_not_counted_by_the_kernel_is_not_trusted() -> None:
    def estimated(target: str, arguments: tuple[Any, ...]) -> Timed:
        return Timed(None, 0.1 + arguments[1] * 0.2, trusted=False)

    assert not Stopwatch(_work(), estimated, _side(lambda: 0.4)).compare().trusted


def test_an_interval_of_order_statistics() -> None:
    assert interval([3, 1, 2]) == (1, 3)
    assert interval([5, 1, 4, 2, 3]) == (1, 5)
    # 1 - 2 (1 + 9) / 512 = 0.96.
    assert interval(range(9)) == (1, 7)
    assert interval(range(20)) == (5, 14)


_CHECK = '''
import itertools
import random

from bench.judge import Work, check


@check(required=True)
def twice_as_fast(ws):
    """Sums are found in less than half of the starter's time."""
    rng, turns = random.Random(ws.seed), itertools.count()

    def draw(rounds):
        return next(turns), [rng.randrange(10**6) for _ in range(rounds)]

    def right(arguments, value):
        assert value == [sum(range(300_000 + n % 7)) for n in arguments[1]], "wrong sums"

    timing = ws.stopwatch(Work("driver.py:sums", draw, right))
    ws.metric("ratio", timing.ratio, "times", trusted=timing.trusted)
    ws.metric("trusted", timing.trusted)
    assert timing.low > 2, f"{timing.low:.1f} times"
'''
_DRIVER = """
def sums(turn, numbers):
    import answer

    return [answer.total(300_000 + n % 7) for n in numbers]
"""
_SLOW = "def total(n):\n    found = 0\n    for i in range(n):\n        found += i\n    return found\n"
_FAST = "def total(n):\n    return n * (n - 1) // 2\n"
_BENT = "import time\ntime.perf_counter = time.process_time = time.monotonic = lambda: 0.0\n"
_HIDES = """
import os
def total(n):
    # The work is done by a grandchild that its caller does not wait for.
    r, w = os.pipe()
    if os.fork() == 0:
        if os.fork() == 0:
            found = 0
            for i in range(n):
                found += i
            os.write(w, str(found).encode())
            os._exit(0)
        os._exit(0)
    os.wait()
    return int(os.read(r, 100))
"""


@pytest.mark.parametrize(
    ("text", "passes"),
    [(_FAST, True), (_BENT + _SLOW, False), (_HIDES, False)],
    ids=["fast", "slow with a bent clock", "hides in a grandchild"],
)
def test_the_stopwatch_in_a_check(variant_sandbox: Sandbox, tmp_path: Path, text: str, passes: bool) -> None:
    files = {"check.py": _CHECK, "hidden/driver.py": _DRIVER, "workspace/answer.py": _SLOW}
    case = make_case(tmp_path / "cases", files, limits={"call_s": 20, "grade_s": 60})
    grading = judge(case, tmp_path, {"answer.py": text}, variant_sandbox)
    assert not grading.broken
    assert grading.success is passes, [verdict.message for verdict in grading.verdicts]
    metrics = {metric["name"]: metric for metric in grading.metrics}
    trusted = variant_sandbox.isolated
    assert metrics["trusted"]["value"] == trusted
    assert metrics["ratio"]["unit"] == ("times" if trusted else "times (estimated)")


def test_what_nothing_counts_earns_nothing() -> None:
    """Where the sandbox isolates; what does not isolate is never ranked."""
    scene = SimpleNamespace(sandbox=SimpleNamespace(isolated=True))
    workspace = SimpleNamespace(_scene=scene)
    side = _side(lambda: 0.1)

    def untrusted(target: str, arguments: tuple[Any, ...]) -> Timed:
        return replace(side(target, arguments), trusted=False)

    workspace._timed = workspace._timed_reference = untrusted
    with pytest.raises(InfraError, match="cannot be counted here"):
        Workspace.stopwatch(cast(Any, workspace), _work())
    scene.sandbox.isolated = False
    assert not Workspace.stopwatch(cast(Any, workspace), _work()).trusted
