"""The parts of `case.yaml`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from bench.base.model import Model
from bench.formats.case_metric import HeadlineChange
from bench.formats.record import Profile

Positive = Annotated[float, Field(gt=0, le=1e9)]


Count = Annotated[int, Field(ge=1, le=10**9)]


def _inside(path: str) -> str:
    # A leading slash and an empty path show as an empty part.
    if {"", ".", ".."} & set(path.split("/")) or {"\\", "\0"} & set(path):
        raise ValueError("must be a relative path inside the workspace, without `.` or `..`")
    return path


RelativePath = Annotated[str, AfterValidator(_inside)]


def each_once(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise ValueError("names an entry twice")
    return names


ServicePhase = Literal["agent", "judging"]


class Needs(Model):
    """What the machine must offer."""

    python: list[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*$")]] = []
    """Modules that the case's environment must be able to import."""
    gpu: bool = False
    network: bool = False
    cpu_time: bool = False
    """That the kernel counts what its code uses, wherever this is isolated: for cases that judge how fast it is."""


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
    during: Annotated[list[ServicePhase], Field(min_length=1), AfterValidator(each_once)] = ["agent"]
    """Who may reach it: the agent at work, and what the judge runs of its files."""
    public_scores: Annotated[int, Field(ge=1, le=100)] | None = None
    """How often a `bench.casekit.public_scores` tells the agent a score on the public half of hidden labels."""


class AssetRef(Model):
    """What is done with a shared asset of `cases/assets`."""

    workspace: RelativePath | None = None
    """Folder of the workspace that gets it; by default data.py, services and judge find it in `hidden`/assets."""


class ProfileChanges(Model):
    """What is different in one profile: of each field only what is written here."""

    limits: Limits = Limits()
    needs: Needs = Needs()
    outputs: Outputs = Outputs()
    metric: HeadlineChange | None = None
    """`null`: none in this profile."""


class Step(Model):
    """A command run in the workspace after an overlay."""

    run: list[str] = Field(default=[], max_length=32)


Base = Literal["solution", "starter"]


class Wrong(Step):
    """An answer that looks right and is not: a patch `wrong/<name>.patch` over its base, then the command."""

    about: str
    fails: list[str] = Field(min_length=1)
    """Ids of the checks that must catch it."""
    base: Base = "solution"
    """What the patch is applied to: the starter with the solution over it, or the starter alone."""
    tampers: bool = False
    """It changes a protected file, and means to."""
    original: Literal["accepts", "refuses"] | None = None
    """What the original's evaluation says of it; none where the original has nothing like it."""
    escaped: bool = False
    """An earlier form of the checks accepted it, or could have."""
    note: str = ""
    """How the checks see it, for docs/case-cheats.md."""


def _kind_of(profiles: object) -> str:
    return "(mapping)" if isinstance(profiles, dict) else "(list)"


# With a tag for each kind, a fault is told of the kind that was written, and not of both.
Profiles = Annotated[
    Annotated[list[Profile], Field(min_length=1), Tag("(list)")]
    | Annotated[dict[Profile, ProfileChanges], Field(min_length=1), Tag("(mapping)")],
    Discriminator(_kind_of),
]


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
