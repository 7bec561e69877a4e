"""The case: one ML-development task as a folder, its facts in `case.yaml`."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from bench.base.errors import UserError
from bench.base.model import Model, validate
from bench.formats.case_digest import judged_digest, proof_digest
from bench.formats.case_metric import Headline
from bench.formats.case_parts import (
    AssetRef,
    Limits,
    Needs,
    Outputs,
    Profiles,
    Promise,
    RelativePath,
    ServiceRef,
    Step,
    Wrong,
    each_once,
)
from bench.formats.case_profiles import with_changes
from bench.formats.case_selection import Kind, selected_folders
from bench.formats.case_sources import Corrections, DataSource, Source
from bench.formats.case_variants import EXTENDS, read_facts
from bench.formats.names import Name
from bench.formats.record import Profile
from bench.formats.tags import Category


class CaseSpec(Model):
    """The content of `case.yaml`."""

    schema_: Literal[1] = Field(1, alias="schema")
    id: Name
    category: Category
    """One of `bench.formats.tags`, and the name of the parent folder."""
    extends: Annotated[str, Field(pattern=EXTENDS)] | None = None
    """Folder of the case of which this is a variant, such as `../other_case`: what is not here is there."""
    title: str = Field(min_length=3, max_length=100)
    tags: list[str] = []
    """Words of `bench.formats.tags`."""
    kind: Kind = "canonical"
    """`canonical`: an answer is right or wrong. `open-ended`: a better answer measures better, without an end."""
    source: Source
    profiles: Profiles = ["mini"]
    """A list, or a mapping to what is different in each; the first one is the default."""
    needs: Needs = Needs()
    preload: list[str] = []
    """Modules that each grading's subject imports once, before any of the agent's code."""
    limits: Limits = Limits()
    outputs: Outputs = Outputs()
    protected: list[RelativePath] = []
    services: Annotated[dict[Name, ServiceRef], Field(max_length=16)] = {}
    assets: dict[Name, AssetRef] = {}
    """Of `cases/assets`, by name: built once, and part of the digest of each case that uses them."""
    sources: dict[Profile, dict[Name, DataSource]] = {}
    """Published data that data.py finds in a folder of each name, by profile."""
    metric: Headline | None = None
    milestones: Annotated[list[str], AfterValidator(each_once)] = []
    """Ids of checks in the order in which a long task is done, so that a record says how far it came."""
    promises: list[Promise] = []
    """Together they cover every code span of task.md."""
    solution: Step = Step()
    wrong: dict[Name, Wrong] = {}
    corrections: Corrections | None = None
    """What is judged in another way than by the original; a text for readers, in neither digest of the case."""

    def in_profile(self, profile: Profile) -> CaseSpec:
        """The facts that hold in `profile`; raises `ValueError` for a metric that is not complete."""
        changes = self.profiles.get(profile) if isinstance(self.profiles, dict) else None
        return self if changes is None else with_changes(self, changes, {"metric": Headline})


@dataclass(frozen=True)
class Case:
    """A case folder with its validated facts."""

    folder: Path
    spec: CaseSpec
    """As declared, or as it holds in `profile`."""
    profile: Profile | None = None
    """The one for which `spec` was resolved."""
    declared: CaseSpec | None = field(default=None, repr=False, compare=False)
    """What a resolved `spec` was made of."""
    parent: Path | None = None
    """Folder of the case of which this is a variant."""
    written: CaseSpec | None = field(default=None, repr=False, compare=False)
    """As case.yaml has it, whatever `spec` was changed to since: the digests are of the files."""

    @property
    def id(self) -> str:
        return self.spec.id

    @cached_property
    def digest(self) -> str:
        """Of what decides a verdict; with the judge's version it identifies a series of results."""
        return judged_digest(self.folders, self._assets, self.written or self.declared or self.spec)

    @property
    def proof_digest(self) -> str:
        """Of everything that a proof of the case has met, as it is now."""
        return proof_digest([*self.folders, *self._assets])

    @property
    def _assets(self) -> list[Path]:
        return [self.asset(name) for name in sorted(self.spec.assets)]

    @property
    def folders(self) -> list[Path]:
        """Where the case's files lie: its own folder, and then that of the case of which it is a variant."""
        return [self.folder] if self.parent is None else [self.folder, self.parent]

    @property
    def profiles(self) -> list[Profile]:
        """Those that the case offers; the first one is the default."""
        return list(self.spec.profiles)

    def for_profile(self, profile: Profile) -> Case:
        """The case with the facts that hold in `profile`: the one place where limits, needs, outputs and metric of a
        profile come from. A profile that the case does not offer changes nothing.
        """
        if self.profile == profile:
            return self
        declared = self.declared or self.spec
        resolved = Case(self.folder, declared.in_profile(profile), profile, declared, self.parent, self.written)
        # Of the folder, which is the same: reading it again for every cell would take longer than planning.
        resolved.__dict__.update({name: known for name, known in self.__dict__.items() if "digest" in name})
        return resolved

    @property
    def task(self) -> Path:
        return self.part("task.md")

    def part(self, name: str) -> Path:
        """The file or folder `name` of the case, also where it does not exist; a variant has those of its parent that
        it does not have itself. A folder of its own takes the place of the whole folder; entries of hidden/ and wrong/
        are looked up one by one.
        """
        return next((place for place in self.parts(name)), self.folder / name)

    def asset(self, name: str) -> Path:
        """Folder of the sources of a shared asset, beside the categories of cases."""
        return self.folder.parents[1] / "assets" / name

    def parts(self, name: str) -> list[Path]:
        """Every place in which there is a file or folder `name`, the variant's own first."""
        return [place for folder in self.folders if (place := folder / name).exists()]


