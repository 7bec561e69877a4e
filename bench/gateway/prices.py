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
_TIER = re.compile(r"([a-z0-9_]+)_above_([0-9]{1,6})k_tokens")
_PRICE = re.compile("cost|pric|multiplier|(?:^|_)fees?(?:_|$)")
"""In the names of fields that tell of money."""
_UNASKED = re.compile(
    # Tiers of service and lives of caches that no request may ask for, and tools of the provider.
    r".+_(?:batches|flex|priority|ultrafast|balanced|decisions)|.+_uplift_multiplier(?:_\w+)?|.+_above_12hr"
    r"|search_context_cost_per_query|google_maps_grounding_cost_per_query|code_interpreter_cost_per_session"
    r"|(?:file|web)_search_\w+"
    # What comes back besides text, other ways to say the same price, and what makes it less.
    r"|output_cost_per_(?:audio|image|video)(?:_token)?|(?:in|out)put_dbu_cost_per_token"
    r"|input_cost_per_token_cache_hit|explicit_cache_read_input_token_cost|cache_read_input_audio_token_cost"
    r"|off_peak_pricing"
)
"""Names of price fields that are not read, because nothing that a request here may bring is billed by them."""
_PICTURES = frozenset({"input_cost_per_image_token", "input_cost_per_video_token"})
_SEARCHING = re.compile(r"perplexity/preset/.*|.*[/:_-](?:search|sonar|online|compound|deep-research)(?:[-:.].*)?")
"""Names of models that search the web without being asked to, and bill it besides their tokens."""
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
    reasoning: _Price | None = None
    """None: as other output."""
    audio: _Price | None = None
    """Of input that is sound. None: unknown."""

    def cost(self, tokens: Tokens, heard: int = 0) -> float:
        """The price of one call, `heard` of whose input was sound; unknown counts must have been estimated before."""
        sound = self.input if self.audio is None else self.audio
        hour = tokens.cache_write_1h or 0
        return (
            (tokens.input_uncached or 0) * self.input
            + (tokens.cache_read or 0) * self.cache_read
            + ((tokens.cache_write or 0) - hour) * self.cache_write
            + hour * self.cache_write_1h
            + (tokens.output or 0) * self.output
            + (tokens.reasoning or 0) * (self.thinking - self.output)
            + heard * (sound - self.input)
        )

    @property
    def thinking(self) -> float:
        return self.output if self.reasoning is None else self.reasoning

    def worst(self, input_tokens: int, output_tokens: int) -> float:
        """The most that such a call can cost."""
        highest = max(self.input, self.cache_read, self.cache_write, self.cache_write_1h)
        return input_tokens * highest + output_tokens * max(self.output, self.thinking)


@dataclass(frozen=True)
class Tier:
    """Rates of calls with more input than `above`."""

    above: _Most
    rates: Rates


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
    longer: tuple[Tier, ...] = ()
    """Above thresholds that are higher than `long_above`, ascending."""

    def cost(self, tokens: Tokens, heard: int = 0) -> float:
        size = _size(tokens)
        return self._rates(size)[-1].cost(tokens, min(heard, size))

    def worst(self, input_tokens: int, output_tokens: int) -> float:
        return max(rates.worst(input_tokens, output_tokens) for rates in self._rates(input_tokens))

    def bounds(self, total: Tokens) -> tuple[float, float]:
        """The least and the most that calls may have cost which took `total` together."""
        # The rates of a call depend on its own size and on how much was sound, which the total does not tell.
        size = _size(total)
        costs = [rates.cost(total, heard) for rates in self._rates(size) for heard in (0, size)]
        return min(costs), max(costs)

    def _rates(self, input_tokens: int) -> list[Rates]:
        """Those of a call of this size, after those of all smaller ones."""
        tiers = [Tier(self.long_above, self.long), *self.longer] if self.long else []
        return [self.base, *(tier.rates for tier in tiers if input_tokens > tier.above)]


def _size(tokens: Tokens) -> int:
    return sum(part or 0 for part in (tokens.input_uncached, tokens.cache_read, tokens.cache_write))


class _Entry(BaseModel):
    """The fields we use of one entry of the table."""

    model_config = ConfigDict(extra="ignore")

    litellm_provider: str = ""
    input_cost_per_token: _Price
    output_cost_per_token: _Price
    cache_read_input_token_cost: _Price | None = None
    cache_creation_input_token_cost: _Price | None = None
    cache_creation_input_token_cost_above_1hr: _Price | None = None
    output_cost_per_reasoning_token: _Price | None = None
    input_cost_per_audio_token: _Price | None = None
    max_output_tokens: _Known | None = None
    max_input_tokens: _Known | None = None


