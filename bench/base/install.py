"""Where cases, agents and site sources lie: in the working folder, the checkout, or the wheel."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.base.errors import UserError

_HEAD = re.compile(r"^# branch\.oid ([0-9a-f]+)$", re.MULTILINE)
_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class DataFolders:
    """The data folders of this installation."""

    cases: Path
    agents: Path
    site: Path
    cache: Path


def find_data_folders(cases: Path | None = None, agents: Path | None = None) -> DataFolders:
    """Explicit folders first, then the checkout around an editable install, then the wheel's package data."""
    return DataFolders(
        cases=_data_folder("cases", cases),
        agents=_data_folder("agents", agents),
        site=_data_folder("site", None),
        cache=Path(os.environ.get("ML_DEV_BENCH_CACHE") or Path.home() / ".cache" / "ml-dev-bench"),
    )


def _data_folder(name: str, explicit: Path | None) -> Path:
    if explicit is not None:
        if not explicit.is_dir():
            raise UserError("is not a folder", where=explicit, remedy=f"give --{name} the folder that holds them")
        return explicit.resolve()
    for folder in (_PACKAGE.parent / name, _PACKAGE / "data" / name):
        if folder.is_dir() and ((folder.parent / "pyproject.toml").is_file() or folder.parent.name == "data"):
            return folder
    raise UserError(f"no folder {name!r} beside the package", where=_PACKAGE, remedy="reinstall ml-dev-bench")


def commit_of(folder: Path) -> tuple[str, bool]:
    """The git commit that `folder` is at, and whether there are changes beyond it; ("", False) outside git."""
    command = ["git", "-C", str(folder), "status", "--porcelain=v2", "--branch", "--no-ahead-behind", "--", "."]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "", False
    head = _HEAD.search(done.stdout)
    changes = [line for line in done.stdout.splitlines() if not line.startswith("# ")]
    return (head[1], bool(changes)) if head else ("", False)
