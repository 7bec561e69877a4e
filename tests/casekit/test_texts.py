"""Measures of texts take the words that a reader sees."""

from __future__ import annotations

import unicodedata

import pytest

from bench.casekit.texts import plain_text

UNSEEN = (
    "\u200b\u200d\u2060\ufeff\u00ad\u034f\u0301\u20dd\x00\x1b\ufe0f\u3164\u115f\uffa0\u2800\ud800\ue000\U000e0041\u0378"
)
WIDE = "\uff4d\uff4f\uff44\uff45\uff4c"
BOLD = "\U0001d426\U0001d428\U0001d41d\U0001d41e\U0001d425"


@pytest.mark.parametrize("mark", UNSEEN, ids=ascii)
def test_what_takes_no_place_within_a_word_does_not_divide_it(mark: str) -> None:
    assert plain_text(f"regula{mark}tion") == "regulation"


@pytest.mark.parametrize("text", ["café, naïve, Ångström", "Übergröße, déjà vu"])
def test_accents_are_the_same_however_they_are_written(text: str) -> None:
    plain = {plain_text(unicodedata.normalize(form, text)) for form in ("NFC", "NFD", "NFKC", "NFKD")}
    assert len(plain) == 1


def test_an_accent_does_not_make_another_word_of_it() -> None:
    assert plain_text("mödél") == "model"


@pytest.mark.parametrize("text", ["m\u043ed\u0435l", "m\u03bfdel", WIDE, BOLD], ids=ascii)
def test_letters_that_look_the_same_are_the_same(text: str) -> None:
    assert plain_text(text) == "model"


def test_plain_letters_digits_and_blanks_stay() -> None:
    text = "Two lines,\r\nand a\ttab: 3.4 % (x < y)"
    assert plain_text(text) == text


@pytest.mark.parametrize("text", ["한국어", "日本語", "русский", "ελληνικά"])
def test_other_scripts_keep_their_words(text: str) -> None:
    assert len(plain_text(text)) == len(text)
