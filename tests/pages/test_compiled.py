"""Compiled templates are kept as Python keeps its bytecode: used where they are right, ignored where they are not."""

from __future__ import annotations

import sys
from pathlib import Path

import jinja2
import pytest

from bench.pages.compiled import CompiledTemplates


class _CompiledAgainError(Exception):
    pass


def rendered(folder: Path, sources: str = "one") -> str:
    loader = jinja2.FileSystemLoader(folder)
    environment = jinja2.Environment(loader=loader, autoescape=True, bytecode_cache=CompiledTemplates(sources))
    return environment.get_template("page.html").render()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a template that was rendered once; from here on nothing can be compiled."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "page.html").write_text("{{ 1 + 1 }}")
    assert rendered(tmp_path) == "2"

    def refused(*_: object) -> None:
        raise _CompiledAgainError

    monkeypatch.setattr(jinja2.Environment, "compile", refused)
    return tmp_path


def kept(folder: Path) -> Path:
    (path,) = (folder / "__pycache__").iterdir()
    return path


def test_what_was_compiled_is_not_compiled_again(folder: Path) -> None:
    assert rendered(folder) == "2"


def test_other_sources_and_another_template_are_compiled(folder: Path) -> None:
    with pytest.raises(_CompiledAgainError):
        rendered(folder, "other filters")
    (folder / "page.html").write_text("{{ 2 + 2 }}")
    with pytest.raises(_CompiledAgainError):
        rendered(folder)


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-1], lambda data: data + b"x"])
def test_a_damaged_file_is_ignored(folder: Path, damage: object) -> None:
    assert callable(damage)
    kept(folder).write_bytes(damage(kept(folder).read_bytes()))
    with pytest.raises(_CompiledAgainError):
        rendered(folder)


def test_where_python_may_not_write_bytecode_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "page.html").write_text("{{ 1 + 1 }}")
    assert rendered(tmp_path) == "2"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
