"""The agent: a command plus its environment, described by `agent.yaml`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from bench.base.documents import is_file
from bench.base.errors import UserError
from bench.base.files import sha256_bytes
from bench.base.model import Model, read_yaml
from bench.formats.agent_files import CASSETTES, AgentFiles, agent_files, digest_files, linked_cassette, regular_files
from bench.formats.names import Name

Capability = Literal["shell", "solution", "wrong_answer", "person"]
"""`solution` and `wrong_answer` are honoured only for agents that ship with the benchmark; no run starts a `person`."""
MODEL_PATTERN = r"[a-z0-9_-]+/[A-Za-z0-9._:/@-]+"


def _model_name(text: str) -> str:
    if not re.fullmatch(MODEL_PATTERN, text):
        raise ValueError("is not a model; write provider/name, such as anthropic/claude-sonnet-4-5")
    return text


ModelName = Annotated[
    str,
    AfterValidator(_model_name),
    Field(max_length=200, json_schema_extra={"pattern": f"^{MODEL_PATTERN}$"}),
]
_PINNED = r"(sha256:[0-9a-f]{64}|[a-z0-9][a-z0-9._/:-]{0,254}@sha256:[0-9a-f]{64})"


def _pinned_image(text: str) -> str:
    if text and not re.fullmatch(_PINNED, text):
        raise ValueError(
            "an image is named with its digest: write NAME@sha256:..., as `docker image inspect --format "
            "'{{index .RepoDigests 0}}' NAME` tells it, or sha256:... for one of this engine alone"
        )
    return text


ImageName = Annotated[
    str, AfterValidator(_pinned_image), Field(max_length=400, json_schema_extra={"pattern": f"^({_PINNED})?$"})
]
_SHARED = re.compile(r"\.\./_shared/[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_FOLDER = r"^[A-Za-z0-9_@.-]*[A-Za-z0-9_@-](/[A-Za-z0-9_@.-]*[A-Za-z0-9_@-])*$"
_STAGED = "agent"


class Environment(Model):
    """How the agent's own packages get there."""

    image: ImageName = ""
    """A container image with the agent's programs, by its digest: the file system of the agent, in the docker sandbox
    alone. It takes the place of all packages below; empty: the benchmark's own image."""
    python: Annotated[str, Field(pattern=r"^(3\.\d{1,2}(\.\d{1,2})?)?$")] = ""
    """Wanted interpreter version, such as `3.12`; empty means the benchmark's own."""
    requirements: str = ""
    """A requirements file among the agent's files; empty means nothing beyond the standard library."""
    locked: bool = False
    """The requirements name every package with its version: nothing beyond them is installed."""
    npm: str = ""
    """A `package-lock.json` among the agent's files, whose packages are installed below `lib/node_modules`."""
    node: Annotated[str, Field(pattern=r"^(\d{1,3}(\.\d{1,3}){0,2})?$")] = ""
    """Version of the Node that the lock brings, such as `22`; empty: the lock does not need to bring one."""
    npm_scripts: list[str] = Field([], max_length=64)
    """Packages of the lock whose install scripts run; those of all others do not."""
    download_mb: int = Field(0, ge=0, le=1_000_000)
    """About how many MB the packages are to download, said before the first build; 0: not known."""
    variables: dict[Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")], str] = {}
    """Extra variables, never secrets; `{agent}` stands for the agent's folder as seen inside the sandbox."""


class AgentSpec(Model):
    """The content of `agent.yaml`."""

    schema_: Literal[1] = Field(1, alias="schema")
    id: Name
    title: str = ""
    description: str = ""
    command: list[str] = Field(min_length=1, max_length=64)
    """Argument list; `{agent}` stands for the agent's folder as seen inside the sandbox."""
    environment: Environment = Environment()
    shared: list[str] = Field([], max_length=16)
    """Folders `../_shared/NAME` that several agents use; the same relative path leads to them inside the sandbox."""
    include: list[Annotated[str, Field(pattern=_FOLDER)]] = Field([], max_length=16)
    """Folders such as `node_modules` that are the agent's although git ignores them or tools made them."""
    models: dict[Name, ModelName] = {}
    """Default model per role, in litellm's spelling; empty for an agent that calls no model."""
    model_name: Literal["alias", "real"] = "alias"
    """What `BENCH_MODEL` holds: a neutral alias, or the name by which the provider knows the model, for programs that
    treat models they know in another way."""
    helper_models: dict[Annotated[str, Field(min_length=1, max_length=200)], Name] = Field({}, max_length=32)
    """Names of models that the program asks for by itself, such as a small one for titles -> the role that answers."""
    expected_names: list[Annotated[str, Field(pattern=r"^(\*\.)?[a-z0-9_.-]{1,200}$")]] = Field([], max_length=64)
    """Names that the program is known to ask name servers for, such as `*.example.org`: telemetry, not the task."""
    capabilities: list[Capability] = []
    ranked: bool = True
    """False keeps it out of the ranking (oracle, nop)."""


@dataclass(frozen=True)
class Agent:
    """An agent folder with its validated facts."""

    file: Path
    """Its description: a folder may hold several variants."""
    spec: AgentSpec
    trusted: bool
    """True for an agent that ships with the benchmark."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Variables in which it differs from what its folder says: a variant, with an id and a digest of its own."""

    @property
    def folder(self) -> Path:
        return self.file.parent

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def shared(self) -> dict[str, Path]:
        """The shared folders by their names in the description, which are relative to the agent's folder."""
        return {name: self.folder.parent / name.removeprefix("../") for name in self.spec.shared}

    @cached_property
    def files(self) -> AgentFiles:
        """What the agent sees of its folder."""
        return agent_files(self.folder, self.file.name, self.spec.include)

    @cached_property
    def shared_files(self) -> dict[str, AgentFiles]:
        """What it sees of the shared folders, by their names in the description."""
        return {name: agent_files(folder) for name, folder in self.shared.items()}

    @cached_property
    def digest(self) -> str:
        """Of everything that the agent sees of its folders, of its cassettes and its settings."""
        shared = {name: digest_files(files.paths) for name, files in self.shared_files.items()}
        return self._digest(self.files.paths, shared)

    def stage(self, place: Path) -> None:
        """Copy what the agent sees into the new folder `place`."""
        self.files.copy(self.staged(place))
        for name, files in self.shared_files.items():
            files.copy(self.staged_shared(place)[name])

    @staticmethod
    def staged(place: Path) -> Path:
        """The copy of the agent's own folder below `place`."""
        return place / _STAGED

    def staged_shared(self, place: Path) -> dict[str, Path]:
        """The copies of the shared folders; as seen from the agent's own, they lie where the originals do."""
        return {name: place / name.removeprefix("../") for name in self.spec.shared}

    def digest_staged(self, place: Path) -> str:
        """The digest, with the copies below `place` for the originals."""
        shared = {name: digest_files(regular_files(path)) for name, path in self.staged_shared(place).items()}
        return self._digest(regular_files(self.staged(place)), shared)

    def _digest(self, own: Mapping[str, Path], shared: Mapping[str, str]) -> str:
        # The agent never sees its cassettes, but they decide what it is answered.
        digest = digest_files({**own, **regular_files(self.folder / CASSETTES, f"{CASSETTES}/")})
        for more in (shared, dict(self.settings)):
            # An agent without them keeps the digest of its folder, which published records carry.
            if more:
                digest = sha256_bytes(json.dumps([digest, more], sort_keys=True).encode())
        return digest

    @property
    def sees_solution(self) -> bool:
        return self.trusted and "solution" in self.spec.capabilities

    @property
    def sees_wrong_answer(self) -> bool:
        return self.trusted and "wrong_answer" in self.spec.capabilities


def load_agent(where: Path, *, trusted: bool = False) -> Agent:
    """The agent described by the file `where`, or by `agent.yaml` in that folder."""
    path = where if is_file(where) or where.suffix in (".yaml", ".yml") else where / "agent.yaml"
    spec = read_yaml(path, AgentSpec)
    answers = [it for it in spec.capabilities if it in ("solution", "wrong_answer")]
    if answers and not trusted:
        fault = f"field `capabilities`: only the benchmark's own agents, as its oracle, may have `{answers[0]}`"
        raise UserError(fault, where=path, remedy="remove it from the list")
    _require_image_alone(path, spec.environment)
    _require_file(path, "requirements", spec.environment.requirements)
    _require_file(path, "npm", spec.environment.npm)
    if (spec.environment.node or spec.environment.npm_scripts) and not spec.environment.npm:
        fault = "field `environment.npm`: is empty, and `node` and `npm_scripts` are about its packages"
        raise UserError(fault, where=path, remedy="name a package-lock.json, or remove these fields")
    for name, role in spec.helper_models.items():
        if role not in spec.models:
            fault = f"field `helper_models`, {name!r}: {role!r} is not a role of `models`"
            raise UserError(fault, where=path, remedy=f"name one of {', '.join(spec.models) or 'the roles'} there")
    agent = Agent(path.resolve(), spec, trusted)
    if link := linked_cassette(agent.folder):
        raise UserError(f"{link} is a link", where=path, remedy="replace it by the cassettes that it leads to")
    for name, folder in agent.shared.items():
        _require_shared(agent, name, folder)
    return agent


def _require_image_alone(path: Path, environment: Environment) -> None:
    """Raise `UserError` where packages are asked for beside an image."""
    beside = [name for name in ("python", "requirements", "npm") if getattr(environment, name)]
    if environment.image and beside:
        fault = f"field `environment.{beside[0]}`: an agent with an image has its packages in there"
        raise UserError(fault, where=path, remedy=f"install them in the image, and remove `{beside[0]}`")


def _require_file(path: Path, field: str, name: str) -> None:
    """Raise `UserError` for packages whose list is not a file in the folder of the description `path`.

    A stranger may have written the description: it must not choose what else of this machine is read.
    """
    if not name:
        return
    folder = path.parent.resolve()
    if "\0" in name:
        fault, remedy = f"{name!r} holds a character that no file name may have", "correct the name"
    elif not (folder / name).resolve().is_relative_to(folder):
        fault, remedy = f"{name!r} is outside the agent's folder", "move the file into the agent's folder"
    elif not is_file(folder / name):
        fault, remedy = f"{name!r} is not a file in the agent's folder", "add the file or correct its name"
    else:
        return
    raise UserError(f"field `environment.{field}`: {fault}", where=path, remedy=remedy)


def _require_shared(agent: Agent, name: str, folder: Path) -> None:
    """Raise `UserError` for a folder that may not be shared.

    A stranger may have written the description: it must not choose what else of this machine the agent can see.
    """
    if not _SHARED.fullmatch(name):
        fault, remedy = f"{name[:100]!r} is not of the form ../_shared/NAME", "move the folder into _shared/"
    elif (agent.folder / ".git").exists():
        fault, remedy = f"{name!r} is outside the agent's repository", "move the agent into a folder of its repository"
    elif folder.is_symlink() or folder.parent.is_symlink():
        fault, remedy = f"{name!r} is a link", "replace the link by the folder"
    elif not folder.is_dir():
        fault, remedy = f"{name!r} is not a folder", "create it or correct the path"
    else:
        return
    raise UserError(f"field `shared`: {fault}", where=agent.file, remedy=remedy)


def with_settings(agent: Agent, settings: Mapping[str, str]) -> Agent:
    """The agent with these variables in its environment, as an agent of its own; itself without any."""
    if not settings:
        return agent
    mark = sha256_bytes(json.dumps(dict(settings), sort_keys=True).encode())[7:13]
    environment = agent.spec.environment
    environment = environment.model_copy(update={"variables": {**environment.variables, **settings}})
    # A name has at most 64 characters: 57, a dash, and the mark's six.
    spec = agent.spec.model_copy(update={"id": f"{agent.spec.id[:57]}-{mark}", "environment": environment})
    return replace(agent, spec=spec, settings=dict(settings))


def differences(one: Agent, other: Agent, *, without: str) -> list[str]:
    """In what two agents differ besides the variable `without`, their ids and what describes them."""
    texts = {"id", "title", "description"}
    specs = []
    for agent in (one, other):
        facts = agent.spec.model_dump(exclude=texts)
        facts["environment"]["variables"].pop(without, None)
        specs.append(facts)
    found = [name for name in specs[0] if specs[0][name] != specs[1][name]]
    described = {one.file.name, other.file.name}
    files = [
        digest_files(
            {
                **{name: path for name, path in agent.files.paths.items() if name not in described},
                **regular_files(agent.folder / CASSETTES, f"{CASSETTES}/"),
            }
        )
        for agent in (one, other)
    ]
    shared = [{name: digest_files(it.paths) for name, it in agent.shared_files.items()} for agent in (one, other)]
    return found + ["a file"] * (files[0] != files[1]) + ["a shared file"] * (shared[0] != shared[1])
