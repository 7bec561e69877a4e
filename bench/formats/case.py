"""The case: one ML-development task as a folder, its facts in `case.yaml`."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from bench.base.errors import UserError
from bench.base.files import digest_folder
from bench.base.model import Model, read_yaml
from bench.formats.record import Name, Profile

Positive = Annotated[float, Field(gt=0, le=1e9)]
Count = Annotated[int, Field(ge=1, le=10**9)]


def _inside(path: str) -> str:
    # A leading slash and an empty path show as an empty part.
    if {"", ".", ".."} & set(path.split("/")) or {"\\", "\0"} & set(path):
        raise ValueError("must be a relative path inside the workspace, without `.` or `..`")
    return path


RelativePath = Annotated[str, AfterValidator(_inside)]


class Source(Model):
    """The published task that the case re-creates."""

    benchmark: Literal["ml-dev-bench", "mlagentbench", "own"]
    id: str
    thresholds: str = ""
    """What the original asked for success."""


class Needs(Model):
    """What the machine must offer."""

    python: list[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*$")]] = []
    """Modules that the case's environment must be able to import."""
    gpu: bool = False
    network: bool = False


class Limits(Model):
    """What an agent and a grading may use."""

    agent_s: Positive = 600
    grade_s: Positive = 120
    call_s: Positive = 30
    """One `ws.call`, `ws.drive` or `ws.run`, unless the check says otherwise."""
    memory_mb: Count = 4096
    cpus: Count = 1
    processes: Count = 256
    open_files: Count = 1024
    disk_mb: Count = 1024
    output_mb: Count = 10
    steps: Count = 50
    cost_usd: Positive = 2.0
    tokens: Count | None = None
    """Input and output of all model calls together; none by default."""


class Output(Model):
    """A file that the agent must leave."""

    path: RelativePath
    max_mb: Positive = 10


class Outputs(Model):
    """The framework's own check: every file is there, regular and within size."""

    weight: float = Field(1, ge=0)
    """0 makes it a guard: for cases whose starter already has the files."""
    files: list[Output] = []


class ServiceRef(Model):
    """A stand-in of `services.py` that the agent may reach."""

    env: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]
    """Environment variable that holds its base URL."""


class Headline(Model):
    """The continuous metric that pages show first."""

    name: str
    direction: Literal["higher", "lower"]
    baseline: float
    target: float
    unit: str = ""


class Step(Model):
    """A command run in the workspace after an overlay."""

    run: list[str] = Field(default=[], max_length=32)


class Wrong(Step):
    """An answer that looks right and is not."""

    about: str
    fails: list[str] = Field(min_length=1)
    """Ids of the checks that must catch it."""


class Promise(Model):
    """A passage of task.md that says what the agent's work must do, and what shows whether it does."""

    quote: Annotated[str, Field(min_length=1, max_length=2000)]
    """Word for word; a line break of task.md may be a space."""
    checks: list[str] = []
    """Ids of the checks that look at it."""
    excused: str = ""
    """Why no check is needed, in a word or two."""

    @model_validator(mode="after")
    def _backed_or_excused(self) -> Self:
        if bool(self.checks) == bool(self.excused.strip()):
            raise ValueError("name the checks that back the quote, or say in `excused` why none does")
        return self


class CaseSpec(Model):
    """The content of `case.yaml`."""

    schema_: Literal[1] = Field(1, alias="schema")
    id: Name
    category: Name
    title: str = Field(min_length=3, max_length=100)
    tags: list[str] = []
    source: Source
    profiles: list[Profile] = Field(["mini"], min_length=1)
    needs: Needs = Needs()
    preload: list[str] = []
    """Modules that each grading's subject imports once, before any of the agent's code."""
    limits: Limits = Limits()
    outputs: Outputs = Outputs()
    protected: list[RelativePath] = []
    services: dict[Name, ServiceRef] = {}
    metric: Headline | None = None
    promises: list[Promise] = []
    """Together they cover every code span of task.md."""
    solution: Step = Step()
    wrong: dict[Name, Wrong] = {}


@dataclass(frozen=True)
class Case:
    """A case folder with its validated facts."""

    folder: Path
    spec: CaseSpec

    @property
    def id(self) -> str:
        return self.spec.id

    @cached_property
    def digest(self) -> str:
        """Of everything that decides what a score means: the whole folder except its README."""
        return digest_folder(self.folder, without=frozenset({"README.md"}))

    @property
    def task(self) -> Path:
        return self.folder / "task.md"

    def part(self, name: str) -> Path:
        return self.folder / name


def load_case(folder: Path) -> Case:
    """The case in `folder`; raises `UserError` naming file, field and remedy."""
    path = folder / "case.yaml"
    spec = read_yaml(path, CaseSpec)
    for fault, remedy in _faults(folder, spec):
        raise UserError(fault, where=path, remedy=remedy)
    return Case(folder, spec)


def _faults(folder: Path, spec: CaseSpec) -> Iterator[tuple[str, str]]:
    """Where case.yaml and its folder do not fit each other: fault and remedy."""
    category = folder.parent.name
    if spec.id != folder.name:
        yield f"field `id` is {spec.id!r}, but the folder is {folder.name!r}", "make them equal"
    if spec.category != category:
        yield f"field `category` is {spec.category!r}, but the parent folder is {category!r}", "make them equal"
    for name in ("task.md", "check.py"):
        if not (folder / name).is_file():
            yield f"{name} is missing beside it", "every case needs one, see docs/adding-a-case.md"
    for name in spec.wrong:
        if not (folder / "wrong" / name).is_dir():
            yield f"field `wrong.{name}`: folder wrong/{name} is missing", "add the folder or remove the entry"
    if spec.services and not (folder / "services.py").is_file():
        yield "field `services`: services.py is missing", "add the file or remove the field"


def case_folders(root: Path) -> dict[str, Path]:
    """Folder of every case below `root`, by id; raises `UserError` when two have the same id."""
    found: dict[str, Path] = {}
    for path in sorted(root.glob("*/*/case.yaml")):
        folder = path.parent
        if folder.name in found:
            taken = f"the case id {folder.name!r} is already used by {found[folder.name]}"
            raise UserError(taken, where=folder, remedy="rename one of the two folders")
        found[folder.name] = folder
    return found


def load_cases(root: Path, ids: list[str] | None = None) -> list[Case]:
    """The named cases below `root` in the order given, or all of them by category and id."""
    folders = case_folders(root)
    wanted = sorted(folders.values()) if ids is None else [_find_case(folders, name, root) for name in ids]
    return [load_case(folder) for folder in wanted]


def _find_case(folders: dict[str, Path], name: str, root: Path) -> Path:
    """The folder of case `name`, given as id or as category/id."""
    wanted = name.rsplit("/", 1)[-1]
    if wanted not in folders or not f"/{folders[wanted].parent.name}/{wanted}".endswith(f"/{name}"):
        import difflib

        near = difflib.get_close_matches(wanted, folders, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`ml-dev-bench cases list` shows all cases"
        raise UserError(f"no case {name!r}", where=root, remedy=hint)
    return folders[wanted]


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
