"""What commands show on a terminal, and what everywhere else."""

from __future__ import annotations

import re

import pytest

from bench.report.lines import table
from tests.helpers.terminal import elsewhere, on_terminal

_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_HOSTILE = "[bold]x[/bold]\x1b[31m:smile:\u202e\r::error::y"
_TICK = """
import time
from bench.cli.console import Ticker
with Ticker() as ticker:
    until = time.monotonic() + {seconds}
    while time.monotonic() < until:
        ticker({line!r})
        time.sleep(0.05)
print("done")
"""
_REPORT = """
from types import SimpleNamespace
from bench.cli.reporter import Reporter
from tests.helpers.records import make_record
kept, *fresh = (make_record(trial=trial) for trial in (1, 2, 3))
with Reporter() as reporter:
    reporter.total = 3
    reporter.end(kept, True)
    limits = SimpleNamespace(agent_s=600, steps=50, cost_usd=2.0)
    cells = [
        SimpleNamespace(
            id=it.cell, arm="", agent=it.agent, trial=it.trial, models=it.models,
            case=SimpleNamespace(id=it.case.id, spec=SimpleNamespace(limits=limits)),
        )
        for it in fresh
    ]
    for cell in cells:
        reporter.begin(cell)
    reporter.phase(cells[1], "agent", None)
    for _ in range(3):
        reporter.call(cells[1], SimpleNamespace(is_step=True, cost_usd=0.01))
    reporter.tick()
    reporter.end(fresh[0], False)
    reporter.note("[red]\\x1b[2J")
    reporter.tick()
print("done")
"""


def show(rows: object, *, width: int, header: object = ()) -> str:
    return on_terminal(f"from bench.report.lines import table\nprint(table({rows!r}, header={header!r}))", width)


def test_a_ticker_is_silent_at_first_and_then_redraws_its_line() -> None:
    assert on_terminal(_TICK.format(seconds=0.5, line="reading")) == "done\r\n"
    said = on_terminal(_TICK.format(seconds=2.6, line="reading " + _HOSTILE + 200 * "z"))
    assert "\x1b[31m" not in said
    assert "\u202e" not in said
    assert "reading [bold]x[/bold]" in said
    assert ":smile:" in said
    assert max(len(line) for line in _STYLE.sub("\n", said).splitlines()) <= 80
    assert said.endswith("done\r\n")
    assert said.rindex("\x1b[?25h") > said.rindex("\x1b[?25l"), "the cursor is shown again"


@pytest.mark.parametrize("ci", ["", "true"])
def test_elsewhere_a_ticker_says_plain_lines(ci: str) -> None:
    code = _TICK.format(seconds=2.6, line="reading \x1b[31m[bold]")
    said = on_terminal(code, CI=ci) if ci else elsewhere(code).stderr
    assert said.count("reading") == 1
    assert "[bold]" in said
    assert "\x1b" not in said


def test_a_run_shows_its_progress_and_the_time_left_on_a_terminal() -> None:
    said = on_terminal(_REPORT, width=120)
    plain = _STYLE.sub("", said)
    # Seconds as the machine has them.
    assert re.search(r"1/3 done, \d+ s; 3 steps, \$0\.0300", plain)
    spent = r"3 of 50 steps +\$0.0300 of \$2.00"
    assert re.search(rf"react on nan_loss_debug, trial 3 +agent \d+ s of 10 min +{spent}", plain)
    assert re.search(r"react on nan_loss_debug, trial 2 +starts \d+ s", plain)
    assert re.search(r"2/3 done, \d+ s, about \d+ s left; 11 steps, \$0\.1500", plain)
    assert "[2/3] " in plain
    assert "note: [red]\\x1b[2J" in plain
    assert "\x1b[2J" not in said
    assert said.rindex("\x1b[?25h") > said.rindex("\x1b[?25l"), "the cursor is shown again"


def test_elsewhere_a_run_says_one_line_a_cell_and_no_more() -> None:
    said = elsewhere(_REPORT)
    assert [line[:5] for line in said.stderr.splitlines()] == ["[1/3]", "[2/3]", "note:"]
    assert "\x1b" not in said.stderr


def test_a_table_is_plain_and_stable_where_nobody_reads_it_on_a_terminal() -> None:
    assert table([("a", "1"), ("long name", "20")], header=("name", "n"), right=[1]) == (
        "name        n\na           1\nlong name  20"
    )
    assert table([]) == ""


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_table_is_wrapped_to_the_terminal_and_loses_nothing(width: int) -> None:
    words = [f"word{n}" for n in range(30)]
    said = show([("first", " ".join(words)), ("second", "x" * 150)], width=width, header=("name", "what"))
    lines = _STYLE.sub("", said).split("\r\n")
    assert max(map(len, lines)) <= width
    assert re.findall(r"word\d+", said) == words
    assert said.count("x") == 150


def test_prose_below_a_table_is_broken_between_words_on_a_terminal_only() -> None:
    prose = "n = cases; 95 % intervals over cases; ranks in brackets: what success leaves open"
    code = f"from bench.cli.printing import print_text\nprint_text({prose!r})"
    lines = on_terminal(code, width=30).rstrip().split("\r\n")
    assert len(lines) > 2
    assert max(map(len, lines)) <= 30
    assert " ".join(line.strip() for line in lines) == prose
    assert elsewhere(code).stdout == f"{prose}\n"


def test_a_table_that_fits_needs_no_wrapping() -> None:
    assert _STYLE.sub("", show([("a", "b")], width=80)) == "a  b\r\n"
    code = "from bench.report.lines import table\nimport sys\nprint(table([('a', 'b')]), 'rich' in sys.modules)"
    assert on_terminal(code) == "a  b False\r\n"


@pytest.mark.parametrize("width", [30, 200])
def test_hostile_names_in_a_table_are_text(width: int) -> None:
    said = show([(_HOSTILE, "and " * 20)], width=width)
    assert "\x1b[31m" not in said
    assert "\u202e" not in said
    assert "::error" not in said
    for part in ("[bold]x[/bold]", ":smile:"):
        assert part in _STYLE.sub("", said).replace("\r\n", "") or width == 30
    assert "\x1b" not in table([(_HOSTILE,)])


def test_listing_cases_on_a_narrow_terminal_keeps_every_title() -> None:
    code = "from bench.cli.main import cli\ncli.main(['cases', 'list'], standalone_mode=False)"
    wide, narrow = elsewhere(code, COLUMNS="20").stdout, on_terminal(code, width=60)
    assert re.sub(r"\W", "", _STYLE.sub("", narrow)).count("mini") == wide.count("mini")
    assert max(map(len, narrow.split("\r\n"))) <= 60
    assert "\x1b" not in wide
