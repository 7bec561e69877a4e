"""bibtex_generation: an entry is read as BibTeX reads it, or refused; what lies between entries is a comment."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from bench.base.child import load_module

TEX = Path(__file__).parents[2] / "cases/api_integration/bibtex_generation/hidden/tex.py"
FIELDS = {"title": 'The {A} of "B" {\\\'e}', "author": "Doe, Jane and Roe, Rick", "year": "2020", "journal": "J. of B"}


@pytest.fixture(scope="module")
def tex() -> ModuleType:
    return load_module("bibtex_tex", TEX)


@pytest.mark.parametrize(
    "text",
    [
        'title={The {A} of "B" {\\\'e}},\n  author={Doe, Jane and Roe, Rick},\n  year={2020},\n  journal={J. of B}\n',
        'title={The {A} of "B" {\\\'e}}, author = {Doe, Jane\n and  Roe, Rick}, year=2020, journal="J. of B",\n',
        'TITLE = {The {A} of "B" {\\\'e}} , Author = "Doe, Jane and Roe, Rick",year = "2020" ,journal={J. of B}',
    ],
    ids=["as given", "other delimiters", "capitals"],
)
def test_an_entry_is_read_in_each_of_its_forms(tex: ModuleType, text: str) -> None:
    (found,) = tex.entries(f"A comment, with a = {{b}}.\n@Article{{doe2020,\n  {text}}}\nThis line is no entry.\n")
    assert (found.key, found.kind, found.fields, found.valid) == ("doe2020", "article", FIELDS, True)


def test_a_quote_within_brackets_ends_no_value(tex: ModuleType) -> None:
    (found,) = tex.entries('@article{a1, title = "The {"}A{"} of it", year = 2020}')
    assert found.fields == {"title": 'The {"}A{"} of it', "year": "2020"}


def test_an_empty_value_is_one_and_makes_the_entry_invalid(tex: ModuleType) -> None:
    (found,) = tex.entries('@article{a1, title={}, author="A", journal={B}, year = 2020}')
    assert found.fields["title"] == "" and not found.valid


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("title={A}\n  year={2020}", "comma"),
        ('title="A" year={2020}', "comma"),
        ("title={A}, year=2020 journal={B}", "comma"),
        ("title={A},, year={2020}", "no field begins"),
        (", title={A}", "no field begins"),
        ("title={A}, year={2020}, and more", "no field begins"),
        ("title={A} and more", "comma"),
        ('title={A} # "B"', "comma"),
        ("title={A}, title={B}", "title twice"),
        ("title={A}, Title={A}", "title twice"),
        ("title=, year={2020}", "no value begins"),
        ("title={A}, year=", "no value begins"),
        ("title={A}, journal=nature", "no value begins"),
        ('title={A}, year="2020', "not closed"),
        ('title="A}, year={2020"', "not closed"),
    ],
)
def test_what_bibtex_does_not_read_so_is_refused(tex: ModuleType, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as fault:
        tex.entries(f"@article{{doe2020,\n  {text}\n}}\n")
    assert "doe2020" in str(fault.value) or "not closed" in reason
