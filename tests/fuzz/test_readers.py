"""Whatever a reader's sandbox answers is a value or a failed check, and so are damaged pictures, arrays and tables."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.casekit.picture_files import png
from bench.judge import hostile, reader_driver
from bench.judge.claims import csv_number, json_number
from bench.judge.files import Folder
from bench.judge.hostile import HostileWorkspace
from bench.judge.readers import read_checkpoint, read_parquet, read_pictures, read_pretrained
from bench.judge.submissions import Labels, Numbers, submission
from tests.helpers.arrays import npy, tensor, tensors
from tests.helpers.fuzz import JUNK, Originals, Tally, as_json, damaged, fuzzed, json_bytes, mutated

_ANSWERS: dict[str, Any] = {
    "checkpoint": {
        "tensors": {
            "a": {"shape": [2], "dtype": "float32", "place": ""},
            "b": {"shape": [], "dtype": "int64", "place": ""},
        },
        "values": {"epoch": 1},
        "others": {"schedule": "NoneType"},
        "arrays": {"a": "@array", "b": "@one"},
    },
    "parquet": {"names": ["i", "s"], "rows": 2, "columns": {"i": "@array", "s": ["x", None]}},
    "pictures": ["@picture", "@picture"],
}
_ARRAYS = {
    "@array": numpy.arange(2.0),
    "@one": numpy.arange(1),
    "@picture": numpy.zeros((2, 3, 3), numpy.uint8),
}


_ODD_ARRAYS = [
    numpy.float64(1).reshape(()), numpy.arange(0), numpy.arange(2) > 0, numpy.full(2, numpy.nan), numpy.eye(2),
    numpy.zeros((0, 3, 3), numpy.uint8), numpy.zeros((2, 3, 4), numpy.uint8), numpy.zeros((1,) * 16),
    numpy.zeros((0, 1 << 40)), numpy.zeros((1 << 20, 200), numpy.uint8),
]  # fmt: skip
"""Of every form that the codec lets through."""


def filled(value: Any, arrays: dict[str, Any] | None = None) -> Any:
    """Names of arrays replaced by them."""
    arrays = _ARRAYS if arrays is None else arrays
    if isinstance(value, dict):
        return {key: filled(part, arrays) for key, part in value.items()}
    if isinstance(value, list):
        return [filled(part, arrays) for part in value]
    return arrays.get(value, value) if isinstance(value, str) else value


_SOME_ARRAYS = st.fixed_dictionaries({name: st.sampled_from([right, *_ODD_ARRAYS]) for name, right in _ARRAYS.items()})


class Answering:
    """A workspace whose reader answers what it is told to."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def read_apart(self, target: str, folder: object, paths: object, **options: object) -> Any:
        return self.answer

    def json(self, path: str) -> Any:
        return self.answer

    def exists(self, path: str) -> bool:
        return False


@fuzzed
@given(mutated(Originals(tuple(_ANSWERS.values()))) | st.sampled_from(list(_ANSWERS.values())) | JUNK, _SOME_ARRAYS)
@example(_ANSWERS["parquet"], {"@array": numpy.float64(1).reshape(())})
def test_an_answer_of_a_reader(tally: Tally, answer: Any, arrays: dict[str, Any]) -> None:
    ws: Any = Answering(filled(answer, arrays))
    reads = (
        lambda: read_checkpoint(ws, "a.pt"),
        lambda: read_parquet(ws, "a.parquet"),
        lambda: read_pictures(ws, ["a", "b"]),
        lambda: read_pretrained(ws, "folder"),
    )
    for read in reads:
        with tally.example(AssertionError):
            read()


@pytest.mark.parametrize("kind", ["checkpoint", "parquet", "pictures"])
def test_the_answer_that_they_are_made_of_is_taken(kind: str) -> None:
    ws: Any = Answering(filled(_ANSWERS[kind]))
    if kind == "checkpoint":
        assert read_checkpoint(ws, "a.pt").arrays["b"].shape == ()
    elif kind == "parquet":
        assert read_parquet(ws, "a")["s"] == ["x", None]
    else:
        assert len(read_pictures(ws, ["a", "b"])) == 2


_PICTURE = png(numpy.arange(60, dtype=numpy.uint8).reshape(4, 5, 3))


@fuzzed
@given(damaged(st.just(_PICTURE)) | damaged(damaged(st.just(_PICTURE))))
def test_a_picture(tally: Tally, content: bytes) -> None:
    """The parser itself, which a sandbox holds as well: any error there is a failed check here."""
    found = None
    with tally.example(Exception):
        found = reader_driver._png(numpy, content, 1000)
    assert found is None or (found.dtype == numpy.uint8 and found.size <= 4000)


_NPY = npy(numpy.arange(6.0).reshape(2, 3))


@fuzzed
@given(damaged(st.just(_NPY)) | st.binary())
def test_an_array_file(tmp_path: Path, tally: Tally, content: bytes) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    found = None
    with tally.example(AssertionError):
        found = Folder(tmp_path).npy("x.npy")
    assert found is None or (found.dtype.kind in "fiub" and found.nbytes <= len(content))


