"""What tokens cost: litellm's published table, read as a file because importing litellm takes seconds."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bench.errors import UserError
from bench.record import Tokens

_TABLE = "model_prices_and_context_window_backup.json"
_TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
_Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Rates:
    """US dollars per token."""

    input: float
    output: float
    cache_read: float
    cache_write: float

    def cost(self, tokens: Tokens) -> float:
        """The price of one call; unknown counts must have been estimated before."""
        return (
            (tokens.input_uncached or 0) * self.input
            + (tokens.cache_read or 0) * self.cache_read
            + (tokens.cache_write or 0) * self.cache_write
            + (tokens.output or 0) * self.output
        )

    def worst(self, input_tokens: int, output_tokens: int) -> float:
        """The most that such a call can cost."""
        dearest = max(self.input, self.cache_read, self.cache_write)
        return input_tokens * dearest + output_tokens * self.output


@dataclass(frozen=True)
class Prices:
    """A model's rates, dearer ones for long requests included, and where they come from."""

    base: Rates
    version: str
    long: Rates | None = None
    long_above: int = 0
    """Input tokens above which the whole call is billed at the `long` rates."""

    def cost(self, tokens: Tokens) -> float:
        size = sum(part or 0 for part in (tokens.input_uncached, tokens.cache_read, tokens.cache_write))
        return self._rates(size).cost(tokens)

    def worst(self, input_tokens: int, output_tokens: int) -> float:
        return self._rates(input_tokens).worst(input_tokens, output_tokens)

    def _rates(self, input_tokens: int) -> Rates:
        return self.long if self.long and input_tokens > self.long_above else self.base


class _Entry(BaseModel):
    """The fields we use of one entry of the table."""

    model_config = ConfigDict(extra="ignore")

    litellm_provider: str = ""
    input_cost_per_token: _Price
    output_cost_per_token: _Price
    cache_read_input_token_cost: _Price | None = None
    cache_creation_input_token_cost: _Price | None = None


def find_prices(model: str) -> Prices | None:
    """The prices of `model` (`provider/name`) in the installed litellm's table; None when there are none."""
    table, version = _read_table()
    provider, _, name = model.partition("/")
    for key in (model, name):
        entry = table.get(key)
        if not isinstance(entry, dict) or entry.get("litellm_provider") != provider:
            continue
        try:
            return _prices(entry, version)
        except ValidationError:
            return None
    return None


def check_price_limit(model: str, prices: Prices | None, max_cost_usd: float) -> None:
    """Refuse a dollar limit that cannot be kept, because nobody knows what `model` costs."""
    if prices is None and not math.isinf(max_cost_usd):
        raise UserError(
            f"model {model!r} has no price in litellm's table, so the limit of {max_cost_usd:g} US dollars"
            " cannot be kept",
            remedy="install ml-dev-bench[prices], correct the model's name, or set cost_usd to .inf",
        )


def _read_table() -> tuple[dict[str, object], str]:
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}, ""
    path = Path(spec.origin).parent / _TABLE
    try:
        table = TypeAdapter(dict[str, object]).validate_python(json.loads(path.read_bytes()))
        return table, f"litellm {importlib.metadata.version('litellm')}"
    except (OSError, ValueError, importlib.metadata.PackageNotFoundError) as error:
        message = f"litellm's price table cannot be read: {error}"
        raise UserError(message, where=path, remedy="reinstall litellm") from None


def _prices(entry: dict[str, object], version: str) -> Prices:
    known = _Entry.model_validate(entry)
    thresholds = [int(found[1]) for key in entry if (found := _TIER.fullmatch(key))]
    if not thresholds:
        return Prices(_rates(known), version)
    # One threshold is all that OpenAI's models have; with several the lowest is the cautious one.
    above = min(thresholds)
    suffix = f"_above_{above}k_tokens"
    dearer = known.model_copy(
        update={
            name: _Entry.model_validate({**entry, name: entry[name + suffix]}).model_dump()[name]
            for name in _Entry.model_fields
            if name + suffix in entry
        }
    )
    return Prices(_rates(known), version, _rates(dearer), above * 1000)


def _rates(entry: _Entry) -> Rates:
    # A cache price that the table does not give is billed as plain input.
    read, write = entry.cache_read_input_token_cost, entry.cache_creation_input_token_cost
    price = entry.input_cost_per_token
    return Rates(price, entry.output_cost_per_token, price if read is None else read, price if write is None else write)
