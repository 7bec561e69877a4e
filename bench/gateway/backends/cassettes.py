"""Cassettes that are written by hand: one conversation about one case, and the turn that answers a request."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from bench.base.model import Model, SeedText, read_yaml
from bench.gateway.backends.recorded import CassetteMiss
from bench.gateway.prices import MOST_EXPENSIVE, OwnRates, Prices

_Dollars = Annotated[float, Field(ge=0, le=MOST_EXPENSIVE * 1e6)]
_Count = Annotated[int, Field(ge=0, le=10**9)]


class _Open(BaseModel):
    """Part of a foreign protocol: what is not named here passes through unread."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Part(_Open):
    text: str | None = None


class Function(_Open):
    name: str
    arguments: str = "{}"


class ToolCall(_Open):
    function: Function


class Message(_Open):
    """One message of a chat request, as far as a turn is found by it."""

    role: str
    content: str | list[Part] | None = None
    tool_calls: list[ToolCall] | None = None

    @property
    def text(self) -> str:
        """The words of the message, without pictures."""
        if isinstance(self.content, list):
            return "".join(part.text or "" for part in self.content)
        return self.content or ""


class CassettePrices(Model):
    """US dollars per million tokens."""

    input: _Dollars
    output: _Dollars
    cache_read: _Dollars


class TurnUsage(Model):
    """Tokens of one turn; `input` leaves out what `cache_read` counts."""

    input: _Count
    output: _Count
    cache_read: _Count = 0


class TurnCall(Model):
    """One tool call; `arguments` may be a plain string, to play a model that writes broken JSON."""

    name: str
    arguments: dict[str, JsonValue] | str

    @property
    def text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments, ensure_ascii=False)


class Turn(Model):
    """One answer of the model."""

    content: str = ""
    tool_calls: list[TurnCall] = Field(default_factory=list)
    usage: TurnUsage


class Cassette(Model):
    """One conversation about one case."""

    schema_: Literal[1] = Field(alias="schema")
    model: str
    """Whose prices are simulated."""
    note: str = ""
    prices: CassettePrices
    seed: SeedText | None = None
    """Of the data that the conversation is about; without one it fits any."""
    task_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Of task.md, so that a changed task makes the replay fail clearly."""
    turns: list[Turn] = Field(min_length=1)

    def as_prices(self) -> Prices:
        return OwnRates(**dict(self.prices)).as_prices(f"cassette {self.model}")


def load_cassette(path: Path) -> Cassette:
    """The validated cassette at `path`, or `UserError`."""
    return read_yaml(path, Cassette)


def find_turn(cassette: Cassette, messages: Sequence[Message]) -> int:
    """The index of the turn that answers `messages`, or `CassetteMiss` naming the nearest turn and the difference.

    A request is its task and the model's own turns. What tools answered is not compared: it may hold timings.
    """
    task = next((message.text for message in messages if message.role == "user"), "")
    if hashlib.sha256(task.encode("utf-8", "surrogatepass")).hexdigest() != cassette.task_sha256:
        raise CassetteMiss(
            "turn 0: the first user message is not the task this cassette was made for"
            f" (begins {task[:60]!r}); the task changed, or the agent does not pass it on word for word"
        )
    said = [message for message in messages if message.role == "assistant"]
    for index, message in enumerate(said):
        if index == len(cassette.turns):
            break
        if difference := _difference(cassette.turns[index], message):
            raise CassetteMiss(f"turn {index}: {difference}")
    if len(said) >= len(cassette.turns):
        raise CassetteMiss(f"turn {len(said)}: the cassette ends after turn {len(cassette.turns) - 1}")
    return len(said)


def _difference(turn: Turn, message: Message) -> str:
    if turn.content != message.text:
        return f"the content is {message.text[:80]!r}, the cassette has {turn.content[:80]!r}"
    calls = [call.function for call in message.tool_calls or []]
    if len(calls) != len(turn.tool_calls):
        return f"there are {len(calls)} tool calls, the cassette has {len(turn.tool_calls)}"
    for index, (mine, theirs) in enumerate(zip(turn.tool_calls, calls, strict=True)):
        if mine.name != theirs.name:
            return f"tool call {index} is {theirs.name[:40]!r}, the cassette has {mine.name!r}"
        if _meaning(mine.text) != _meaning(theirs.arguments):
            return f"tool call {index} has arguments {theirs.arguments[:120]}, the cassette has {mine.text[:120]}"
    return ""


def _meaning(arguments: str) -> object:
    """Arguments as a value, so that spacing does not matter; broken JSON is compared as text."""
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
