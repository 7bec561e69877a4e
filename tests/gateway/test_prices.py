"""Prices: litellm's table read as a file, tiers, and what is done where there is no price."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.base.errors import UserError
from bench.formats.model_usage import Tokens
from bench.gateway.prices import Prices, Rates, check_price_limit, check_search, find_prices

ENTRIES = {
    "sample_spec": {"mode": "one of: chat, embedding"},
    "plain": {"litellm_provider": "openai", "input_cost_per_token": 2e-6, "output_cost_per_token": 8e-6},
    "tiered": {
        "litellm_provider": "openai",
        "input_cost_per_token": 2e-6,
        "output_cost_per_token": 8e-6,
        "cache_read_input_token_cost": 2e-7,
        "input_cost_per_token_above_272k_tokens": 4e-6,
        "output_cost_per_token_above_272k_tokens": 1.2e-5,
        "input_cost_per_token_above_272k_tokens_priority": 9e-6,
    },
    "claude": {"litellm_provider": "anthropic", "input_cost_per_token": 3e-6, "output_cost_per_token": 1.5e-5},
    "no-output": {"litellm_provider": "openai", "input_cost_per_token": 1e-6},
    "negative": {"litellm_provider": "openai", "input_cost_per_token": -1e-6, "output_cost_per_token": 1e-6},
    "words": "none",
    "thinker": {
        "litellm_provider": "openai",
        "input_cost_per_token": 2e-6,
        "output_cost_per_token": 8e-6,
        "output_cost_per_reasoning_token": 2e-5,
    },
    "stairs": {
        "litellm_provider": "openai",
        "input_cost_per_token": 1e-6,
        "output_cost_per_token": 2e-6,
        "input_cost_per_token_above_32k_tokens": 2e-6,
        "output_cost_per_token_above_32k_tokens": 4e-6,
        "input_cost_per_token_above_256k_tokens": 5e-6,
        "max_input_tokens": 1_000_000,
    },
    "hearing": {
        "litellm_provider": "openai",
        "input_cost_per_token": 2e-6,
        "output_cost_per_token": 8e-6,
        "input_cost_per_audio_token": 4e-5,
    },
}
PLAIN = ENTRIES["plain"]
UNREAD: dict[str, object] = {
    "input_cost_per_request": 0.005,
    "citation_cost_per_token": 2e-6,
    "tiered_pricing": [{"range": [0, 1e6]}],
    "input_cost_per_character": 1e-7,
    "input_cost_per_image_token": 9e-6,
    "weekend_fee": 1.0,
    "price_per_tool": 0.1,
    "output_cost_per_token_above_noon": 1.0,
    "surge_multiplier": 2.0,
}
UNASKED: dict[str, object] = {
    "input_cost_per_token_batches": 1e-6, "output_cost_per_token_above_272k_tokens_priority": 1.0,
    "search_context_cost_per_query": {"search_context_size_low": 0.03}, "regional_processing_uplift_multiplier_eu": 1.1,
    "input_cost_per_image_token": 2e-6, "output_cost_per_image": 0.04, "input_cost_per_request": 0.0,
    "cache_creation_input_token_cost_above_12hr_above_272k_tokens": 1.0,
    "off_peak_pricing": {"windows": []}, "supports_web_search": True, "pricing_source": "https://x",
}  # fmt: skip


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A litellm whose code would fail: only its table may be read."""
    package = tmp_path / "litellm"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('litellm must not be imported')\n")
    place = package / "model_prices_and_context_window_backup.json"
    place.write_text(json.dumps(ENTRIES))
    info = tmp_path / "litellm-9.9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: litellm\nVersion: 9.9.9\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    # Another test of this process may have imported the real one, which would be found first.
    monkeypatch.delitem(sys.modules, "litellm", raising=False)
    return place


@pytest.mark.usefixtures("table")
def test_prices_are_found_by_provider_and_name() -> None:
    plain = find_prices("openai/plain")
    # Without a cache price, cached input is billed as plain input.
    assert plain == Prices(Rates(2e-6, 8e-6, 2e-6, 2e-6, 2e-6), "litellm 9.9.9")
    for name in ("claude", "missing", "no-output", "negative", "words", "sample_spec"):
        assert find_prices(f"openai/{name}") is None, name


@pytest.mark.usefixtures("table")
def test_long_requests_cost_the_dearer_rate_as_a_whole() -> None:
    tiered = find_prices("openai/tiered")
    assert tiered is not None
    short = Tokens(input_uncached=72_000, cache_read=200_000, output=10)
    assert tiered.cost(short) == pytest.approx(72_000 * 2e-6 + 200_000 * 2e-7 + 10 * 8e-6)
    long = Tokens(input_uncached=72_001, cache_read=200_000, output=10)
    assert tiered.cost(long) == pytest.approx(72_001 * 4e-6 + 200_000 * 2e-7 + 10 * 1.2e-5)
    assert tiered.worst(272_001, 10) == pytest.approx(272_001 * 4e-6 + 10 * 1.2e-5)


