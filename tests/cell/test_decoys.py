"""Decoys where the kernel gives nothing more to watch them with."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from bench.cell import decoys
from bench.cell.run import run_cell
from bench.sandbox.bubblewrap import BubblewrapSandbox
from tests.helpers.cells import make_agent, make_case, make_cell, make_context

_PEEKS = """
import pathlib
for path in pathlib.Path("/cases").rglob("check.py"):
    print(path.read_text())
open("answer.py", "w").write("def double(x):\\n    return 2 * x\\n")
"""


def _refusing(number: int) -> Callable[..., NoReturn]:
    def refuse(*_: object) -> NoReturn:
        raise OSError(number, "used up")

    return refuse


@pytest.mark.parametrize(
    ("call", "number"), [("__init__", errno.EMFILE), ("watch", errno.ENOSPC)], ids=["handles", "watches"]
)
def test_who_uses_up_what_watches_decoys_costs_no_other_cell_its_verdict(
    tmp_path: Path, bubblewrap: BubblewrapSandbox, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    """The kernel counts both by user, and so for all cells and for the runner together."""
    monkeypatch.setattr(decoys._Inotify, call, _refusing(number))
    cell = make_cell(make_agent(tmp_path / "agents", _PEEKS), make_case(tmp_path / "cases"))
    record = run_cell(cell, make_context(tmp_path, bubblewrap))
    assert (record.outcome, record.success) == ("graded", True), record.error
    assert [flag.name for flag in record.flags] == ["decoys_unwatched"]
