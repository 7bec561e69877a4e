"""Validators for whatever came from the agent: the value in the form asked for, or a failed check."""

from __future__ import annotations

import io
import math
import re
import reprlib
import zipfile
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray


_SHOWN = 80
_MAX_NPY_HEADER = 1 << 16
# The signature of an entry in the central directory of a zip file.
_ENTRY = b"PK\x01\x02"
_MOST_MEMBERS = 10_000
_MOST_NUMBERS = 2_000_000
"""As Python's own objects, each of which takes forty bytes."""
_MOST_ELEMENTS = 1 << 26
"""Of an array that is made float64: half a gigabyte."""
_CHUNK = 1 << 20
# Blanks are those of C, which pandas passes over. No two parts can take the same character: it takes linear time.
_WRITTEN = re.compile(r"[ \t-\r]*([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[ \t-\r]*")


def shown(value: object) -> str:
    """A short, safe rendering of a hostile value for a message; of a large one only the beginning is looked at."""
    if isinstance(value, (str, bytes)):
        value = value[: 2 * _SHOWN]
    elif isinstance(value, (list, tuple, dict)):
        return _clipped(_SHORT.repr(value))
    try:
        return _clipped(repr(value))
    except ValueError:
        # Python refuses to write out an integer of thousands of digits.
        return f"a value of type {type(value).__name__}"


def _clipped(text: str) -> str:
    # An array is written in several lines.
    text = text.replace("\n", " ")
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _shortener() -> reprlib.Repr:
    made = reprlib.Repr()
    made.maxlist = made.maxtuple = made.maxdict = made.maxstring = made.maxother = made.maxlong = _SHOWN
    made.maxlevel = 20
    return made


_SHORT = _shortener()


def number(value: Any, low: float | None = None, high: float | None = None) -> float:
    """A finite number, not a boolean, within [low, high]."""
    # Not isinstance: a boolean is an int to it.
    assert type(value) in (int, float), f"a number is needed, not {shown(value)}"
    try:
        result = float(value)
    except OverflowError:
        raise AssertionError("the number is too large") from None
    assert math.isfinite(result), f"a finite number is needed, not {result}"
    assert low is None or result >= low, f"{result:g} is below {low:g}"
    assert high is None or result <= high, f"{result:g} is above {high:g}"
    return result


def written_number(text: str, low: float | None = None, high: float | None = None) -> float:
    """A finite number that stands in a text, such as a field of a table, within [low, high].

    Written as pandas.read_csv takes it: ASCII digits, a sign, a point and an exponent where wanted, blanks around them.
    Python's own `float` also takes `1_000`, digits of other scripts and `infinity`.
    """
    value = math.inf if (digits := written_digits(text)) is None else float(digits)
    assert math.isfinite(value), f"a number is needed, not {shown(text)}"
    return number(value, low, high)


def written_digits(text: str) -> str | None:
    """The number that stands in a text, without the blanks around it; None where there is another thing."""
    found = _WRITTEN.fullmatch(text)
    return found[1] if found else None


def integer(value: object, low: int | None = None, high: int | None = None) -> int:
    """A whole number, not a boolean, within [low, high]."""
    assert type(value) is int or (type(value) is float and value.is_integer()), (
        f"a whole number is needed, not {shown(value)}"
    )
    number(value, low, high)
    return int(value)


def string(value: object) -> str:
    """A string."""
    assert type(value) is str, f"a string is needed, not {shown(value)}"
    return value


def sequence(value: object, length: int | None = None) -> list[Any]:
    """A list, of `length` items."""
    assert type(value) is list, f"a list is needed, not {shown(value)}"
    assert length is None or len(value) == length, f"{length} items are needed, there are {len(value)}"
    return value


def numbers(value: object, length: int | None = None) -> list[float]:
    """A list (or one-dimensional array) of finite numbers, at most two million."""
    if hasattr(value, "tolist"):
        assert getattr(value, "size", 0) <= _MOST_NUMBERS, f"at most {_MOST_NUMBERS:,} numbers are taken"
        value = value.tolist()
    return [number(item) for item in sequence(value, length)]


def mapping(value: object, keys: Sequence[str] | None = None) -> dict[str, Any]:
    """A dictionary that has at least `keys`."""
    assert type(value) is dict, f"an object is needed, not {shown(value)}"
    missing = [key for key in keys or () if key not in value]
    assert not missing, f"keys are missing: {', '.join(missing)}"
    return value


