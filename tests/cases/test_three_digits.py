"""small_dataset_overfit: what a script saves with other test images, however it answers them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import pytest

from bench.base.child import load_module
from bench.casekit.picture_files import read_idx, write_idx
from bench.judge.hidden_files import Hidden
from bench.judge.subject import SubjectError

FOLDER = Path(__file__).parents[2] / "cases/training/small_dataset_overfit"
Script = Callable[[bool, int], Any]
"""What is saved: whether the test images are the dim ones, and the number of the run. None: it fails."""


class _Scripted:
    """A workspace whose script is a function."""

    seed = 1

    def __init__(self, folder: Path, script: Script) -> None:
        self.folder, self.script, self.runs = folder, script, 0
        self.remembered: dict[Any, Any] = {}
        self.rng = random.Random(1)
        self.saved: Any = None

    def exists(self, path: str) -> bool:
        return True

    def hidden(self, name: str) -> Hidden:
        return Hidden(self.folder / name)

    def run(self, argv: Any, *, inputs: dict[str, Any], **_: Any) -> _Scripted:
        given = inputs["data/MNIST/raw/t10k-images-idx3-ubyte"]
        content = given if isinstance(given, bytes) else given.read_bytes()
        self.runs += 1
        self.saved = self.script(max(content[16:]) < 200, self.runs)
        return self

    def ok(self) -> _Scripted:
        if self.saved is None:
            raise SubjectError("it ended with status 1")
        return self

    def safetensors(self, path: str) -> dict[str, Any]:
        return {"layers.0.weight": numpy.asarray(self.saved, numpy.float32)}


@pytest.fixture(scope="module")
def checks() -> ModuleType:
    return load_module("three_digits", FOLDER / "check.py")


@pytest.mark.parametrize(
    ("script", "passes"),
    [
        (lambda dim, run: [1.0, 2.0], True),
        (lambda dim, run: [1.0, 2.0 + run], True),
        (lambda dim, run: [1.0] * (3 + run), True),
        (lambda dim, run: [1.0, 2.0 + dim], False),
        (lambda dim, run: [1.0] * (3 + dim), False),
        (lambda dim, run: None if dim else [1.0, 2.0], False),
    ],
    ids=["the same", "by chance", "as many by chance", "other weights", "as many as the images say", "an error"],
)
def test_other_test_images_change_nothing(checks: ModuleType, tmp_path: Path, script: Script, passes: bool) -> None:
    images = numpy.arange(10 * 784, dtype=numpy.uint8).reshape(10, 28, 28)
    for split in ("train", "t10k"):
        write_idx(tmp_path, split, images, numpy.arange(10))
    assert read_idx(tmp_path / "t10k-images-idx3-ubyte").max() > 200
    ws = _Scripted(tmp_path, script)
    if passes:
        checks.test_images_teach_nothing(ws)
    else:
        with pytest.raises(AssertionError):
            checks.test_images_teach_nothing(ws)
