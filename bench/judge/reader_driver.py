"""Reads binary files in a sandbox of their own: the source is sent there, and the judge never imports it.

Every format is bounded by what its header says before anything is unpacked, and the process by its sandbox. Libraries
are those of the case's environment; a missing one is a failed check that names it.
"""

from __future__ import annotations

import importlib
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MOST_NAMES = 10_000
_MOST_PARTS = 100_000
"""Of a checkpoint, its lists and dictionaries included."""
_DEEPEST = 20
_MOST_OF_A_MODULE = 20
"""Of metadata: torch itself writes the version alone."""
_MIB = 1 << 20
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Of each colour type of PNG: grey, RGB, palette, grey with alpha, RGB with alpha."""


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"the case's environment lacks {name.partition('.')[0]}: {error}") from None


# --- checkpoints -----------------------------------------------------------------------------------------------------


def checkpoint(paths: list[str], wanted: list[str] | None, max_mb: float) -> dict[str, Any]:
    """Tensors, plain values and the kinds of all else in a file of torch.save, by their dotted names.

    place: the name of the dictionary in which a tensor lies, or of the list with `[]`; empty: the file itself is it.
    """
    torch, (path,) = _library("torch"), paths
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            sizes = [member.file_size for member in archive.infolist()]
        _bounded(sum(sizes), max_mb)
    content = _loaded(torch, path)
    tensors: dict[str, dict[str, Any]] = {}
    values: dict[str, Any] = {}
    others: dict[str, str] = {}
    arrays: dict[str, Any] = {}
    total = 0
    for name, place, leaf in _leaves(content):
        if len(tensors) + len(values) >= _MOST_NAMES:
            raise ValueError(f"more than {_MOST_NAMES} entries")
        if name in tensors or name in values:
            raise ValueError(f"two entries have the same name {name[:80]!r}")
        if isinstance(leaf, torch.Tensor):
            dtype = str(leaf.dtype).removeprefix("torch.")
            tensors[name] = {"shape": list(leaf.shape), "dtype": dtype, "place": place}
            if wanted is None or name in wanted:
                # A tensor may have any number of elements over a storage of one.
                total += leaf.numel() * (4 if dtype == "bfloat16" else leaf.element_size())
                _bounded(total, max_mb)
                arrays[name] = leaf if leaf.dim() else leaf.reshape(1)
        elif isinstance(leaf, bool | int | float | str):
            values[name] = leaf[:1000] if isinstance(leaf, str) else leaf
        else:
            others[name] = leaf.text if isinstance(leaf, _Attribute) else _kind(leaf)
    return {"tensors": tensors, "values": values, "others": others, "arrays": arrays}


def _loaded(torch: Any, path: str) -> Any:
    # Plain numbers of NumPy stand in many honest checkpoints beside the tensors.
    numpy = _library("numpy")
    core = importlib.import_module("numpy._core.multiarray" if hasattr(numpy, "_core") else "numpy.core.multiarray")
    kinds = [type(numpy.dtype(kind)) for kind in ("f8", "f4", "i8", "i4", "?")]
    with torch.serialization.safe_globals([core.scalar, numpy.dtype, *kinds]):
        return torch.load(path, map_location="cpu", weights_only=True)


class _Attribute:
    """What a pickled dictionary has beside its keys."""

    def __init__(self, value: Any) -> None:
        self.text = f"an attribute, {_kind(value)}"


def _kind(value: Any) -> str:
    return f"{'empty ' if isinstance(value, dict | list | tuple) and not value else ''}{type(value).__name__[:80]}"


def _odd_attributes(part: Any) -> list[tuple[str, _Attribute]]:
    """Those of a dictionary that torch does not write: of an OrderedDict, unpickling sets any."""
    found = getattr(part, "__dict__", {})
    return [(str(name), _Attribute(it)) for name, it in found.items() if name != "_metadata" or not _metadata(it)]


def _metadata(value: Any) -> bool:
    """Whether it is what `state_dict` writes beside the tensors, and `load_state_dict` takes: facts of each module."""
    modules = value.items() if isinstance(value, dict) else [("", value)]
    return value is None or all(isinstance(name, str) and _facts(it) for name, it in modules)


def _facts(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and len(value) <= _MOST_OF_A_MODULE
        and isinstance(value.get("version"), int | None)
        and all(isinstance(it, str | int | float | None) for pair in value.items() for it in pair)
    )


def _leaves(content: Any) -> Iterator[tuple[str, str, Any]]:
    pending, visited = [("", "", content, 0)], 0
    while pending:
        name, place, part, depth = pending.pop()
        visited += 1
        # A list may stand in another one many times, and be empty: a few bytes unfold without end, and without a leaf.
        if depth > _DEEPEST or visited + len(pending) > _MOST_PARTS:
            raise ValueError("nested too deeply, or too large")
        listed, odd = f"{name}[]", _odd_attributes(part) if isinstance(part, dict) else []
        if isinstance(part, dict) and (part or odd):
            # Only a text is a key of a state dictionary: another one lies there as in a list.
            inner = [(str(key), name if isinstance(key, str) else listed, value) for key, value in part.items()]
            inner += [(key, name, it) for key, it in odd]
        elif isinstance(part, list | tuple) and part:
            inner = [(str(at), listed, value) for at, value in enumerate(part)]
        else:
            leaf = part.item() if type(part).__module__ == "numpy" and hasattr(part, "item") else part
            yield name, place, leaf
            continue
        named = [(f"{name}.{key}" if name else key, inside, value) for key, inside, value in reversed(inner)]
        pending += [(below, inside, value, depth + 1) for below, inside, value in named]


def _bounded(size: float, max_mb: float) -> None:
    if size > max_mb * _MIB:
        raise ValueError(f"it unpacks to more than {max_mb:g} MiB")


# --- tables ----------------------------------------------------------------------------------------------------------


def parquet(paths: list[str], columns: list[str] | None, max_rows: int, max_mb: float) -> dict[str, Any]:
    """Columns of a Parquet file: arrays where a column is numeric and complete, lists elsewhere."""
    pyarrow, reader, (path,) = _library("pyarrow"), _library("pyarrow.parquet"), paths
    with reader.ParquetFile(path) as file:
        facts = file.metadata
        if not 0 <= facts.num_rows <= max_rows or facts.num_columns > _MOST_NAMES:
            raise ValueError(f"{facts.num_rows} rows and {facts.num_columns} columns, allowed are {max_rows} rows")
        _bounded(sum(facts.row_group(n).total_byte_size for n in range(facts.num_row_groups)), max_mb)
        names = list(file.schema_arrow.names)
        chosen = names if columns is None else [name for name in columns if name in names]
        batches, rows, size = [], 0, 0
        for batch in file.iter_batches(batch_size=10_000, columns=chosen):
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows > max_rows:
                raise ValueError(f"more than {max_rows} rows")
            _bounded(size, max_mb)
            batches.append(batch)
    schema = pyarrow.schema([file.schema_arrow.field(name) for name in chosen])
    table = pyarrow.Table.from_batches(batches, schema=schema if not batches else batches[0].schema)
    return {"names": names, "rows": rows, "columns": {name: _column(pyarrow, table, name) for name in chosen}}


def _column(pyarrow: Any, table: Any, name: str) -> Any:
    column = table.column(name)
    kinds = pyarrow.types
    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if kinds.is_floating(kind) or (kinds.is_integer(kind) and not column.null_count):
        return column.to_numpy()
    if not (kinds.is_integer(kind) or kinds.is_boolean(kind) or kinds.is_string(kind) or kinds.is_large_string(kind)):
        raise ValueError(
            f"column {name[:80]} is of the type {str(kind)[:80]}: numbers, truth values and texts are read"
        )
    return column.to_pylist()


# --- pictures --------------------------------------------------------------------------------------------------------


def pictures(paths: list[str], colour: bool, max_pixels: int, max_mb: float) -> list[Any]:
    """Pictures as uint8 arrays: height x width x 3, or height x width where `colour` is false."""
    numpy, found, total = _library("numpy"), [], 0
    for path in paths:
        content = Path(path).read_bytes()
        picture = _png(numpy, content, max_pixels) if content.startswith(_SIGNATURE) else None
        if picture is None:
            picture = _by_pillow(numpy, path, max_pixels)
        picture = _with_channels(numpy, picture, colour)
        total += picture.nbytes
        _bounded(total, max_mb)
        found.append(picture)
    return found


def _by_pillow(numpy: Any, path: str, max_pixels: int) -> Any:
    with _library("PIL.Image").open(path) as image:
        if image.width * image.height > max_pixels:
            raise ValueError(f"{image.width} x {image.height} pixels, allowed are {max_pixels}")
        return numpy.asarray(image.convert("RGB"))


def _png(numpy: Any, content: bytes, max_pixels: int) -> Any:
    """A PNG of 8 bits a channel without interlacing, as height x width x channels; None for the other kinds.

    Format: https://www.w3.org/TR/png-3/ (chunks in section 5, filters in section 9).
    """
    header, palette, packed, place = b"", b"", bytearray(), len(_SIGNATURE)
    while place + 12 <= len(content):
        length, kind = struct.unpack(">I4s", content[place : place + 8])
        body = content[place + 8 : place + 8 + length]
        header, palette = (body if kind == b"IHDR" else header), (body if kind == b"PLTE" else palette)
        packed += body if kind == b"IDAT" else b""
        place += 12 + length
    if len(header) != 13:
        raise ValueError("a PNG without a header")
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    if not 0 < width * height <= max_pixels:
        raise ValueError(f"{width} x {height} pixels, allowed are {max_pixels}")
    if depth != 8 or interlaced or colour not in _CHANNELS:
        return None
    channels = _CHANNELS[colour]
    size = height * (1 + width * channels)
    raw = zlib.decompressobj().decompress(bytes(packed), size + 1)
    if len(raw) != size:
        raise ValueError(f"a PNG of {width} x {height} with {len(raw)} bytes of pixels, expected {size}")
    lines = numpy.frombuffer(raw, numpy.uint8).reshape(height, 1 + width * channels)
    picture = _unfiltered(numpy, lines, channels).reshape(height, width, channels)
    if colour != 3:
        return picture
    colours = numpy.frombuffer(palette, numpy.uint8).reshape(-1, 3)
    return colours[picture[..., 0]]


def _unfiltered(numpy: Any, lines: Any, channels: int) -> Any:
    done = numpy.zeros((len(lines) + 1, lines.shape[1] - 1), numpy.uint8)
    for row, line in enumerate(lines):
        kind, values, above = int(line[0]), line[1:], done[row]
        if kind == 1:
            values = numpy.add.accumulate(values.reshape(-1, channels), axis=0, dtype=numpy.uint8).reshape(-1)
        elif kind == 2:
            values = values + above
        elif kind in (3, 4):
            values = numpy.array(_step_by_step(kind, values.tolist(), above.tolist(), channels), numpy.uint8)
        elif kind:
            raise ValueError(f"a PNG with the filter {kind}")
        done[row + 1] = values
    return done[1:]


def _step_by_step(kind: int, values: list[int], above: list[int], channels: int) -> list[int]:
    """A line of the filters Average and Paeth, whose every pixel needs the one before it."""
    done: list[int] = []
    for place, value in enumerate(values):
        left = done[place - channels] if place >= channels else 0
        up, corner = above[place], above[place - channels] if place >= channels else 0
        if kind == 3:
            guess = (left + up) // 2
        else:
            near = left + up - corner
            guess = min((abs(near - left), 0, left), (abs(near - up), 1, up), (abs(near - corner), 2, corner))[2]
        done.append((value + guess) & 255)
    return done


def _with_channels(numpy: Any, picture: Any, colour: bool) -> Any:
    """RGB or grey, without alpha. Grey is ITU-R 601: 0.299 R + 0.587 G + 0.114 B."""
    picture = picture[..., :1] if picture.shape[-1] < 3 else picture[..., :3]
    if colour:
        return numpy.ascontiguousarray(numpy.broadcast_to(picture, (*picture.shape[:2], 3)))
    if picture.shape[-1] == 1:
        return numpy.ascontiguousarray(picture[..., 0])
    return numpy.round(picture @ numpy.array([0.299, 0.587, 0.114])).astype(numpy.uint8)