def array(value: object, shape: Sequence[int | None] | None = None, finite: bool = True) -> NDArray[float64]:
    """A numeric array as float64; None in `shape` stands for any size.

    Of an array it takes eight times its own memory at most (from int8), never over half a gigabyte; shape and size are
    checked before anything is converted.
    """
    import numpy

    assert isinstance(value, (numpy.ndarray, list, int, float)), f"an array is needed, not {shown(value)}"
    if isinstance(value, list):
        _check_leaves(value, numpy.ndarray)
    try:
        result = numpy.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise AssertionError(f"a numeric array is needed: {error}") from None
    assert result.dtype.kind in "fiub", f"a numeric array is needed, not one of {result.dtype}"
    if shape is not None:
        fits = len(shape) == result.ndim and all(b is None or a == b for a, b in zip(result.shape, shape, strict=True))
        assert fits, f"shape {tuple(shape)} is needed, it is {result.shape}"
    assert result.size <= _MOST_ELEMENTS, f"at most {_MOST_ELEMENTS:,} numbers are taken, there are {result.size:,}"
    exact: NDArray[float64] = result.astype(numpy.float64)
    assert not finite or bool(numpy.isfinite(exact).all()), "the array has values that are not finite"
    return exact


def _check_leaves(value: list[Any], array_type: type) -> None:
    """Refuse what numpy would need memory for before it could refuse it, such as one long string among many short."""
    pending, leaves, elements = [value], 0, 0
    while pending:
        part = pending.pop()
        leaves += len(part)
        assert leaves <= _MOST_NUMBERS, f"lists of at most {_MOST_NUMBERS:,} numbers are taken"
        for item in part:
            if isinstance(item, list):
                pending.append(item)
            elif isinstance(item, array_type):
                elements += item.size  # type: ignore[attr-defined]
            else:
                assert isinstance(item, (int, float)), f"a numeric array is needed, not one with {shown(item)}"
    assert elements <= _MOST_ELEMENTS, f"arrays of at most {_MOST_ELEMENTS:,} numbers are taken"


def read_npz(data: bytes, max_bytes: int) -> dict[str, NDArray[Any]]:
    """Arrays of an .npz archive; AssertionError when it is not one, holds objects, or unpacks to over `max_bytes`.

    Beside `data` it takes what the archive unpacks to, once: each array is checked by its header, then read into place.
    """
    # zipfile makes an object of every entry before they can be counted.
    assert data.count(_ENTRY) <= _MOST_MEMBERS, f"the archive has more than {_MOST_MEMBERS} members"
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            assert sum(member.file_size for member in members) <= max_bytes, "the archive unpacks to too much"
            names = [member.filename.removesuffix(".npy") for member in members]
            assert len(set(names)) == len(names), "a name occurs twice in the archive"
            return {name: _read_npy(archive, member) for name, member in zip(names, members, strict=True)}
    except AssertionError:
        raise
    except Exception as error:
        # zipfile and numpy raise many kinds of errors; only the agent's bytes can be the reason.
        raise AssertionError(f"not a readable npz archive: {shown(str(error))}") from None


def read_npy(data: bytes) -> NDArray[Any]:
    """The array of a .npy file, never one of objects; AssertionError when it is not one. It takes `data` once more."""
    try:
        return _array_of(io.BytesIO(data), len(data), "the file")
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"not a readable npy file: {shown(str(error))}") from None


def _read_npy(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    name = shown(member.filename)
    # Of the other methods zipfile cannot unpack a part: a kilobyte may become a gigabyte before it can be counted.
    stored = member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    assert stored, f"{name}: only stored and deflated members are read"
    with archive.open(member) as file:
        return _array_of(file, member.file_size, name)


def _array_of(file: IO[bytes], whole: int, name: str) -> NDArray[Any]:
    """The array of `whole` bytes in the npy format."""
    import numpy

    magic = file.read(8)
    assert len(magic) == 8, f"{name}: too short"
    width = 2 if magic[6] == 1 else 4
    length = file.read(width)
    size = int.from_bytes(length, "little")
    assert len(length) == width and size <= _MAX_NPY_HEADER, f"{name}: the header is too long"
    head = io.BytesIO(magic + length + file.read(size))
    version = numpy.lib.format.read_magic(head)
    reader = numpy.lib.format.read_array_header_1_0 if version == (1, 0) else numpy.lib.format.read_array_header_2_0
    shape, fortran, dtype = reader(head)
    assert dtype.kind in "fiub" and not dtype.hasobject, f"{name}: only numeric arrays are read"
    rest = whole - len(head.getvalue())
    assert math.prod(shape) * dtype.itemsize == rest, f"{name}: shape and size do not agree"
    content = bytearray(rest)
    view, filled = memoryview(content), 0
    while filled < rest and (part := file.read(min(_CHUNK, rest - filled))):
        view[filled : filled + len(part)] = part
        filled += len(part)
    assert filled == rest and not file.read(1), f"{name}: shape and size do not agree"
    return true_values(numpy.frombuffer(content, dtype=dtype)).reshape(shape, order="F" if fortran else "C")


def true_values(values: NDArray[Any]) -> NDArray[Any]:
    """Truth values become 0 or 1, as any other byte is both true and false to numpy."""
    return values.view("u1") != 0 if values.dtype.kind == "b" else values
