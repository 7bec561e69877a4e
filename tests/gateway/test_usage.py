"""Usage rules, one fixture a provider: shaped after the providers' documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import UserError
from bench.formats.model_usage import Tokens
from bench.gateway.prices import find_prices
from bench.gateway.stream_readers import READERS
from bench.gateway.usage import Rule, for_an_hour, heard_tokens, is_priced_otherwise, normalise
from tests.helpers.usage_fixtures import FIXTURES


@pytest.mark.parametrize(("rule", "usage", "tokens"), [it[1:] for it in FIXTURES], ids=[it[0] for it in FIXTURES])
def test_counts_are_normalised(rule: Rule, usage: dict[str, Any], tokens: Tokens) -> None:
    assert normalise(rule, usage) == tokens


@pytest.mark.parametrize("rule", ["openai", "responses", "anthropic", "gemini", "litellm", "embeddings", "google"])
@pytest.mark.parametrize(
    "usage",
    [None, {}, [], "x", {"promptTokenCount": True}, {"promptTokenCount": 1, "cachedContentTokenCount": 2},
     {"prompt_tokens": -1, "completion_tokens": 1, "input_tokens": -1, "output_tokens": 1},
     {"prompt_tokens": 1.5, "completion_tokens": 1, "input_tokens": 1.5, "output_tokens": 1},
     {"prompt_tokens": True, "completion_tokens": 1, "input_tokens": True, "output_tokens": 1}],
)  # fmt: skip
def test_counts_that_make_no_sense_are_unknown(rule: Rule, usage: Any) -> None:
    assert normalise(rule, usage) is None


@pytest.mark.parametrize(
    ("heard", "usage"),
    [
        (19_990, {"prompt_tokens": 20_000, "prompt_tokens_details": {"audio_tokens": 19_990, "cached_tokens": 0}}),
        (7, {"input_tokens": 9, "input_tokens_details": {"audio_tokens": 7}, "output_tokens_details": None}),
        (5, {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1}, {"modality": "AUDIO", "tokenCount": 5}]}),
        (0, {"prompt_tokens": 5, "prompt_tokens_details": None}),
        (0, {"prompt_tokens_details": {"audio_tokens": -5}}),
        (0, {"prompt_tokens_details": "none"}),
        (0, None),
    ],
)
def test_sound_is_told_from_the_rest_of_the_input(heard: int, usage: Any) -> None:
    assert heard_tokens(usage) == heard


_HOUR = {"type": "ephemeral", "ttl": "1h"}


@pytest.mark.parametrize("asked", [{"cache_control": _HOUR}, {"system": [{"text": "x", "cache_control": _HOUR}]}])
@pytest.mark.parametrize("written", [0, 8])
@pytest.mark.parametrize("life", [{}, {"cache_creation": None}, {"cache_creation": {"ephemeral_5m_input_tokens": 8}}])
def test_a_cache_of_unknown_life_costs_what_was_asked_for(asked: Any, written: int, life: Any) -> None:
    usage = {"input_tokens": 5, "output_tokens": 2, "cache_creation_input_tokens": written, **life}
    tokens = normalise("anthropic", usage)
    assert tokens is not None
    longer = for_an_hour(tokens, usage, asked)
    assert (longer is not None) is (bool(written) and not life.get("cache_creation"))
    assert longer is None or longer == tokens.model_copy(update={"cache_write_1h": written})
    assert for_an_hour(tokens, usage, {"messages": [{"cache_control": {"type": "ephemeral", "ttl": "5m"}}]}) is None


def test_more_cached_than_sent_makes_no_sense() -> None:
    usage: Any = {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 6}}
    assert normalise("openai", usage) is None


OWN = """\
schema: 1
version: 2026-11 contract
models:
  anthropic/mine: {input: 3, output: 15, cache_read: 0.3, cache_write: 3.75, cache_write_1h: 6, max_output: 64000}
  openai/plain: {input: 1, output: 2}
"""


def test_own_prices_go_before_the_table_and_name_their_version(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(OWN)
    mine = find_prices("anthropic/mine", path)
    assert mine is not None
    assert (mine.version, mine.max_output) == ("own 2026-11 contract", 64000)
    tokens = Tokens(input_uncached=1000, cache_read=1000, cache_write=1000, cache_write_1h=400, output=1000)
    assert mine.cost(tokens) == pytest.approx((3000 + 300 + 600 * 3.75 + 400 * 6 + 15000) / 1e6)
    plain = find_prices("openai/plain", path)
    assert plain is not None
    assert plain.base.cache_read == plain.base.cache_write == plain.base.input, "no discount is made up"


def test_a_faulty_file_of_prices_names_its_field(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(OWN.replace("input: 1", "input: -1"))
    with pytest.raises(UserError, match=r"models\.openai/plain\.input"):
        find_prices("openai/plain", path)


@pytest.mark.parametrize(
    ("tier", "usage", "otherwise"),
    [
        ("", {}, False), ("default", {}, False), ("on_demand", None, False), ("priority", [], True), ("flex", {}, True),
        ("", {"service_tier": "standard", "speed": "standard"}, False), ("", {"service_tier": "batch"}, True),
        ("", {"speed": "fast"}, True), ("", {"trafficType": "ON_DEMAND"}, False),
        ("", {"trafficType": "ON_DEMAND_PRIORITY"}, True), ("", {"serviceTier": "FLEX"}, True),
        (["priority"], {}, False),
    ],
)  # fmt: skip
def test_answers_of_another_tier_are_told_apart(tier: object, usage: Any, otherwise: bool) -> None:
    assert is_priced_otherwise(tier, usage) == otherwise


def test_a_stream_tells_its_tier() -> None:
    for dialect, event in (
        ("chat", {"choices": [], "service_tier": "priority"}),
        ("responses", {"type": "response.completed", "response": {"output": [], "service_tier": "priority"}}),
    ):
        reader = READERS[dialect]()  # type: ignore[index]
        reader.take(event)
        assert reader.finish().tier == "priority"
