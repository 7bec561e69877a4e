"""Tables of predictions that an agent submits: joined on their ids, never on the order of the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.judge.values import shown, written_digits, written_number

if TYPE_CHECKING:
    from bench.judge.files import Folder

_EXAMPLES = 3


@dataclass(frozen=True)
class Numbers:
    """A column of finite numbers within [low, high]; a bound of None does not hold."""

    low: float | None = None
    high: float | None = None
    whole: bool = False
    """Only whole numbers, which may be written as 3 or 3.0."""


@dataclass(frozen=True)
class Labels:
    """A column of texts; each must be one of `allowed`, exactly as written there. None allows every text."""

    allowed: Sequence[str] | None = None


def submission(
    folder: Folder,
    path: str,
    *,
    ids: Mapping[str, Sequence[int] | Sequence[str]],
    columns: Mapping[str, Numbers | Labels],
    max_mb: float = 20,
) -> dict[str, Any]:
    """Columns of the CSV file `path`, their rows brought into the order of the ids.

    ids: name of the id column and the ids that the file must hold, once each: `{"Id": test_ids}`. Where they are whole
    numbers, 7 and 7.0 are the same id; texts must be equal. columns: name and kind of every other column; the order of
    rows and columns does not matter. Gives a float64 array for `Numbers`, a list of texts for `Labels`.

    AssertionError for each fault: a wrong header, a doubled, missing or unknown id, a number that is not finite or out
    of its bounds, a label out of the set. It reads at most `max_mb` MiB and two million fields, as `ws.csv` does.
    ValueError for ids that repeat or are none: an error of the case.
    """
    import numpy

    ((id_column, wanted),) = ids.items()
    order = [int(it) if isinstance(it, int | numpy.integer) else str(it) for it in wanted]
    known = set(order)
    if not order or len(known) != len(order):
        raise ValueError("the ids of the case must be there, and differ from each other")
    rows = folder.csv(path, max_mb)
    assert rows, f"{path} has no rows"
    header = {str(name) for name in rows[0]}
    expected = {id_column, *columns}
    odd = [shown(name) for name in sorted(header ^ expected)[:_EXAMPLES]]
    assert not odd, (
        f"{path} has the wrong columns: expected {sorted(expected)}, missing or not asked for: {', '.join(odd)}"
    )
    place = _places(path, [str(row[id_column]) for row in rows], known)
    missing = [it for it in order if it not in place]
    assert not missing, f"{path}: {len(missing)} of {len(order)} ids are missing, such as {_some(missing)}"
    return {
        name: _column(f"{path}, column {name}", order, [str(rows[place[it]][name]) for it in order], kind)
        for name, kind in columns.items()
    }


def _places(path: str, texts: list[str], known: set[int | str]) -> dict[int | str, int]:
    """The row of each id."""
    place: dict[int | str, int] = {}
    unknown: list[str] = []
    whole = isinstance(next(iter(known)), int)
    for row, text in enumerate(texts):
        it = _whole(text) if whole else text
        if it is None or it not in known:
            unknown.append(text)
            continue
        assert it not in place, f"{path} names the id {shown(text)} twice"
        place[it] = row
    assert not unknown, f"{path}: {len(unknown)} rows have an id that was not asked for, such as {_some(unknown)}"
    return place


def _some(values: Sequence[object]) -> str:
    return ", ".join(shown(value) for value in values[:_EXAMPLES])


def _whole(text: str) -> int | None:
    """The whole number that `text` is, however it is written."""
    digits, value = written_digits(text), _float(text)
    if digits is None or value is None or not value.is_integer():
        return None
    try:
        # A float has no room for all digits of a long one.
        return int(digits)
    except ValueError:
        return int(value)


def _float(text: str) -> float | None:
    try:
        return written_number(text)
    except AssertionError:
        return None


def _column(what: str, order: Sequence[object], texts: list[str], kind: Numbers | Labels) -> Any:
    import numpy

    if isinstance(kind, Labels):
        allowed = None if kind.allowed is None else set(kind.allowed)
        for it, text in zip(order, texts, strict=True):
            assert allowed is None or text in allowed, (
                f"{what}: {shown(text)} of id {shown(it)} is not one of the labels {_some(sorted(allowed or ()))} ..."
            )
        return texts
    values = numpy.empty(len(texts))
    for row, (it, text) in enumerate(zip(order, texts, strict=True)):
        value = _float(text)
        assert value is not None, f"{what}: {shown(text)} of id {shown(it)} is not a finite number"
        assert not kind.whole or value.is_integer(), f"{what}: {shown(text)} of id {shown(it)} is not a whole number"
        low, high = kind.low, kind.high
        inside = (low is None or value >= low) and (high is None or value <= high)
        assert inside, f"{what}: {value:g} of id {shown(it)} is not within [{low}, {high}]"
        values[row] = value
    return values
