"""The rooms of bench: each says what lives there, and its face is the same to type checkers and at run time."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import bench

PACKAGE = Path(bench.__file__).parent
MOST_LINES = 300
MOST_LINES_OF_A_BODY = 50
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def offered_to_type_checkers(room: str) -> dict[str, str]:
    tree = ast.parse((PACKAGE / room / "__init__.py").read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: node.module or "" for node in imports for alias in node.names}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_what_lives_there(room: str) -> None:
    tree = ast.parse((PACKAGE / room / "__init__.py").read_text(encoding="utf-8"))
    assert len((ast.get_docstring(tree) or "").splitlines()) >= 3, f"bench/{room}/__init__.py says it in three lines"


@pytest.mark.parametrize("room", ROOMS)
def test_a_face_offers_at_run_time_what_it_offers_to_type_checkers(room: str) -> None:
    """Through `__getattr__`, also where a submodule of the same name is loaded first."""
    package = importlib.import_module(f"bench.{room}")
    for name, module in offered_to_type_checkers(room).items():
        defined = getattr(importlib.import_module(module), name)
        offered = package.__getattr__(name)
        assert offered is defined or offered == defined, f"{room}.{name}"
        assert getattr(package, name) is offered, f"a module shadows {room}.{name}"


@pytest.mark.parametrize("room", [room for room in ROOMS if offered_to_type_checkers(room)])
def test_a_face_refuses_what_it_does_not_offer(room: str) -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        importlib.import_module(f"bench.{room}").no_such_name  # noqa: B018


def test_the_house_is_as_large_as_agreed() -> None:
    files = list(PACKAGE.rglob("*.py"))
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    # A number of files alone is either met by modules that are too long or raised with every feature.
    assert lines / len(files) >= 145
    assert len(ROOMS) <= 20


def test_no_module_is_long() -> None:
    lines = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.py")}
    assert not {path: count for path, count in lines.items() if count > MOST_LINES}


def test_no_function_is_long() -> None:
    """Its body without the docstring: signatures of commands are lists of options, and docstrings what --help says."""
    found = {
        f"{path.relative_to(PACKAGE)}: {function.name}": count
        for path in PACKAGE.rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and (count := body_lines(function)) > MOST_LINES_OF_A_BODY
    }
    assert not found


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_no_test_module_is_imported_by_another() -> None:
    """What several of them share lies in tests/helpers."""
    tests = Path(__file__).parent
    found = [
        f"{path.relative_to(tests)}: {node.module}"
        for path in tests.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and ".test_" in f".{node.module}"
    ]
    assert not found


def test_every_folder_of_tests_mirrors_a_room_or_says_what_crosses_them() -> None:
    crossing = {
        "agents",
        "benchmarks",
        "browser",
        "cases",
        "contract",
        "data",
        "faults",
        "fuzz",
        "hardening",
        "helpers",
        "workflows",
    }
    folders = {
        path.name for path in Path(__file__).parent.iterdir() if path.is_dir() and not path.name.startswith("__")
    }
    assert folders <= crossing | set(ROOMS)
