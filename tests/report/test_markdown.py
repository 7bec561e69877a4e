"""The step summary: what it shows, and that nothing in it acts."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bench.base.text import escape
from bench.report.markdown import MAX_BYTES, render, render_gate
from tests.helpers.records import make_check, make_night, make_note, make_record

PLANTED = "<script>alert(1)</script> | [x](https://evil.example) **b** `c` @team\n# title\n::error::no"


_ACTIVE = st.text(alphabet="ab1_*`[]()<>&|~#:;.-+=!\\/@$ \nw\t\u00e9\"'", max_size=40)
_LATER = re.compile(r"(?<![a-z0-9])@[a-z0-9]|#\d|GH-\d{1,8}(?!\d)|:[\d_]*[a-z+-][\w+-]*:", re.IGNORECASE)
"""What GitHub looks for in the text that Markdown leaves, where an entity is its character again."""
_SEEN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def shown_by_markdown(text: str) -> list[str]:
    """What a reader sees of a text: each token of its paragraph; anything but `text` would be markup."""
    blocks = _SEEN.parse(text)
    kinds = [block.type for block in blocks]
    assert kinds == ["paragraph_open", "inline", "paragraph_close"], kinds
    children = blocks[1].children or []
    assert {child.type for child in children} <= {"text", "text_special"}, children
    return [child.content for child in children]


@given(st.one_of(st.text(), _ACTIVE))
@example("1. one")
@example("    code")
@example("a_b __init__ _x_ snake_case")
@example("<b>&lt; https://evil.example www.evil.example")
def test_an_escaped_text_is_one_inert_line_and_loses_nothing_printable(text: str) -> None:
    shown = escape(text, longest=10_000)
    assert "\n" not in shown
    plain = "".join(char if char.isprintable() else " " for char in text)
    assert html.unescape(shown).replace("\u200b", "") == plain
    if plain.strip():
        read = "".join(shown_by_markdown(shown))
        assert read.replace("\u200b", "").strip() == plain.strip()
        assert not _LATER.search(read)
    # What GitHub acts on beyond CommonMark: tables, mentions, emoji, addresses, references, formulas.
    outside = re.sub(r"&#\d+;", " ", shown)
    assert not re.search(r"[|@<>]|:\S|www\.|#\w|GH-\d|\$(?!\d)", outside, re.IGNORECASE)
    assert not re.match("::|##", shown)


@pytest.mark.parametrize(
    "text", ["@team", "é@team", "a/@c", "@own/team", "#1", "own/repo#12", "GH-3", "gh-3", ":tada:", ":+1::-1:"]
)
def test_no_account_is_called_by_what_an_agent_has_written(text: str) -> None:
    """GitHub mentions `&#64;team`, too (github/cmark-gfm#181): mentions are looked for after Markdown."""
    read = "".join(shown_by_markdown(escape(f"see {text} there")))
    assert not _LATER.search(read)
    assert read.replace("\u200b", "") == f"see {text} there"


@pytest.mark.parametrize("text", ["gh-12345678901-1-nightly", "agent:react@0123abc", "a.b@example.org", "12:30:14"])
def test_what_is_copied_from_a_page_has_no_invisible_character(text: str) -> None:
    assert "".join(shown_by_markdown(escape(text))) == text


@pytest.mark.parametrize(
    "plain",
    ["no_artifact, ended_early", "1.00 n=1", "$0.0146 (replayed)", "3.14", "can't open 'x.py'", "✅ success", "a-b"],
)
def test_what_markdown_does_not_act_on_stays_as_it_is(plain: str) -> None:
    assert escape(plain) == plain


def test_evidence_that_cells_share_is_said_once_with_their_number() -> None:
    lost = [
        make_record(
            case="parse_logs", trial=trial, outcome="infra", cause="gateway_error", error="the provider is down"
        )
        for trial in (1, 2, 3)
    ]
    text = render([*lost, make_record(case="hello_world", checks=[make_check(value=0.0)])])
    assert text.count("the provider is down") == 1
    assert "<summary>3 times: react on parse_logs, trial 1, and others</summary>" in text
    assert "the same for: react on parse_logs, trial 2, react on parse_logs, trial 3" in text
    assert text.count("<details>") == 2


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
        make_record(case=f"case_{number}", checks=[make_check(value=0.0, message=f"{number} " + "é" * 3000)])
        for number in range(400)
    ]
    text = render(records)
    assert len(text.encode()) <= MAX_BYTES
    shown = text.count("<details>")
    assert 0 < shown < 400
    assert f"More evidence is in the records ({400 - shown} parts)." in text
    assert text.count("| case_") == 400, "rows come before evidence"
    small = render(records, limit=20_000)
    assert len(small.encode()) <= 20_000
    assert re.search(r"^\d+ more cells are in the records\.$", small, re.MULTILINE)


def test_many_agents_and_many_remarks_stay_below_the_limit_too() -> None:
    """GitHub shows nothing of a page that is too long, and takes no comment that is: then no one is told."""
    records = [make_record(agent=f"agent-{number}", case="parse_logs") for number in range(300)]
    text = render(records, limit=20_000)
    assert len(text.encode()) <= 20_000
    assert "**300 of 300** graded cells succeeded" in text and "| agent-0 | " in text
    gate = render_gate("regression", [], [f"not proven: {'@' * 1000}" for _ in range(50)], 59_000)
    assert len(gate.encode()) <= 59_000
    assert gate.startswith("### ML-Dev-Bench gate: regression\n")
    assert re.search(r"^Left out here: \d+ lines\.$", gate, re.MULTILINE)


def test_a_whole_night_renders() -> None:
    records = make_night()
    text = render(records)
    assert text.count("\n| ") >= len(records)
