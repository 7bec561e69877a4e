"""What is not to be seen in what a cell leaves: its secrets, and whatever looks like a key."""

from __future__ import annotations

import pytest

from bench.gateway.observations import Redactor

TOKEN = f"eyJ{'h' * 40}.eyJ{'b' * 3000}.{'s' * 40}"


@pytest.mark.parametrize("before", ["", "Bearer ", "token=", "-", '"', "\\n", "\\u201c"])
def test_a_token_is_not_shown(before: str) -> None:
    redact = Redactor([]).strict
    assert TOKEN not in redact(f"{before}{TOKEN} and more")
    assert redact(f"{before}{TOKEN} and more") == redact(f"{before}sk-{'k' * 20} and more")


def test_what_only_begins_like_tokens_is_read_in_a_bounded_time() -> None:
    """It took minutes for a megabyte: each beginning was followed to the end of the text."""
    text = "-eyJ" * 200_000
    assert Redactor([]).strict(text) == text


def test_secrets_of_the_cell_are_hidden_whatever_they_look_like() -> None:
    redactor = Redactor(["0123456789", "short", "0123456789abc"])
    assert redactor.known("x0123456789abcy short") == redactor.known("x0123456789y short")
    assert "short" in redactor.known("short"), "a word of five letters would be found everywhere"
