"""Where cases, agents and site sources lie: in the working folder, the checkout, or the wheel."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bench.base.errors import UserError

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


def find_templates() -> Path:
    """The files that `ml-dev-bench init` writes into an agent's repository."""
    return _data_folder("caller", None)


def is_installed(folder: Path) -> bool:
    """Whether `folder` belongs to the installed package, where nothing of a user's may be written."""
    return folder.resolve().is_relative_to(_PACKAGE)


def _data_folder(name: str, explicit: Path | None) -> Path:
    if explicit is not None:
        if not explicit.is_dir():
            raise UserError("is not a folder", where=explicit, remedy=f"give --{name} the folder that holds them")
        return explicit.resolve()
    for folder in (_PACKAGE.parent / name, _PACKAGE / "data" / name):
        if folder.is_dir() and ((folder.parent / "pyproject.toml").is_file() or folder.parent.name == "data"):
            return folder
    raise UserError(f"no folder {name!r} beside the package", where=_PACKAGE, remedy="reinstall ml-dev-bench")
