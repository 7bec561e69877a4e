"""The attacks: programs under `cases/attacks/`, and what is expected of each, in `attacks.yaml`."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from bench.base.errors import UserError
from bench.base.model import Model, read_yaml
from bench.formats.names import Name
from bench.formats.record import StopReason

Aim = Literal["verdict", "hidden", "key", "network", "survival", "resources", "log", "host"]
Base = Literal["untouched", "wrong", "solution"]


class AttackSpec(Model):
    """The entry of one attack in `attacks.yaml`."""

    aims: list[Aim] = Field(min_length=1)
    over: list[Base] = Field(["untouched"], min_length=1)
    shared: bool = False
    """It leaves the workspace as it is, so several such attacks share one run of the agent."""
    stops: list[StopReason] = []
    """Stop reasons with which the agent phase may end; empty: any."""
    flags: list[str] = []
    """Flags that the record must have."""
    limits: dict[str, int] = {}
    model: bool = False
    bait: bool = False
    """The solution lies in the agent's own folder."""
    installs: bool = False
    """The agent has packages of its own, with a build script that attacks."""
    bounded: bool = False
    """Snapshot and judgement must end within twice the case's judging limit, and within bounds of memory."""
    works: bool = False
    """Its requests to services may be a part of the task: credit for that is no escape, but success is."""
    watch_s: float = Field(0.0, ge=0, le=10)
    """Seconds after the end of the cell in which nothing that it left may change."""


class CatalogueFile(Model):
    """The content of `attacks.yaml`."""

    schema_: Literal[1] = Field(1, alias="schema")
    limits: dict[str, int]
    """Of the agent where it attacks an untouched workspace."""
    families: dict[Name, dict[Name, AttackSpec]]


@dataclass(frozen=True)
class Attack:
    """One attack."""

    id: str
    """`family.function`."""
    about: str
    spec: AttackSpec

    @property
    def family(self) -> str:
        return self.id.partition(".")[0]


@dataclass(frozen=True)
class Catalogue:
    """All attacks, in the order of the file."""

    folder: Path
    attacks: Sequence[Attack]
    limits: Mapping[str, int]

    def select(self, names: Sequence[str]) -> list[Attack]:
        """Attacks by family or id, all when none is named; raises `UserError` for an unknown name."""
        known = {attack.id for attack in self.attacks} | {attack.family for attack in self.attacks}
        for name in names:
            if name not in known:
                near = difflib.get_close_matches(name, sorted(known), n=1)
                hint = f"did you mean {near[0]!r}?" if near else "name a family or family.attack of attacks.yaml"
                raise UserError(f"no attack is called {name!r}", where="--only", remedy=hint)
        return [it for it in self.attacks if not names or it.id in names or it.family in names]


def load_catalogue(folder: Path) -> Catalogue:
    """The attacks in `folder`; raises `UserError` where manifest and programs disagree."""
    path = folder / "attacks.yaml"
    content = read_yaml(path, CatalogueFile)
    attacks = []
    for family, members in content.families.items():
        told = _functions(folder / f"{family}.py")
        for name, spec in members.items():
            if not told.get(name):
                raise UserError(
                    f"field `families.{family}.{name}`: {family}.py has no such function with a docstring",
                    where=path,
                    remedy="add the function or drop the entry",
                )
            attacks.append(Attack(f"{family}.{name}", told[name], spec))
    return Catalogue(folder, attacks, content.limits)


def _functions(path: Path) -> dict[str, str]:
    """First line of the docstring of every public function of a program."""
    if not path.is_file():
        raise UserError("is missing", where=path, remedy="add the program, or drop its family from attacks.yaml")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    return {node.name: (ast.get_docstring(node) or "").partition("\n")[0] for node in functions}
