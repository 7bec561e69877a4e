"""What a program takes of pictures beside the gradients of its training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.casekit import pictures_met
from tests.helpers.torch_scripts import run_script

BEGUN = """
import pathlib, torch
import numpy as np
from torch import nn
import pictures_met
pictures_met.begin(torch, "met.json", r"batch_\\d")
net, other = (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)) for _ in range(2))
x = torch.randn(8, 3, 12, 12)
"""


def met(folder: Path, text: str) -> Any:
    (folder / "pictures_met.py").write_bytes(pictures_met.source())
    (folder / "batch_1.bin").write_bytes(bytes(8))
    run_script(folder, BEGUN + text)
    return json.loads((folder / "met.json").read_text())


def test_averages_are_renewed_by_what_goes_through_in_training_mode_each_network_apart(tmp_path: Path) -> None:
    assert met(tmp_path, "") == {"averaged": 0, "opened": []}
    assert met(tmp_path, "net(x); net(x[:4]); other(x); net.eval()(x)")["averaged"] == 12
    assert met(tmp_path, "with torch.no_grad(): net(x)")["averaged"] == 8
    assert met(tmp_path, "nn.BatchNorm2d(3, track_running_stats=False)(x)")["averaged"] == 0


@pytest.mark.parametrize(
    "reading",
    [
        "np.fromfile('batch_1.bin', np.uint8)",
        "open('batch_1.bin')",
        "pathlib.Path('batch_1.bin').read_bytes()",
        "np.memmap(pathlib.Path('batch_1.bin'))",
    ],
)
def test_a_file_that_is_opened_is_named_once(tmp_path: Path, reading: str) -> None:
    assert met(tmp_path, f"{reading}; {reading}; open('other', 'w')")["opened"] == ["batch_1.bin"]
