"""The step summary: what it shows, and that nothing in it acts."""

from __future__ import annotations

import html
import re

from hypothesis import given
from hypothesis import strategies as st

from bench.base.text import escape
from bench.report.markdown import MAX_BYTES, render
from tests.helpers.records import make_check, make_night, make_note, make_record

PLANTED = "<script>alert(1)</script> | [x](https://evil.example) **b** `c` @team\n# title\n::error::no"


@given(st.text())
def test_an_escaped_text_is_one_inert_line_and_loses_nothing_printable(text: str) -> None:
    shown = escape(text, longest=10_000)
    assert re.fullmatch(r"(?:[A-Za-z0-9 ,/%()]|\.(?=\d)|&#\d+;)*", shown)
    assert html.unescape(shown) == "".join(char if char.isprintable() else " " for char in text)


def test_a_long_text_is_cut_before_it_is_escaped() -> None:
    assert html.unescape(escape("<" * 500, longest=10)) == "<" * 9 + "…"


def test_agents_and_cells_are_listed() -> None:
    records = [
        make_record(case="nan_loss_debug"),
        make_record(case="hello_world", checks=[make_check(value=0.0)]),
        make_record(case="parse_logs", outcome="infra"),
        make_record(agent="oracle", model=None, ranked=False),
    ]
    text = render(records, commit="0123456789" * 4)
    assert "**2 of 3** graded cells succeeded; 1 without a verdict." in text
    assert "`0123456789012345678901234567890123456789`" in text
    tables = text.split("\n\n")
    assert [row.split(" | ")[0] for row in tables[2].splitlines()[2:]] == ["| react", "| oracle (reference)"]
    cells = tables[3].splitlines()[2:]
    assert [html.unescape(cell).split(" | ")[2] for cell in cells] == [
        "nan_loss_debug",
        "hello_world",
        "parse_logs",
        "nan_loss_debug",
    ]
    assert all(row.count("|") == 10 for row in cells)
    assert text.count("<details>") == 2, "one for the failure, one for the loss"


def test_words_of_an_agent_are_shown_and_do_not_act() -> None:
    record = make_record(
        checks=[make_check(value=0.0, message=PLANTED)],
        flags=[make_note(evidence=PLANTED)],
        error="",
    )
    text = render([record])
    details = text[text.index("<details>") :]
    assert "alert(1)" in details
    tags = set(re.findall(r"<[^>]*>", text))
    assert tags == {"<details>", "</details>", "<summary>", "</summary>", "<ul>", "</ul>", "<li>", "</li>"}
    for active in ("[", "**b", "`c", "@", "\n# ", "::"):
        assert active not in details


def test_the_page_stays_below_the_limit_and_counts_what_it_leaves_out() -> None:
    records = [
        make_record(case=f"case_{number}", checks=[make_check(value=0.0, message="é" * 3000)]) for number in range(400)
    ]
    text = render(records)
    assert len(text.encode()) <= MAX_BYTES
    shown = text.count("<details>")
    assert 0 < shown < 400
    assert f"Evidence on {400 - shown} more cells is in the records." in text
    assert text.count("| case&#95;") == 400, "rows come before evidence"
    small = render(records, limit=20_000)
    assert len(small.encode()) <= 20_000
    assert re.search(r"^\d+ more cells are in the records\.$", small, re.MULTILINE)


def test_a_whole_night_renders() -> None:
    records = make_night()
    text = render(records)
    assert text.count("\n| ") >= len(records)
    assert all(ord(char) < 128 for char in text)