@pytest.mark.usefixtures("table")
def test_every_threshold_and_dearer_thinking_are_read() -> None:
    thinker, stairs = find_prices("openai/thinker"), find_prices("openai/stairs")
    assert thinker is not None
    assert stairs is not None
    assert thinker.cost(Tokens(output=100, reasoning=60)) == pytest.approx(40 * 8e-6 + 60 * 2e-5)
    assert thinker.worst(0, 100) == pytest.approx(100 * 2e-5)
    for size, each, out in ((32_000, 1e-6, 2e-6), (256_000, 2e-6, 4e-6), (256_001, 5e-6, 4e-6)):
        assert stairs.cost(Tokens(input_uncached=size, output=10)) == pytest.approx(size * each + 10 * out)
        assert stairs.worst(size, 10) == pytest.approx(size * each + 10 * out)
    assert stairs.bounds(Tokens(input_uncached=300_000)) == pytest.approx((0.3, 1.5))
    assert stairs.max_input == 1_000_000


@pytest.mark.usefixtures("table")
def test_sound_has_a_price_of_its_own() -> None:
    hearing, plain = find_prices("openai/hearing"), find_prices("openai/plain")
    assert hearing is not None
    assert plain is not None
    tokens = Tokens(input_uncached=1000, output=1)
    assert hearing.cost(tokens, 900) == pytest.approx(100 * 2e-6 + 900 * 4e-5 + 8e-6)
    assert hearing.bounds(tokens) == pytest.approx((hearing.cost(tokens), 1000 * 4e-5 + 8e-6))
    assert plain.base.audio is None


@pytest.mark.parametrize("name", UNREAD)
def test_a_price_field_that_is_not_read_makes_a_model_unpriced(table: Path, name: str) -> None:
    table.write_text(json.dumps({"other": {**PLAIN, name: UNREAD[name]}}))  # type: ignore[dict-item]
    assert find_prices("openai/other") is None


@pytest.mark.parametrize("name", UNASKED)
def test_prices_of_what_no_request_brings_change_nothing(table: Path, name: str) -> None:
    table.write_text(json.dumps({"other": {**PLAIN, name: UNASKED[name]}, "plain": PLAIN}))  # type: ignore[dict-item]
    assert find_prices("openai/other") == find_prices("openai/plain") is not None


SEARCHING = [
    "openai/gpt-4o-search-preview", "openai/gpt-5-search-api-2025-10-14", "perplexity/sonar", "groq/compound-mini",
    "openrouter/x-ai/grok-4:online", "openai/o3-deep-research", "vercel_ai_gateway/perplexity/sonar-pro",
]  # fmt: skip


def test_a_model_that_searches_by_itself_needs_a_network(table: Path) -> None:
    table.write_text(json.dumps({model.partition("/")[2]: PLAIN for model in SEARCHING}))
    for model in SEARCHING:
        assert find_prices(model) is None, "its fees are in no token"
        check_search(model, network=True)
        with pytest.raises(UserError, match=r"searches the web by itself.*choose a model"):
            check_search(model, network=False)
    for model in ("openai/gpt-5", "nebius/NousResearch/Hermes-4-70B", "local/research-7b", "replay/demo"):
        check_search(model, network=False)


counts = st.integers(0, 10**6)
rate = st.floats(0, 1e-3)


@given(st.tuples(rate, rate, rate, rate, rate), counts, counts, counts, counts)
def test_no_call_costs_more_than_its_worst_case(
    rates: tuple[float, float, float, float, float], plain: int, read: int, write: int, output: int
) -> None:
    prices = Prices(Rates(*rates), "v")
    tokens = Tokens(input_uncached=plain, cache_read=read, cache_write=write, cache_write_1h=write // 2, output=output)
    assert prices.cost(tokens) <= prices.worst(plain + read + write, output) * (1 + 1e-9)


def test_a_broken_table_is_named(table: Path) -> None:
    table.write_text("{")
    with pytest.raises(UserError, match="price table cannot be read"):
        find_prices("openai/plain")


def test_a_dollar_limit_needs_a_price() -> None:
    check_price_limit("openai/x", None, None)
    check_price_limit("openai/x", Prices(Rates(1, 1, 1, 1, 1), "v"), 1.0)
    with pytest.raises(UserError, match=r"limit of 2 US dollars.*without a dollar limit"):
        check_price_limit("openai/x", None, 2.0)


@pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed")
def test_the_installed_litellm_has_prices_for_known_models() -> None:
    prices = find_prices("openai/gpt-4o-mini")
    assert prices is not None
    assert 0 < prices.base.cache_read < prices.base.input < prices.base.output < 1e-4


def test_nothing_heavy_is_imported_to_open_a_replaying_gateway() -> None:
    code = "import sys, bench.gateway.launch; print([m for m in ('httpx', 'litellm', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
