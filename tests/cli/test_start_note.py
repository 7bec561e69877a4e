"""A sign of life while a command is loading."""

from __future__ import annotations

import re

import pytest

from tests.helpers.terminal import elsewhere, on_terminal

_CODE = """
import sys, time
from bench.cli.start_note import start_note
with start_note({command!r}):
    time.sleep({seconds})
    print("first")
    print("second")
    time.sleep(0.3)
print("third", file=sys.stderr)
"""


def test_a_slow_command_is_named_until_it_says_something() -> None:
    said = on_terminal(_CODE.format(command=["results", "show"], seconds=0.5))
    assert re.fullmatch(r"ml-dev-bench results: starting(…|\?)\r\x1b\[Kfirst\r\nsecond\r\nthird\r\n", said), said


@pytest.mark.parametrize(
    ("command", "seconds", "ci"), [(["--help"], 0.5, ""), (["run"], 0, ""), (["run"], 0.5, "true")]
)
def test_otherwise_nothing_is_said(command: list[str], seconds: float, ci: str) -> None:
    code = _CODE.format(command=command, seconds=seconds)
    said = on_terminal(code, CI=ci) if ci else on_terminal(code)
    assert said == "first\r\nsecond\r\nthird\r\n"
    assert elsewhere(code).stdout == "first\nsecond\n"
