"""What providers say was used, one fixture a provider, shaped after their documentation."""

from __future__ import annotations

from typing import Any

from bench.formats.model_usage import Tokens
from bench.gateway.usage import Rule

FIXTURES: list[tuple[str, Rule, dict[str, Any], Tokens]] = [
    ("openai chat, cached and reasoning", "openai",
     {"prompt_tokens": 2006, "completion_tokens": 300, "total_tokens": 2306,
      "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
      "completion_tokens_details": {"reasoning_tokens": 192, "accepted_prediction_tokens": 0}},
     Tokens(input_uncached=86, cache_read=1920, output=300, reasoning=192)),
    ("openai chat, without details", "openai", {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
     Tokens(input_uncached=10, output=5)),
    ("openai chat, details that are null", "openai",
     {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": None, "completion_tokens_details": None},
     Tokens(input_uncached=10, output=5)),
    ("deepseek, which tells cached input beside the rest", "openai",
     {"prompt_tokens": 120, "completion_tokens": 40, "total_tokens": 160, "prompt_cache_hit_tokens": 100,
      "prompt_cache_miss_tokens": 20},
     Tokens(input_uncached=20, cache_read=100, output=40)),
    ("moonshot, which does so by another name", "openai",
     {"prompt_tokens": 120, "completion_tokens": 40, "total_tokens": 160, "cached_tokens": 100},
     Tokens(input_uncached=20, cache_read=100, output=40)),
    ("openai responses", "responses",
     {"input_tokens": 328, "input_tokens_details": {"cached_tokens": 128}, "output_tokens": 52,
      "output_tokens_details": {"reasoning_tokens": 32}, "total_tokens": 380},
     Tokens(input_uncached=200, cache_read=128, output=52, reasoning=32)),
    ("anthropic, both cache lives", "anthropic",
     {"input_tokens": 2048, "cache_read_input_tokens": 1800, "cache_creation_input_tokens": 248, "output_tokens": 503,
      "cache_creation": {"ephemeral_5m_input_tokens": 148, "ephemeral_1h_input_tokens": 100}},
     Tokens(input_uncached=2048, cache_read=1800, cache_write=248, cache_write_1h=100, output=503)),
    ("anthropic, before the hour's cache", "anthropic",
     {"input_tokens": 21, "cache_creation_input_tokens": 188086, "cache_read_input_tokens": 0, "output_tokens": 393},
     Tokens(input_uncached=21, cache_write=188086, output=393)),
    ("google, cached, thinking and a tool of its own", "google",
     {"promptTokenCount": 1000, "cachedContentTokenCount": 600, "candidatesTokenCount": 40, "thoughtsTokenCount": 700,
      "toolUsePromptTokenCount": 25, "totalTokenCount": 1765, "promptTokensDetails": [{"modality": "TEXT"}]},
     Tokens(input_uncached=425, cache_read=600, output=740, reasoning=700)),
    ("google, without an answer", "google", {"promptTokenCount": 7, "totalTokenCount": 7}, Tokens(input_uncached=7)),
    ("xai's chat, thinking beside the output", "openai",
     {"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135, "prompt_tokens_details": {"cached_tokens": 6},
      "completion_tokens_details": {"reasoning_tokens": 94, "audio_tokens": 0}},
     Tokens(input_uncached=26, cache_read=6, output=103, reasoning=94)),
    ("gemini's openai-compatible address, thinking in the total alone", "gemini",
     {"prompt_tokens": 100, "completion_tokens": 40, "total_tokens": 840,
      "prompt_tokens_details": {"cached_tokens": 60}},
     Tokens(input_uncached=40, cache_read=60, output=740, reasoning=700)),
    ("litellm over anthropic: input includes cache writes", "litellm",
     {"prompt_tokens": 165, "completion_tokens": 20, "total_tokens": 185, "cache_creation_input_tokens": 15,
      "cache_read_input_tokens": 50, "completion_tokens_details": {"reasoning_tokens": 1, "text_tokens": 19},
      "prompt_tokens_details": {"cached_tokens": 50, "cache_creation_tokens": 15, "cache_creation_token_details":
      {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 5}}},
     Tokens(input_uncached=100, cache_read=50, cache_write=15, cache_write_1h=5, output=20, reasoning=1)),
    ("embeddings", "embeddings", {"prompt_tokens": 8, "total_tokens": 8}, Tokens(input_uncached=8)),
]  # fmt: skip
