"""A new case that already proves itself: smaller than any real one, complete in every part."""

from __future__ import annotations

import re
from pathlib import Path

from bench.base.errors import UserError
from bench.base.files import walk_files, write_atomic
from bench.base.install import find_data_folders


def scaffold_case(root: Path, name: str) -> Path:
    """Write the starting files of case `name` (category/id) below `root`; raises `UserError` when it exists."""
    match = re.fullmatch(r"([a-z][a-z0-9_]*)/([a-z][a-z0-9_]*)", name)
    if match is None:
        raise UserError(f"{name!r} is not a name for a case", where="cases new", remedy="use category/id in lower case")
    category, case_id = match.groups()
    folder = root / category / case_id
    taken = next((path.parent for path in root.glob(f"*/{case_id}/case.yaml")), None)
    if folder.exists() or taken:
        raise UserError("exists already", where=taken or folder, remedy="choose another id")
    # From the installation: a folder of cases that a user has just begun has no template.
    for path, entry in walk_files(find_data_folders().cases / "_template"):
        text = Path(entry.path).read_text(encoding="utf-8")
        write_atomic(folder / path, text.replace("{id}", case_id).replace("{category}", category).encode())
    return folder
