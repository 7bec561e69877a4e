"""One line about a record."""

from __future__ import annotations

import click
import pytest

from bench.formats.note import Note
from bench.formats.record import Record
from bench.report import outcome_line
from tests.helpers.records import make_check, make_record

SPEAKS = "\x1b]52;c;cm0=\x07\u202e\n::error::taken\r##[add-mask]x"


@pytest.mark.parametrize(
    "record",
    [
        make_record(flags=[Note(name=SPEAKS, evidence="x")], milestones=["loss_is_finite"]),
        make_record(checks=[make_check(SPEAKS, 0.0, SPEAKS)], failure_modes=[Note(name=SPEAKS, evidence="x")]),
        make_record(checks=[make_check(SPEAKS)], milestones=[SPEAKS]),
        make_record(outcome="infra", cause=SPEAKS, error=SPEAKS),
    ],
)
def test_no_name_in_a_record_acts_on_a_terminal_or_a_runner(record: Record) -> None:
    line = click.unstyle(outcome_line(record))
    assert line.isprintable()
    assert "::" not in line and "##[" not in line
    assert len(line) < 3000