class OwnRates(Model):
    """US dollars per million tokens."""

    input: _OwnPrice
    output: _OwnPrice
    cache_read: _OwnPrice | None = None
    cache_write: _OwnPrice | None = None
    cache_write_1h: _OwnPrice | None = None
    reasoning: _OwnPrice | None = None
    """None: as other output."""
    audio: _OwnPrice | None = None
    """Of input that is sound."""
    max_output: _Most = 0
    max_input: _Most = 0
    """What its window takes in: set aside for a request with a document."""

    def as_prices(self, version: str) -> Prices:
        """Prices per token; a rate of the cache that is not given is the nearest one that is."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        hour = write if self.cache_write_1h is None else self.cache_write_1h
        some = (None if rate is None else rate / 1_000_000 for rate in (self.reasoning, self.audio))
        rates = Rates(*(rate / 1_000_000 for rate in (self.input, self.output, read, write, hour)), *some)
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
        if _unread(entry) or searches_by_itself(model):
            return None
        try:
            return _prices(entry, version)
        except ValidationError:
            return None
    return None


def check_price_limit(model: str, prices: Prices | None, max_cost_usd: float | None) -> None:
    """Refuse a dollar limit that cannot be kept, because the price of `model` is not known."""
    if prices is None and max_cost_usd is not None:
        raise UserError(
            f"model {model!r} has no price in litellm's table, or fees there that are not read, so the limit of"
            f" {max_cost_usd:g} US dollars cannot be kept",
            remedy="name its prices in the file MLDB_PRICES, correct the model's name, or run without a dollar limit",
        )


def check_search(model: str, network: bool) -> None:
    """Refuse a model that would be a way to the web for a case without a `network`."""
    if searches_by_itself(model) and not network:
        raise UserError(
            f"model {model!r} searches the web by itself, and a case is without a network",
            remedy="choose a model that searches only with a tool: the gateway takes such tools out",
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


def searches_by_itself(model: str) -> bool:
    """Whether `model` (`provider/name`) looks into the web whatever it is asked, as far as its name says."""
    return bool(_SEARCHING.fullmatch(model.lower()))


def _unread(entry: dict[str, object]) -> list[str]:
    """Fields by which something may be billed that is not reckoned here."""
    text = entry.get("input_cost_per_token")
    found = []
    for name, value in entry.items():
        base = _base(name)
        known = base in _Entry.model_fields or _UNASKED.fullmatch(name) or _UNASKED.fullmatch(base)
        if known or not _PRICE.search(name) or not value or isinstance(value, str | bool):
            continue
        # Pictures are reckoned as text, at what they show.
        if base in _PICTURES and isinstance(value, int | float) and isinstance(text, int | float) and value <= text:
            continue
        found.append(name)
    return found


def _base(name: str) -> str:
    found = _TIER.fullmatch(name)
    return found[1] if found else name


def _prices(entry: dict[str, object], version: str) -> Prices:
    known = _Entry.model_validate(entry)
    base, tiers = _rates(known), []
    thresholds = {int(it[2]) for name in entry if (it := _TIER.fullmatch(name)) and it[1] in _Entry.model_fields}
    for above in sorted(thresholds):
        suffix = f"_above_{above}k_tokens"
        # What a threshold does not name stays as it was below it.
        raised = {name: entry[name + suffix] for name in _Entry.model_fields if name + suffix in entry}
        known = _Entry.model_validate({**known.model_dump(), **raised})
        tiers.append(Tier(above * 1000, _rates(known)))
    long, above = (tiers[0].rates, tiers[0].above) if tiers else (None, 0)
    most, window = known.max_output_tokens or 0, known.max_input_tokens or 0
    return Prices(base, version, long, above, most, window, tuple(tiers[1:]))


def _rates(entry: _Entry) -> Rates:
    # A cache price that the table does not give is billed as plain input, and a zero for writing is such a gap.
    read, write = entry.cache_read_input_token_cost, entry.cache_creation_input_token_cost or None
    price = entry.input_cost_per_token
    write = price if write is None else write
    hour = entry.cache_creation_input_token_cost_above_1hr
    return Rates(
        price, entry.output_cost_per_token, price if read is None else read, write, write if hour is None else hour,
        entry.output_cost_per_reasoning_token, entry.input_cost_per_audio_token,
    )  # fmt: skip
