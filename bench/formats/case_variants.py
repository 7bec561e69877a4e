"""Variants: a case that takes everything of another, files and fields, and says only what is different."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.base.documents import read_yaml_documents
from bench.base.errors import UserError
from bench.base.model import MAX_DOCUMENT_BYTES
from bench.guest.trees import remove_tree

_MERGED = frozenset({"source", "needs", "limits", "outputs", "services", "metric", "solution", "wrong", "assets"})
"""Mappings of which a variant writes only the entries that differ; `null` takes an entry of its parent away."""
EXTENDS = r"^\.\./(\.\./[a-z0-9_]+/)?[a-z0-9][a-z0-9_-]*$"
_BY_ENTRY = frozenset({"hidden", "wrong"})
"""Folders whose entries are looked up one by one."""
_OWN = frozenset({"id", "extends"})
"""What a variant never takes over."""


def read_facts(folder: Path) -> tuple[Any, Path | None]:
    """The content of case.yaml in `folder`, and the parent of a variant, whose facts are merged in.

    Raises `UserError` for a file that cannot be read, a parent that is not there, and a chain of variants.
    """
    path = folder / "case.yaml"
    facts = _document(path)
    extends = facts.get("extends") if isinstance(facts, dict) else None
    if extends is None:
        return facts, None
    wanted = isinstance(extends, str) and re.fullmatch(EXTENDS, extends)
    parent = (folder / str(extends)).resolve()
    if not wanted or not (parent / "case.yaml").is_file():
        fault = f"field `extends`: {extends} is not a case"
        raise UserError(fault, where=path, remedy="name the folder of a case, such as ../other_case")
    inherited = _document(parent / "case.yaml")
    if not isinstance(inherited, dict) or inherited.get("extends") is not None:
        fault = (
            f"field `extends`: {extends} is a variant itself" if isinstance(inherited, dict) else f"{extends} is empty"
        )
        raise UserError(fault, where=path, remedy="extend the case that it extends; chains are not followed")
    return _merged(inherited, facts), parent


def _document(path: Path) -> Any:
    documents = list(read_yaml_documents(path, MAX_DOCUMENT_BYTES))
    if len(documents) > 1:
        raise UserError(f"holds {len(documents)} documents", where=path, remedy="keep one of them")
    return documents[0] if documents else None


def _merged(inherited: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    merged = {name: value for name, value in inherited.items() if name not in _OWN} | own
    for name in _MERGED & inherited.keys() & own.keys():
        before, after = inherited[name], own[name]
        if isinstance(before, dict) and isinstance(after, dict):
            merged[name] = {key: value for key, value in {**before, **after}.items() if value is not None}
    return merged


def copy_whole(folders: Sequence[Path], target: Path) -> None:
    """Copy a case, given as its folders, into the new folder `target`; a variant becomes a case that needs no other."""
    target.mkdir(parents=True)
    for folder in reversed(folders):
        for entry in sorted(folder.iterdir()):
            if entry.name == "__pycache__":
                continue
            if entry.name not in _BY_ENTRY:
                remove_tree(target / entry.name)
            if entry.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(entry, target / entry.name, ignore=ignored, dirs_exist_ok=True)
            else:
                shutil.copy2(entry, target / entry.name)
    if len(folders) > 1:
        facts, _ = read_facts(folders[0])
        # JSON is YAML: aliases, which the reader refuses, are never written.
        (target / "case.yaml").write_text(json.dumps(facts | {"extends": None}, indent=1), encoding="utf-8")
