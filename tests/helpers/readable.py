"""The package for users who may not look into the clone, which can lie in a folder of its owner alone (`mktemp -d`)."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.cells import ROOT


@contextlib.contextmanager
def readable_package() -> Iterator[Path]:
    """A folder that holds `bench` and that every user may read: the clone itself, or one with a copy."""
    if all(folder.stat().st_mode & 0o005 == 0o005 for folder in (ROOT, *ROOT.parents)):
        yield ROOT
        return
    with tempfile.TemporaryDirectory(prefix="mldb-test-") as folder:
        shutil.copytree(ROOT / "bench", Path(folder) / "bench", ignore=shutil.ignore_patterns("__pycache__"))
        # Whatever the mask under which the clone was made.
        for path in (Path(folder), *Path(folder).rglob("*")):
            path.chmod(0o755)
        yield Path(folder)
