"""The suite: a named, versioned list of cases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from bench.base.documents import is_file
from bench.base.errors import UserError
from bench.base.install import find_data_folders
from bench.base.model import Model, read_yaml
from bench.base.text import meant
from bench.formats.case_selection import Selector
from bench.formats.names import Name
from bench.formats.record import Profile


class Entry(Model):
    """One line of a demo or default run: an agent with a model on some cases."""

    agent: Name
    cases: list[Selector] = []
    """Empty: all cases of the suite."""


class Suite(Model):
    """The content of `cases/suites/<id>.yaml`."""

    schema_: Literal[1] = Field(1, alias="schema")
    id: Name
    version: Annotated[str, Field(pattern=r"^\d{4}\.\d{1,2}(\.\d+)?$")]
    """Calendar version; part of the seed of all public data."""
    title: str
    about: str = ""
    """What a reader should know of how the cases were chosen."""
    guessed: list[Name] = []
    """Those of `cases` of which the source does not tell for certain that they belong to it."""
    profile: Profile = "mini"
    cases: list[Selector] = Field(min_length=1)
    """Ids, or selectors of cases: a suite with these has more cases when cases are added."""
    trials: int = Field(1, ge=1, le=1000)
    entries: list[Entry] = []
    """What runs when no agent is named."""

    def explained(self) -> str:
        """How its cases were chosen, in sentences; empty where the suite says nothing of it."""
        about = " ".join(self.about.split())
        return f"{about} Best guesses: {', '.join(self.guessed)}.".strip() if self.guessed else about


def load_suite(root: Path, name: str) -> Suite:
    """Suite `name` of the cases below `root`; raises `UserError`.

    Where these have no suites, as a user's own: the installation's of that name, and all cases below `root` are in it.
    """
    folder = _suites(root)
    path = folder / f"{name}.yaml"
    if path.parent != folder or not is_file(path):
        known = (item.stem for item in folder.glob("*.yaml"))
        raise UserError(f"no suite {name!r}", where=folder, remedy=meant(name, known))
    suite = read_yaml(path, Suite)
    if suite.id != name:
        raise UserError(
            f"field `id` is {suite.id!r}, but the file is {path.name!r}", where=path, remedy="make them equal"
        )
    if folder.parent != root:
        return suite.model_copy(update={"cases": ["*"], "entries": []})
    return suite


def load_suites(root: Path) -> list[Suite]:
    """All suites of the cases below `root`, by id."""
    return [load_suite(root, path.stem) for path in sorted(_suites(root).glob("*.yaml"))]


def _suites(root: Path) -> Path:
    """The folder of suites: that of `root`, or of the installation where a user's cases have none of their own."""
    own = root / "suites"
    return own if own.is_dir() else find_data_folders().cases / "suites"
