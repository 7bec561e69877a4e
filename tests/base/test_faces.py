"""The face of each room offers what it says, however much of the room is imported already."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.helpers.store import ROOT

FACES = sorted(path for path in (ROOT / "bench").glob("*/__init__.py") if "lazy_face" in path.read_text("utf-8"))


def offered(face: Path) -> set[str]:
    imports = [node for node in ast.walk(ast.parse(face.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name for node in imports for alias in node.names}


@pytest.mark.parametrize("face", FACES, ids=lambda path: path.parent.name)
def test_no_module_of_a_room_has_the_name_of_something_that_its_face_offers(face: Path) -> None:
    """The import of a module sets its name in the package, where it would stand in front of what is offered."""
    assert len(offered(face)) > 1
    assert {path.stem for path in face.parent.iterdir()} & offered(face) == set()