_TABLE = b"Id,price,kind\n11,1,a\n12,2.5,b\n13,3,a\n"


@fuzzed
@given(damaged(st.just(_TABLE)) | st.binary())
def test_a_submission(tmp_path: Path, tally: Tally, content: bytes) -> None:
    (tmp_path / "s.csv").write_bytes(content)
    found: dict[str, Any] = {}
    columns: dict[str, Numbers | Labels] = {"price": Numbers(0, 9), "kind": Labels(["a", "b"])}
    with tally.example(AssertionError):
        found = submission(Folder(tmp_path), "s.csv", ids={"Id": [11, 12, 13]}, columns=columns)
    assert not found or (found["price"].shape == (3,) and set(found["kind"]) <= {"a", "b"})


_LINES = b'{"step": 1, "loss": 0.5}\n\n{"step": 2, "loss": 0.25}\r\n["\xe2\x80\xa8"]\n'


@fuzzed
@given(damaged(st.just(_LINES)) | st.lists(json_bytes({"a": 1}), max_size=3).map(b"\n".join) | st.binary())
@example(b"[" * 200 + b"]" * 200)
@example(b'{"a": 1, "a": 2}')
@example(b"1\nNaN\n")
def test_a_document_a_line(tmp_path: Path, tally: Tally, content: bytes) -> None:
    (tmp_path / "x.jsonl").write_bytes(content)
    found: list[Any] = []
    with tally.example(AssertionError):
        found = Folder(tmp_path).jsonl("x.jsonl")
    json.dumps(found, allow_nan=False)
    assert len(found) <= content.count(b"\n") + 1


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(_LINES)
    assert Folder(tmp_path).jsonl("x.jsonl")[1:] == [{"step": 2, "loss": 0.25}, ["\u2028"]]
    (tmp_path / "x.jsonl").write_bytes(b"1\n\n{\n")
    with pytest.raises(AssertionError, match=r"x\.jsonl, line 3, is not valid JSON"):
        Folder(tmp_path).jsonl("x.jsonl")


@fuzzed
@given(json_bytes({"accuracy": {"test": 0.5}}), damaged(st.just(b"epoch,accuracy\n1,0.5\n2,0.75\n")))
@example(b'{"accuracy": {"test": 1' + b"0" * 400 + b"}}", b"accuracy\n1e999\n")
@example(b'{"accuracy": {"test": true}}', b"accuracy\n" + b"9" * 5000 + b"\n")
def test_a_number_that_is_claimed(tmp_path: Path, tally: Tally, document: bytes, table: bytes) -> None:
    (tmp_path / "x.json").write_bytes(document)
    (tmp_path / "x.csv").write_bytes(table)
    folder = Folder(tmp_path)
    with tally.example(AssertionError):
        assert math.isfinite(json_number(folder, "x.json", "accuracy", "test"))
    with tally.example(AssertionError):
        assert math.isfinite(csv_number(folder, "x.csv", "accuracy"))


_INDEX = {"metadata": {"total_size": 12}, "weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}
_SHARDS = {
    "1.safetensors": tensors({"a": tensor("F32", (1,), (0, 4))}, bytes(4)),
    "2.safetensors": tensors({"b": tensor("BF16", (2, 1), (0, 4))}, bytes(4)),
}


@fuzzed
@given(
    json_bytes({"hidden_size": 4}) | st.just(b"{}"),
    json_bytes(_INDEX) | st.just(json.dumps(_INDEX).encode()),
    damaged(st.just(_SHARDS["2.safetensors"])) | st.just(_SHARDS["2.safetensors"]),
    st.booleans(),
)
@example(b"{}", as_json({"weight_map": {"a": "@@half@@"}}), b"", False)
@example(b"{}", as_json({"weight_map": {"a": ".."}}), b"", False)
@example(b"{}", as_json({"weight_map": {"a": "x\n" * 200}}), b"", False)
@example(b"{}", as_json({"weight_map": {str(n): f"{n}.safetensors" for n in range(5000)}}), b"", False)
def test_a_model_folder(tmp_path: Path, tally: Tally, config: bytes, index: bytes, shard: bytes, whole: bool) -> None:
    folder = tmp_path / "hf"
    folder.mkdir(exist_ok=True)
    files = {"config.json": config, "model.safetensors.index.json": index, **_SHARDS, "2.safetensors": shard}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "model.safetensors").unlink(missing_ok=True)
    if whole:
        (folder / "model.safetensors").write_bytes(shard)
    ws: Any = Answering(None)
    with tally.example(AssertionError):
        found = read_pretrained(ws, "hf", within=Folder(tmp_path))
        assert type(found.config) is dict
        assert all(it.dtype.kind in "fiub" for it in found.arrays.values())


def test_every_reader_of_a_folder_can_be_hostile() -> None:
    """So that no reader is added of which `cases verify` does not try what it may give."""
    readers = {name for name, it in vars(Folder).items() if callable(it) and not name.startswith("_")}
    # Of these the files of the snapshot answer.
    readers -= {"path", "files", "sha256"}
    assert readers == set(hostile._READERS)
    assert readers <= vars(HostileWorkspace).keys()
