"""Whatever a reader's sandbox answers is a value or a failed check, and so are damaged pictures, arrays and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.casekit.picture_files import png
from bench.judge import reader_driver
from bench.judge.files import Folder
from bench.judge.readers import read_checkpoint, read_parquet, read_pictures, read_pretrained
from bench.judge.submissions import Labels, Numbers, submission
from tests.helpers.arrays import npy
from tests.helpers.fuzz import JUNK, Originals, Tally, damaged, fuzzed, mutated

_ANSWERS: dict[str, Any] = {
    "checkpoint": {
        "tensors": {"a": {"shape": [2], "dtype": "float32"}, "b": {"shape": [], "dtype": "int64"}},
        "values": {"epoch": 1},
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


def filled(value: Any) -> Any:
    """Names of arrays replaced by them."""
    if isinstance(value, dict):
        return {key: filled(part) for key, part in value.items()}
    if isinstance(value, list):
        return [filled(part) for part in value]
    return _ARRAYS.get(value, value) if isinstance(value, str) else value


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
@given(mutated(Originals(tuple(_ANSWERS.values()))) | JUNK)
def test_an_answer_of_a_reader(tally: Tally, answer: Any) -> None:
    ws: Any = Answering(filled(answer))
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
