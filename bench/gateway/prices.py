"""What tokens cost: litellm's published table, read as a file because importing litellm takes seconds."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bench.base.errors import UserError
from bench.base.model import Model, read_yaml
from bench.formats.model_usage import Tokens

_TABLE = "model_prices_and_context_window_backup.json"
_TIER = re.compile(r"input_cost_per_token_above_([0-9]{1,6})k_tokens")
MOST_EXPENSIVE = 1000.0
"""US dollars for one token: more is a mistake, and could not be added up."""
_Price = Annotated[float, Field(ge=0, le=MOST_EXPENSIVE, allow_inf_nan=False)]
_OwnPrice = Annotated[float, Field(ge=0, le=MOST_EXPENSIVE * 1e6)]
_Most = Annotated[int, Field(ge=0, le=10**9)]
_Known = Annotated[int, Field(ge=1, le=10**9)]


@dataclass(frozen=True)
class Rates:
    """US dollars per token."""

    input: _Price
    output: _Price
    cache_read: _Price
    cache_write: _Price
    cache_write_1h: _Price

    def cost(self, tokens: Tokens) -> float:
        """The price of one call; unknown counts must have been estimated before."""
        hour = tokens.cache_write_1h or 0
        return (
            (tokens.input_uncached or 0) * self.input
            + (tokens.cache_read or 0) * self.cache_read
            + ((tokens.cache_write or 0) - hour) * self.cache_write
            + hour * self.cache_write_1h
            + (tokens.output or 0) * self.output
        )

    def worst(self, input_tokens: int, output_tokens: int) -> float:
        """The most that such a call can cost."""
        highest = max(self.input, self.cache_read, self.cache_write, self.cache_write_1h)
        return input_tokens * highest + output_tokens * self.output


@dataclass(frozen=True)
class Prices:
    """A model's rates, more expensive ones for long requests included, and where they come from."""

    base: Rates
    version: str
    long: Rates | None = None
    long_above: _Most = 0
    """Input tokens above which the whole call is billed at the `long` rates."""
    max_output: _Most = 0
    """The most tokens the model answers with; 0: unknown."""
    max_input: _Most = 0
    """The most tokens that its window takes in; 0: unknown."""

    def cost(self, tokens: Tokens) -> float:
        size = sum(part or 0 for part in (tokens.input_uncached, tokens.cache_read, tokens.cache_write))
        return self._rates(size).cost(tokens)

    def worst(self, input_tokens: int, output_tokens: int) -> float:
        return self._rates(input_tokens).worst(input_tokens, output_tokens)

    def bounds(self, total: Tokens) -> tuple[float, float]:
        """The least and the most that calls may have cost which took `total` together."""
        size = sum(part or 0 for part in (total.input_uncached, total.cache_read, total.cache_write))
        # The rates of a call depend on its own size, which the total does not tell.
        rates = [self.base, self.long] if self.long and size > self.long_above else [self.base]
        costs = [rate.cost(total) for rate in rates]
        return min(costs), max(costs)

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
    cache_creation_input_token_cost_above_1hr: _Price | None = None
    max_output_tokens: _Known | None = None
    max_input_tokens: _Known | None = None


class OwnRates(Model):
    """US dollars per million tokens."""

    input: _OwnPrice
    output: _OwnPrice
    cache_read: _OwnPrice | None = None
    cache_write: _OwnPrice | None = None
    cache_write_1h: _OwnPrice | None = None
    max_output: _Most = 0
    max_input: _Most = 0
    """What its window takes in: set aside for a request with a document."""

    def as_prices(self, version: str) -> Prices:
        """Prices per token; a rate of the cache that is not given is the nearest one that is."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        hour = write if self.cache_write_1h is None else self.cache_write_1h
        rates = Rates(*(rate / 1_000_000 for rate in (self.input, self.output, read, write, hour)))
        return Prices(rates, version, max_output=self.max_output, max_input=self.max_input)


class OwnPrices(Model):
    """A file of prices that go before litellm's table."""

    schema_: Literal[1] = Field(1, alias="schema")
    version: str = Field(min_length=1, max_length=60)
    """Goes into the record, so that it can be seen later by what prices a cost was reckoned."""
    models: dict[str, OwnRates]


def find_prices(model: str, own: Path | None = None) -> Prices | None:
    """The prices of `model` (`provider/name`) in the file `own` or in litellm's table; None when there are none."""
    if own is not None:
        prices = read_yaml(own, OwnPrices)
        if model in prices.models:
            return prices.models[model].as_prices(f"own {prices.version}")
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


def check_price_limit(model: str, prices: Prices | None, max_cost_usd: float | None) -> None:
    """Refuse a dollar limit that cannot be kept, because the price of `model` is not known."""
    if prices is None and max_cost_usd is not None:
        raise UserError(
            f"model {model!r} has no price in litellm's table, so the limit of {max_cost_usd:g} US dollars"
            " cannot be kept",
            remedy="name its prices in the file MLDB_PRICES, correct the model's name, or run without a dollar limit",
        )


def _read_table() -> tuple[dict[str, object], str]:
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}, ""
    path = Path(spec.origin).parent / _TABLE
    try:
        table = TypeAdapter(dict[str, object]).validate_python(json.loads(path.read_bytes()))
        return table, f"litellm {importlib.metadata.version('litellm')}"
    except (OSError, ValueError, RecursionError, importlib.metadata.PackageNotFoundError) as error:
        message = f"litellm's price table cannot be read: {str(error)[:300]}"
        raise UserError(message, where=path, remedy="reinstall litellm") from None


def _prices(entry: dict[str, object], version: str) -> Prices:
    known = _Entry.model_validate(entry)
    thresholds = [int(found[1]) for key in entry if (found := _TIER.fullmatch(key))]
    if not thresholds:
        return Prices(_rates(known), version, None, 0, known.max_output_tokens or 0, known.max_input_tokens or 0)
    # One threshold is all that OpenAI's models have; with several the lowest is the cautious one.
    above = min(thresholds)
    suffix = f"_above_{above}k_tokens"
    long = known.model_copy(
        update={
            name: _Entry.model_validate({**entry, name: entry[name + suffix]}).model_dump()[name]
            for name in _Entry.model_fields
            if name + suffix in entry
        }
    )
    return Prices(
        _rates(known), version, _rates(long), above * 1000, known.max_output_tokens or 0, known.max_input_tokens or 0
    )  # fmt: skip


def _rates(entry: _Entry) -> Rates:
    # A cache price that the table does not give is billed as plain input, and a zero for writing is such a gap.
    read, write = entry.cache_read_input_token_cost, entry.cache_creation_input_token_cost or None
    price = entry.input_cost_per_token
    write = price if write is None else write
    hour = entry.cache_creation_input_token_cost_above_1hr
    return Rates(
        price, entry.output_cost_per_token, price if read is None else read, write, write if hour is None else hour
    )