def load_case(folder: Path) -> Case:
    """The case in `folder`; raises `UserError` naming file, field and remedy."""
    path = folder / "case.yaml"
    facts, parent = read_facts(folder)
    spec = validate(facts, CaseSpec, where=path)
    case = Case(folder, spec, parent=parent, written=spec)
    for fault, remedy in _faults(case):
        raise UserError(fault, where=path, remedy=remedy)
    return case


def _faults(case: Case) -> Iterator[tuple[str, str]]:
    """Where case.yaml and its folder do not fit each other: fault and remedy."""
    folder, spec = case.folder, case.spec
    category = folder.parent.name
    if spec.id != folder.name:
        yield f"field `id` is {spec.id!r}, but the folder is {folder.name!r}", "make them equal"
    if spec.category != category:
        yield f"field `category` is {spec.category!r}, but the parent folder is {category!r}", "make them equal"
    for name in ("task.md", "check.py"):
        if not case.part(name).is_file():
            yield f"{name} is missing beside it", "every case needs one, see docs/adding-a-case.md"
    if spec.services and not case.part("services.py").is_file():
        yield "field `services`: services.py is missing", "add the file or remove the field"
    for name in spec.assets:
        if not (case.asset(name) / "build.py").is_file():
            yield f"field `assets.{name}`: {case.asset(name)}/build.py is missing", "add it or remove the entry"
    for profile in set(spec.sources) - set(spec.profiles):
        yield f"field `sources.{profile}`: the case does not have this profile", "add the profile or remove the entry"
    for profile in spec.profiles:
        try:
            spec.in_profile(profile)
        except ValueError:
            fault = f"field `profiles.{profile}.metric`: the case does not have a metric that it could change"
            yield fault, "write name, direction, baseline and target, or a `metric` of the case"


def case_folders(root: Path) -> dict[str, Path]:
    """Folder of every case below `root`, by id; raises `UserError` when two have the same id."""
    found: dict[str, Path] = {}
    for folder in sorted(path.parent for path in root.glob("*/*/case.yaml")):
        if folder.name in found:
            taken = f"the case id {folder.name!r} is already used by {found[folder.name]}"
            raise UserError(taken, where=folder, remedy="rename one of the two folders")
        found[folder.name] = folder
    return found


def load_cases(root: Path, ids: list[str] | None = None) -> list[Case]:
    """The cases below `root` that `ids` (see `Selector`) select in the order given, or all by category and id."""
    load = functools.cache(load_case)
    wanted = sorted(case_folders(root).values()) if ids is None else select_cases(root, ids, load)
    return [load(folder) for folder in wanted]


def load_one_case(root: Path, selector: str) -> Case:
    """The one case below `root` that `selector` means; raises `UserError` for none and for several."""
    found = load_cases(root, [selector])
    if len(found) > 1:
        named = ", ".join(case.id for case in found[:5]) + (", ..." if len(found) > 5 else "")
        raise UserError(f"{selector!r} means {len(found)} cases", where=root, remedy=f"name one: {named}")
    return found[0]


def select_cases(root: Path, selectors: list[str], load: Callable[[Path], Case] = load_case) -> list[Path]:
    """Folders of the cases below `root` that `selectors` mean; raises `UserError` for one that matches nothing."""
    return selected_folders(case_folders(root), selectors, root, lambda folder: load(folder).spec)


@functools.lru_cache(maxsize=256)
def _can_import(module: str) -> bool:
    try:
        # The package alone: looking for a module inside it would import the package.
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def missing_modules(modules: list[str]) -> list[str]:
    """Those of `modules` that cannot be imported here; looks without importing."""
    return [module for module in modules if not _can_import(module)]
