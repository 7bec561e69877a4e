"""literature_review_tool: a copy stays one, whatever stands within its words; own words stay the agent's own."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from bench.base.child import load_module

SUPPORT = Path(__file__).parents[2] / "cases/api_integration/literature_review_tool/hidden/support.py"
ABSTRACT = (
    "We present Corvane, a regularisation of attention layers for protein folding. Intermediate representations are "
    "normalised by their variance, which reduces the validation error by 3.4 points on twelve public benchmarks."
)
OWN = "Corvane regularises attention layers by the variance of representations; validation errors fall by 3.4 points."


@pytest.fixture(scope="module")
def support() -> ModuleType:
    return load_module("review_support", SUPPORT)


def broken(by: str, after: int = 5) -> str:
    return re.sub(r"[A-Za-z]{6,}", lambda it: f"{it.group()[:after]}{by}{by.join(it.group()[after:])}", ABSTRACT)


@pytest.mark.parametrize("by", "\u200b\u00ad\u0301\u3164\u200a\u202f-' _", ids=ascii)
def test_words_that_something_divides_are_copied_all_the_same(support: ModuleType, by: str) -> None:
    assert all(support.copied(sentence, ABSTRACT) for sentence in support.sentences(broken(by)))


def test_letters_that_look_the_same_are_copied_all_the_same(support: ModuleType) -> None:
    turned = ABSTRACT.translate(str.maketrans("aeo", "\u0430\u00e9\u03bf"))
    assert all(support.copied(sentence, ABSTRACT) for sentence in support.sentences(turned))


def test_a_sentence_that_is_said_again_with_divided_words_is_the_same(support: ModuleType) -> None:
    assert support.different([OWN, re.sub(r"(\w{3})(\w+)", r"\1-\2", OWN)]) == [OWN]


@pytest.mark.parametrize("text", [OWN, OWN.replace("variance", "väriance"), OWN.replace("variance", "va\u0308riance")])
def test_own_words_are_supported_and_no_copy(support: ModuleType, text: str) -> None:
    assert support.supported(text, ABSTRACT) and not support.copied(text, ABSTRACT)


def test_an_accent_of_the_abstract_is_one_in_either_form(support: ModuleType) -> None:
    assert support.words("caf\u00e9s") == support.words("cafe\u0301s") == ["cafes"]
