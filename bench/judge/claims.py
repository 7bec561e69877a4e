"""What the agent says against what the judge measures, and what its product asked of a service."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from bench.judge.values import integer, mapping, number, shown, string, written_number

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import ArrayLike

    from bench.judge.files import Folder
    from bench.judge.workspace import Workspace


def json_number(folder: Folder, path: str, *keys: str) -> float:
    """The finite number at `keys`, one inside the other, in a JSON file; AssertionError says what is wrong."""
    value = folder.json(path)
    for depth, key in enumerate(keys):
        where = "".join(f"[{name!r}]" for name in keys[: depth + 1])
        assert type(value) is dict and key in value, f"{path} has nothing at {where}"
        value = value[key]
    try:
        return number(value)
    except AssertionError as fault:
        raise AssertionError(f"{path}, {' / '.join(keys)}: {fault}") from None


def csv_number(folder: Folder, path: str, column: str, row: int = -1) -> float:
    """The finite number in a column of a CSV file; `row` counts from the first row, or with -1 from the last one."""
    rows = folder.csv(path)
    there = -len(rows) <= row < len(rows)
    assert there and column in rows[row], f"{path} does not have a row {row} with a column {column!r}"
    text = str(rows[row][column])
    try:
        return written_number(text)
    except AssertionError:
        raise AssertionError(f"{path}, column {column!r}: {shown(text)} is not a finite number") from None


def proportion_tolerance(
    measured: float, count: int, claimed_on: int | None = None, confidence: float = 0.999
) -> float:
    """How far an honest share, such as an accuracy, may be from the one that was measured on `count` other samples.

    The half width of the normal interval of the difference of two shares, z * sqrt(p (1 - p) (1/n + 1/m)), with p =
    (n * measured + z^2 / 2) / (n + z^2) of Agresti and Coull (1998), so that it does not vanish at 0 and 1. claimed_on:
    the number m of samples that the claim was measured on; None where the true share is claimed (m without end). For a
    claim about the very samples that the judge measures there is no chance in it: state your own tolerance instead.
    """
    if not 0 <= measured <= 1 or count < 1 or (claimed_on is not None and claimed_on < 1) or not 0 < confidence < 1:
        raise ValueError("a share of at least one sample, and a confidence below 1, are needed")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = (count * measured + z * z / 2) / (count + z * z)
    return z * math.sqrt(share * (1 - share) * (1 / count + (1 / claimed_on if claimed_on else 0)))


def bootstrap_tolerance(
    statistic: Callable[..., float],
    *samples: ArrayLike,
    rng: Generator,
    repeats: int = 1000,
    confidence: float = 0.99,
) -> float:
    """Half the width of the percentile interval of `statistic(*samples)`, whose rows are drawn together, with repeats.

    For measurements that are not shares: an error, an F1, an AUC. rng: `ws.numpy_rng("bootstrap")`. Source: Efron and
    Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13. The interval is about the sampling of the judge's
    data alone; a claim measured on m other rows needs sqrt(1 + n / m) times as much.
    """
    import numpy

    columns = [numpy.asarray(sample) for sample in samples]
    count = len(columns[0])
    if count < 2 or any(len(column) != count for column in columns):
        raise ValueError("samples of the same length, of two rows at least, are needed")
    draws = (rng.integers(0, count, count) for _ in range(repeats))
    found = [statistic(*(column[rows] for column in columns)) for rows in draws]
    low, high = numpy.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(high - low) / 2


def check_claim(
    ws: Workspace,
    name: str,
    claimed: object,
    measured: float,
    tolerance: float,
    *,
    higher_is_better: bool = True,
    only_overclaims: bool = False,
    low: float | None = None,
    high: float | None = None,
) -> float:
    """Record the claim beside the measurement, and fail the check where they differ by more than `tolerance`.

    claimed: untrusted, as it was read; a missing value, a text or a number outside [low, high] is a failed check, too.
    only_overclaims: a claim that is worse than the measurement is accepted. Gives the claim as a number. All are in the
    unit of the measurement.
    """
    ws.claim(name, claimed, measured, tolerance, higher_is_better)
    try:
        value = number(claimed, low, high)
    except AssertionError as fault:
        raise AssertionError(f"{name} is claimed, and {fault}") from None
    better = (value - measured) if higher_is_better else (measured - value)
    honest = better <= tolerance if only_overclaims else abs(better) <= tolerance
    assert honest, f"{name} is claimed as {value:.6g}, measured {measured:.6g} (tolerance {tolerance:.3g})"
    return value


@dataclass(frozen=True)
class ServiceCall:
    """A request that `bench.casekit.services.record_calls` wrote down, in the order of arrival."""

    method: str
    path: str
    query: dict[str, list[str]]
    body: Any
    """The JSON value, a text, or None: what was too long or neither is left out, and `body_bytes` tells its size."""
    body_bytes: int
    status: int
    """Of the answer that the service gave; 0 where it raised."""


def service_calls(ws: Workspace, service: str, method: str | None = None, path: str | None = None) -> list[ServiceCall]:
    """Calls that the service answered during the agent phase, of one method and one path where they are given.

    AssertionError where the journal is full, as of `ws.journal`.
    """
    calls = [_call(event) for event in ws.journal(service) if event.get("event") == "call"]
    return [it for it in calls if method in (None, it.method) and path in (None, it.path)]


def _call(event: Mapping[str, Any]) -> ServiceCall:
    return ServiceCall(
        method=string(event["method"]),
        path=string(event["path"]),
        query=mapping(event["query"]),
        body=event["body"],
        body_bytes=integer(event["body_bytes"]),
        status=integer(event["status"]),
    )
