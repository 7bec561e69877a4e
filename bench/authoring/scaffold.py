"""A new case that already proves itself, complete in every part: the smallest, or one of a usual kind."""

from __future__ import annotations

import re
from pathlib import Path

from bench.base.errors import UserError
from bench.base.files import walk_files, write_atomic
from bench.base.install import find_data_folders
from bench.base.text import meant
from bench.formats.tags import CATEGORIES

KINDS = ("function", "training", "service", "tabular")
"""What `--like` takes; each is a folder of `cases/_template`."""
SMALLEST = "smallest"
_SUFFIX = ".template"
"""Of case.yaml in a template, which is not a case itself."""
_FILLED_IN = ("case.yaml", "README.md")


def scaffold_case(root: Path, name: str, like: str = SMALLEST) -> Path:
    """Write the starting files of case `name` (category/id) below `root`; raises `UserError` when it exists.

    like: one of `KINDS`, or `SMALLEST`.
    """
    match = re.fullmatch(r"([a-z][a-z0-9_]*)/([a-z][a-z0-9_]*)", name)
    if match is None:
        raise UserError(f"{name!r} is not a name for a case", where="cases new", remedy="use category/id in lower case")
    category, case_id = match.groups()
    if category not in CATEGORIES:
        fault = f"{category!r} is not a category"
        raise UserError(fault, where="cases new", remedy=f"{meant(category, CATEGORIES)}; the list is closed")
    folder = root / category / case_id
    taken = next((path.parent for path in root.glob(f"*/{case_id}/case.yaml")), None)
    if folder.exists() or taken:
        raise UserError("exists already", where=taken or folder, remedy="choose another id")
    # From the installation: a folder of cases that a user has just begun has no template.
    for path, entry in walk_files(find_data_folders().cases / "_template" / like):
        path, content = path.removesuffix(_SUFFIX), Path(entry.path).read_bytes()
        if path in _FILLED_IN:
            content = content.decode().replace("{id}", case_id).replace("{category}", category).encode()
        write_atomic(folder / path, content)
    return folder
