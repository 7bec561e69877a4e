"""What the runner tells the gateway's process, and what that tells the runner."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from bench.base.model import Model, SeedText
from bench.formats.model_usage import ModelUsage
from bench.formats.note import Note
from bench.formats.run_limits import RunLimits
from bench.gateway.budget import CellLimits, Tariff
from bench.gateway.media import Family
from bench.gateway.names import ModelNames
from bench.gateway.request import Dialect
from bench.gateway.run_budget import Limit, Whole

SETTLE = b"settle"
"""What the runner says when the agent is gone: take no more calls, and find out whether the provider is down."""
# The gateway's process works in another folder than the runner.
_Absolute = Annotated[Path, AfterValidator(Path.absolute)]


class Patience(Model):
    """How long a call may take and how often it is tried."""

    tries: int = Field(6, ge=1)
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    """Also the longest Retry-After that is waited for."""
    connect_s: float = 10.0
    answer_s: float = 600.0
    """For a whole answer; in a stream, between two pieces of it."""
    probe_s: float = 30.0
    """For the whole answer to a probe, which asks for a word."""
    quiet_s: float = 60.0
    """Without traffic of the cell, before a probe that was refused for its rate is repeated."""
    late_s: float = 1.0
    """A probe in vain says nothing where this process itself was later than that: an agent's requests keep it busy."""
    probes: int = 6
    """How often a model is probed during a cell; at its end once more."""


class Provider(Model):
    """An upstream that is spoken to in its own protocol."""

    url: str
    headers: dict[str, str]
    """With the key."""
    dialects: list[Dialect]


class Role(Tariff):
    """One model of the cell."""

    name: str
    """As the upstream knows it; of a cassette, the model that it was recorded from."""
    provider: Provider | None = None
    family: Family = "other"
    """By whose rule images are billed."""
    litellm: bool = False
    """Dialects that `provider` does not speak go through litellm."""
    cassette: Path | None = None
    task_sha256: str = ""
    """Of the task that the cassette answers; empty: it does not say."""


class RunBudgetConfig(Model):
    """The budget that the cells of a run share."""

    path: _Absolute
    """Of the file by which they share it."""
    limits: RunLimits


class GatewayBase(Model):
    """What runner and gateway both need to know of one gateway."""

    socket: _Absolute
    """Unix socket to listen on."""
    ledger: _Absolute
    """calls.jsonl: appended per call, before the end of the answer is sent. Its messages lie beside it."""
    case: str
    """Names the cassette."""
    limits: CellLimits
    run_budget: RunBudgetConfig | None = None
    """None: the run has no limits."""
    patience: Patience = Patience()
    helpers: dict[str, str] = {}
    """Names of models that the agent asks for by itself -> the role that answers."""
    hosted_tools: bool = False
    """The provider may run tools of its own and fetch addresses: the case allows the network."""
    record: _Absolute | None = None
    """Folder for cassettes of what is said."""
    answered: _Absolute | None = None
    """Folder by which the gateways of a run tell each other when a model last answered."""
    seed: SeedText | None = None
    """Of the data that the cell meets; written into its cassettes."""


class Config(GatewayBase):
    """One gateway, as its process is told."""

    keys: dict[str, list[str]]
    """Key -> the roles it may ask for."""
    roles: dict[str, Role]
    secrets: list[str]
    """Never to be written anywhere."""

    @property
    def names(self) -> ModelNames:
        """By which names its models may be asked for."""
        # A cassette answers for the model that it was recorded from.
        models = {role: it.name if it.simulated else it.model for role, it in self.roles.items()}
        return ModelNames(models, self.helpers)


class State(Model):
    """How a gateway stands."""

    kind: Literal["ready", "state", "busy"] = "state"
    """`busy`: nobody has asked; a long question is being worked at."""
    usage: list[ModelUsage] = []
    """Totals per role, in the order of the roles."""
    notes: list[Note] = []
    """Findings about the agent's behaviour."""
    limit_hit: Limit | None = None
    """The first limit that a call ran into."""
    limit_of: Whole = "cell"
    """Whose limit that is."""
    error: str | None = None
    """The first fault that is ours or the provider's, beginning with its code; the cell cannot be judged then."""
    stop: bool = False
    """The agent is to be ended: its grace is over, or nothing more will be answered."""
    broken: bool = False
    """Said by the runner: the gateway's process has ended before its time, or does not answer. `usage` is older."""
    exit_status: int | None = None
    """Of a process that has ended before its time; a signal as a negative number."""
