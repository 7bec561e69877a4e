"""Untrusted text in a line acts neither on a terminal nor on a workflow runner."""

from __future__ import annotations

import pytest

from bench.base.errors import UserError
from bench.base.text import printable


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("café 漢字", "café 漢字"),
        ("a\nb\tc\u2028d", "a b c d"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("left\u202eright", "left\\u202eright"),
        ("half \udc80", "half \\udc80"),
        ("::error::x", ": :error: :x"),
        (":::", ": : :"),
        ("## title ##[group]", "# # title # #[group]"),
        # Azure's runner, which shares its log reader with GitHub's.
        ("##vso[task.setvariable variable=x]y;", "# #vso[task.setvariable variable=x]y;"),
        ("###[error]", "# # #[error]"),
    ],
)
def test_what_would_act_can_be_read_instead(text: str, said: str) -> None:
    assert printable(text) == said
    assert printable(said) == said
    assert str(UserError(text)) == said


def test_a_long_text_is_cut_with_a_sign() -> None:
    assert printable("x" * 10, 10) == "x" * 10
    assert printable("x" * 11, 10) == "x" * 9 + "…"
