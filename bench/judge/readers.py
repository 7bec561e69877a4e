"""Checkpoints, tables and pictures that an agent left: parsed in a sandbox, and checked here as any other claim.

The parser runs in a fork that cannot import the workspace's modules, under the limits of the case. What it returns may
still be the file's own invention, since unpicklers can be subverted: compute with the arrays, and believe nothing else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.judge.values import integer, mapping, sequence, shown, string

if TYPE_CHECKING:
    from numpy import uint8
    from numpy.typing import NDArray

    from bench.judge.files import Folder
    from bench.judge.workspace import Workspace

_MOST_NAMES = 10_000
_MOST_OTHERS = 100_000
_LONGEST_NAME = 400
_LARGEST_SIDE = 1 << 40
_MIB = 1 << 20
_WHOLE, _INDEX, _PICKLED = _FORMS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
_EXTRA = "_extra_state"
"""The key of torch for what `get_extra_state` of a module gives."""


@dataclass(frozen=True)
class Checkpoint:
    """What a file of `torch.save` holds, by dotted names such as `model.conv1.weight` or `optimizer.state.0.step`."""

    shapes: dict[str, tuple[int, ...]]
    """Of every tensor."""
    dtypes: dict[str, str]
    """Of every tensor, in torch's words: `float32`, `bfloat16`, `int64`."""
    arrays: dict[str, NDArray[Any]]
    """Content of the tensors that were asked for; bfloat16 as float32."""
    values: dict[str, bool | int | float | str]
    """Plain values that stand beside the tensors, such as `epoch`."""
    places: dict[str, str]
    """Of every tensor the name of the dictionary, or with `[]` of the list, in which it lies; empty: the whole file."""
    others: dict[str, str]
    """Kinds of what is neither: `NoneType`, `bytes`, `empty dict`; `an attribute, int` of a dictionary."""

    def below(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The arrays of one state dictionary, with the names that they have there: `below("model_state_dict")`.

        prefix: empty where the file is one. AssertionError where it holds what no model loads: a tensor deeper, in a
        dictionary or list of its own, which has the same dotted name; any other thing than tensors, empty dictionaries
        and attributes included. The extra state of a module, `_extra_state`, may be anything.
        """
        start, what = f"{prefix}." if prefix else "", prefix or "the file"
        odd = [name for name, place in self.places.items() if name.startswith(start) and place != prefix]
        assert not odd, f"{what} is not a state dictionary: {shown(odd[0])} is not one of its own keys"
        kinds = {name: type(value).__name__ for name, value in self.values.items()} | self.others
        more = [name for name in kinds if name.startswith(start) and _EXTRA not in name.split(".")]
        assert not more, f"{what} is not a state dictionary: {shown(more[0])} is not a tensor ({kinds[more[0]]})"
        return {name.removeprefix(start): value for name, value in self.arrays.items() if name.startswith(start)}


def read_checkpoint(
    ws: Workspace,
    path: str,
    *,
    within: Folder | None = None,
    wanted: Sequence[str] | None = None,
    max_mb: float = 200,
) -> Checkpoint:
    """Names, shapes, dtypes and arrays of a file of `torch.save`: tensors in dictionaries and lists, what is beside.

    within: the folder of a finished `ws.run`; otherwise the workspace. wanted: names of the tensors whose content is
    needed, all by default. max_mb: bound of the file and of what comes back, each. A whole pickled model is refused, as
    are other objects: AssertionError says so. The case's `memory_mb` and `disk_mb` must have room for the file twice,
    and its environment must have torch, which is quick where `preload` names it.
    """
    names = None if wanted is None else list(wanted)
    parts = ("tensors", "values", "others", "arrays")
    found = mapping(_read(ws, "checkpoint", [path], within, max_mb, wanted=names), parts)
    tensors, values, others = (mapping(found[part]) for part in parts[:3])
    few = len(tensors) + len(values) <= _MOST_NAMES and len(others) <= _MOST_OTHERS
    assert few, f"{path} holds more than {_MOST_NAMES} entries, or {_MOST_OTHERS} that are neither tensors nor plain"
    shapes, dtypes, places = {}, {}, {}
    for name, facts in tensors.items():
        facts = mapping(facts, ("shape", "dtype", "place"))
        assert len(name) <= _LONGEST_NAME, f"{path}: the name {shown(name)} is too long"
        shapes[name] = tuple(integer(side, 0, _LARGEST_SIDE) for side in sequence(facts["shape"]))
        dtypes[name], places[name] = string(facts["dtype"])[:40], string(facts["place"])
    for name in [*values, *others]:
        assert len(name) <= _LONGEST_NAME, f"{path}: the name {shown(name)} is too long"
    for name, value in values.items():
        assert type(value) in (bool, int, float, str), f"{path}: {shown(name)} is not a plain value"
    arrays = {
        name: _array(value, shapes.get(name), f"{path}: {shown(name)}")
        for name, value in mapping(found["arrays"]).items()
    }
    kinds = {name: string(kind)[:_LONGEST_NAME] for name, kind in others.items()}
    return Checkpoint(shapes, dtypes, _bounded(path, arrays, max_mb), values, places, kinds)


def read_parquet(
    ws: Workspace,
    path: str,
    *,
    within: Folder | None = None,
    columns: Sequence[str] | None = None,
    max_rows: int = 200_000,
    max_mb: float = 100,
) -> dict[str, Any]:
    """Columns of a Parquet file: an array where a column is numeric and complete (NaN for missing floats), else a list.

    Lists hold texts, truth values, integers and None. columns: those that must be there, all by default. max_mb: bound
    of the file and of what it unpacks to, each. AssertionError for another type, for missing columns, for too many
    rows and for columns of different lengths. The case's environment must have pyarrow.
    """
    asked = None if columns is None else list(columns)
    options = {"columns": asked, "max_rows": max_rows}
    found = mapping(_read(ws, "parquet", [path], within, max_mb, **options), ("names", "rows", "columns"))
    names = [string(name) for name in sequence(found["names"])]
    missing = [name for name in asked or () if name not in names]
    assert not missing, f"{path} lacks the columns {missing[:5]}; it has {shown(names)}"
    rows, table = integer(found["rows"], 0, max_rows), mapping(found["columns"], asked)
    for name, column in table.items():
        assert hasattr(column, "shape") or type(column) is list, f"{path}: column {shown(name)} is not a column"
        shape = column.shape if hasattr(column, "shape") else (len(column),)
        assert tuple(shape) == (rows,), f"{path}: column {shown(name)} does not have {rows} rows"
        plain = type(column) is not list or all(it is None or type(it) in (bool, int, str) for it in column)
        assert plain, f"{path}: column {shown(name)} holds other things than texts and numbers"
    _bounded(path, {name: column for name, column in table.items() if hasattr(column, "nbytes")}, max_mb)
    return table


def read_pictures(
    ws: Workspace,
    paths: Sequence[str],
    *,
    within: Folder | None = None,
    colour: bool = True,
    max_pixels: int = 4_000_000,
    max_mb: float = 100,
) -> list[NDArray[uint8]]:
    """Pictures as uint8 arrays, height x width x 3, or height x width where `colour` is false; alpha is dropped.

    PNG of 8 bits a channel needs no library; all else, such as JPEG, needs Pillow in the case's environment.
    max_pixels: of one picture, looked up in its header before it is unpacked. max_mb: bound of all files, and of all
    arrays. Grey is ITU-R 601.
    """
    options = {"colour": colour, "max_pixels": max_pixels}
    found = sequence(_read(ws, "pictures", list(paths), within, max_mb, **options), len(paths))
    form = 3 if colour else 2
    for path, picture in zip(paths, found, strict=True):
        fits = getattr(picture, "ndim", 0) == form and str(picture.dtype) == "uint8"
        assert fits and (not colour or picture.shape[2] == 3), f"{path} is not a picture"
        assert 0 < picture.shape[0] * picture.shape[1] <= max_pixels, f"{path} has more than {max_pixels} pixels"
    _bounded("the pictures", dict(zip(paths, found, strict=True)), max_mb)
    return found


@dataclass(frozen=True)
class Pretrained:
    """A model folder in the layout of Hugging Face."""

    config: dict[str, Any]
    """Content of config.json, untrusted."""
    arrays: dict[str, NDArray[Any]]


def read_pretrained(
    ws: Workspace,
    folder: str,
    *,
    within: Folder | None = None,
    forms: Sequence[str] = _FORMS,
    max_mb: float = 500,
) -> Pretrained:
    """config.json and the weights of a folder that `save_pretrained` wrote.

    Weights are read from model.safetensors, from the shards that model.safetensors.index.json names, both in the judge,
    or else from pytorch_model.bin as by `read_checkpoint`. forms: those of the three files that the task allows; the
    weights are in the first one that is there. max_mb: bound of all weights together. ValueError for another form.
    """
    if not forms or not {*forms} <= {*_FORMS}:
        raise ValueError(f"the forms are {', '.join(_FORMS)}, not {forms}")
    place = ws if within is None else within
    config = mapping(place.json(f"{folder}/config.json"))
    allowed = [form for form in _FORMS if form in forms]
    form = next((form for form in allowed if place.exists(f"{folder}/{form}")), allowed[-1])
    if form == _WHOLE:
        return Pretrained(config, place.safetensors(f"{folder}/{form}", max_mb))
    if form == _PICKLED:
        return Pretrained(config, read_checkpoint(ws, f"{folder}/{form}", within=within, max_mb=max_mb).below(""))
    weights = mapping(mapping(place.json(f"{folder}/{_INDEX}"), ("weight_map",))["weight_map"])
    shards = sorted({string(shard) for shard in weights.values()})
    odd = [shard for shard in shards if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", shard)]
    assert len(shards) <= 100 and not odd, f"{folder}: {_INDEX} names odd shards"
    size = sum(place.path(f"{folder}/{shard}").stat().st_size for shard in shards)
    assert size <= max_mb * _MIB, f"{folder}: the shards are larger than {max_mb:g} MiB"
    parts = {shard: place.safetensors(f"{folder}/{shard}", max_mb) for shard in shards}
    lost = [name for name, shard in weights.items() if name not in parts[shard]]
    assert not lost, f"{folder}: {len(lost)} weights are not in their shards, such as {shown(lost[0])}"
    return Pretrained(config, {name: parts[shard][name] for name, shard in weights.items()})


def _read(
    ws: Workspace, function: str, paths: Sequence[str], within: Folder | None, max_mb: float, **options: object
) -> Any:
    place = ws if within is None else within
    return ws.read_apart(f"reader_driver.py:{function}", place, paths, max_mb=max_mb, **options)


def _array(value: object, shape: tuple[int, ...] | None, what: str) -> NDArray[Any]:
    import numpy

    assert isinstance(value, numpy.ndarray), f"{what} is not an array"
    # An array without a dimension would come back as a plain number.
    value = value.reshape(()) if shape == () and value.shape == (1,) else value
    assert value.shape == shape, f"{what} has the shape {value.shape}, said to be {shape}"
    return value


def _bounded(what: str, arrays: Mapping[str, Any], max_mb: float) -> Any:
    size = sum(value.nbytes for value in arrays.values())
    assert math.ceil(size / _MIB) <= math.ceil(max_mb), f"{what} unpacks to more than {max_mb:g} MiB"
    return arrays
