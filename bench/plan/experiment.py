"""The experiment file: a grid over suites, agents, models, settings and profiles, with its machines and its budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from bench.base.documents import parse_yaml
from bench.base.errors import UserError
from bench.base.model import Model, read_yaml, validate
from bench.base.text import meant
from bench.formats.agent import ModelName
from bench.formats.case_parts import Count, Positive
from bench.formats.names import Name
from bench.formats.record import Profile
from bench.formats.shards import MAX_JOBS, Fleet, MachineClass, RunnerKind

Mode = Literal["full", "changed", "rotating"]
Variable = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]


class Budget(Model):
    """What a plan may come to by its estimate; None: no limit."""

    usd: float | None = Field(None, ge=0)
    """Models and machines together."""
    gpu_hours: float | None = Field(None, ge=0)


class Experiment(Model):
    """The content of an experiment file; every list is one axis of the grid."""

    schema_: Literal[1] = Field(1, alias="schema")
    name: Name = "plan"
    suites: list[Name] = Field(["smoke"], min_length=1)
    agents: list[str] = Field([], max_length=1000)
    """Ids, or paths of agent.yaml files."""
    base: str = ""
    """Of an experiment with two arms: the agent, by id or path, that the only one of `agents` is compared with."""
    models: list[ModelName] = []
    """For the main role, in place of the agent's own; an agent that calls none runs once."""
    settings: dict[Variable, list[str]] = {}
    """Variables of the agent's environment: every combination is an agent of its own."""
    profiles: list[Profile] = []
    """Empty: the suite's own."""
    cases: list[str] = []
    """Only these."""
    trials: int | None = Field(None, ge=1, le=1000)
    """None: the suite's own."""
    until_decided: bool = False
    """With `base`: the trials are rounds, with a look after each; `plan --next-round` plans the one that follows."""
    mode: Mode = "full"
    period_days: Count = 7
    """Of the mode `rotating`: in so many days each case has one turn."""
    machines: list[MachineClass] = Field([MachineClass(name="cpu")], min_length=1)
    shard_minutes: Positive = 45.0
    """How long a shard should take, where the number of machines allows."""
    max_jobs: int = Field(MAX_JOBS, ge=1, le=MAX_JOBS)
    budget: Budget = Budget()

    def fleet(self, runner: RunnerKind) -> Fleet:
        """Its machines, which are `runner` to GitHub, and how they are used."""
        return Fleet(machines=self.machines, shard_minutes=self.shard_minutes, max_jobs=self.max_jobs, runner=runner)

    @model_validator(mode="after")
    def _axes_name_each_value_once(self) -> Experiment:
        axes: dict[str, Sequence[str]] = {
            "suites": self.suites,
            "agents": self.agents,
            "models": self.models,
            "profiles": self.profiles,
            "cases": self.cases,
            "machines": [machine.name for machine in self.machines],
            **{f"settings.{name}": values for name, values in self.settings.items()},
        }
        for axis, values in axes.items():
            if len(set(values)) < len(values):
                raise ValueError(f"{axis} names a value twice")
        if any(not values for values in self.settings.values()):
            raise ValueError("settings: a variable has no value")
        if self.base and (len(self.agents) != 1 or self.settings):
            raise ValueError("base: compares one agent, without settings; name just the head in agents")
        if self.base and self.mode == "changed":
            raise ValueError("base: mode=changed would leave out an arm that has results; take full or rotating")
        if self.until_decided and (not self.base or self.mode != "full"):
            raise ValueError("until_decided: compares two arms in full rounds; name the other agent in base")
        return self


def find_experiment(name: str, cases: Path) -> Path:
    """The experiment file `name`: a path, else one that ships below the suites of `cases`, as `paper/react-gpt-4o`."""
    path, plain = Path(name), name.removesuffix(".yaml")
    if path.exists():
        return path
    # A suite lies in that folder itself, and is not an experiment.
    shipped = {f"{it.parent.name}/{it.stem}": it for it in cases.glob("suites/*/*.yaml")}
    if plain in shipped:
        return shipped[plain]
    if plain.partition("/")[0] in {it.partition("/")[0] for it in shipped}:
        raise UserError(f"no experiment {plain!r}", where=cases / "suites", remedy=meant(plain, shipped))
    return path


def load_experiment(path: Path | None, overrides: Sequence[str], inherited: Fleet | None = None) -> Experiment:
    """The file's experiment, or the default one, with `key=value` overrides; raises `UserError`.

    `a.b=x` reaches into mappings, `list=x,y` replaces a list, `machines.0.count=4` one item of it.
    inherited: of an earlier plan, for what the file does not say.
    """
    read = read_yaml(path, Experiment) if path is not None else None
    plain = read.model_dump(by_alias=True) if read is not None else {}
    if inherited is not None:
        said = read.model_fields_set if read is not None else set()
        plain |= {name: value for name, value in inherited.model_dump(exclude={"runner"}).items() if name not in said}
    for text in overrides:
        _override(plain, text)
    return validate(plain, Experiment, where=path if path is not None and not overrides else "experiment")


def _override(document: dict[str, Any], text: str) -> None:
    key, equals, value = text.partition("=")
    *parts, last = key.split(".")
    if not equals or not last or not all(parts):
        raise UserError(f"{text!r} is not an override", where="plan", remedy="write key=value, such as trials=5")
    holder: Any = document
    for part in parts:
        step = _step(holder, part, text)
        if isinstance(holder, dict):
            holder.setdefault(step, {})
        holder = holder[step]
    holder[_step(holder, last, text)] = _value(key, value)


def _step(holder: object, part: str, text: str) -> str | int:
    """The key or index in `holder` that `part` means."""
    if isinstance(holder, dict):
        return part
    if not isinstance(holder, list):
        raise UserError(f"{text!r}: {part!r} is inside of a value", where="plan", remedy="shorten the key")
    if part not in map(str, range(len(holder))):
        raise UserError(f"{text!r}: {part!r} is none of {len(holder)} items", where="plan", remedy="count from 0")
    return int(part)


def _value(key: str, text: str) -> Any:
    """A list where the field is one, else what YAML takes it for; settings stay text."""
    if key.startswith("settings."):
        return text.split(",")
    field = Experiment.model_fields.get(key)
    if field is not None and str(field.annotation).startswith("list"):
        return text.split(",") if text else []
    documents = list(parse_yaml(text, f"plan: value of {key}"))
    if len(documents) > 1:
        raise UserError(f"{len(documents)} values", where=f"plan: value of {key}", remedy="give one")
    return documents[0] if documents else None
