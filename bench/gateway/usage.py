"""What providers say they counted, as tokens of our own: each counts in another way."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from bench.formats.model_usage import Tokens
from bench.gateway.json_values import objects_in
from bench.gateway.request import Dialect

Rule = Literal["openai", "responses", "anthropic", "gemini", "litellm", "embeddings", "google"]
"""openai, responses: input includes cached tokens, output includes reasoning; what a chat's total has beyond is more.
anthropic: input excludes cache reads and writes. gemini (its OpenAI-compatible address): input includes cached tokens,
thinking is in the total alone. google (generateContent): input includes cached tokens and leaves out what tools of
Google's used, output leaves out thinking. litellm: as openai, and input includes cache writes, too."""


_RULES: dict[Dialect, Rule] = {
    "responses": "responses",
    "messages": "anthropic",
    "count_tokens": "anthropic",
    "embeddings": "embeddings",
    "generate": "google",
    "count_generate": "google",
}


_TIER_FIELDS = ("service_tier", "serviceTier", "speed", "trafficType")
_FEES = ("server_tool_use", "server_side_tool_usage", "num_sources_used", "num_search_queries", "citation_tokens")
"""Where Anthropic, xAI and Perplexity count what they bill by the piece: searches, sources, runs of code."""
_OTHER_TIER = re.compile(r"(?:on_demand_)?(?:priority|flex|batch|fast|ultrafast|balanced|decisions)")

_Count = Annotated[int, Field(ge=0, le=10**12)]


def rule_of(dialect: Dialect, chat: Rule = "openai") -> Rule:
    """How usage in answers of `dialect` is to be read; providers differ in what they count in chat completions."""
    return chat if dialect == "chat" else _RULES[dialect]


class _Loose(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class _Creation(_Loose):
    ephemeral_5m_input_tokens: _Count | None = None
    ephemeral_1h_input_tokens: _Count | None = None


class _Details(_Loose):
    cached_tokens: _Count | None = None
    cache_write_tokens: _Count | None = None
    cache_creation_tokens: _Count | None = None
    cache_creation_token_details: _Creation | None = None
    reasoning_tokens: _Count | None = None
    thinking_tokens: _Count | None = None
    audio_tokens: _Count | None = None


_NONE = _Details()


class _Chat(_Loose):
    prompt_tokens: _Count
    completion_tokens: _Count = 0
    total_tokens: _Count | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    cache_creation_input_tokens: _Count | None = None
    cache_read_input_tokens: _Count | None = None
    prompt_cache_hit_tokens: _Count | None = None
    """DeepSeek's."""
    cached_tokens: _Count | None = None
    """Moonshot's."""


class _Responses(_Loose):
    input_tokens: _Count
    output_tokens: _Count
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None


class _Messages(_Loose):
    input_tokens: _Count
    output_tokens: _Count
    cache_creation_input_tokens: _Count | None = None
    cache_read_input_tokens: _Count | None = None
    cache_creation: _Creation | None = None
    output_tokens_details: _Details | None = None


class _Google(_Loose):
    promptTokenCount: _Count
    candidatesTokenCount: _Count | None = None
    thoughtsTokenCount: _Count | None = None
    cachedContentTokenCount: _Count | None = None
    toolUsePromptTokenCount: _Count | None = None
    cacheWriteTokenCount: _Count | None = None
    """Of a translated answer: Google itself does not bill writing."""


def normalise(rule: Rule, usage: JsonValue) -> Tokens | None:
    """Counts that are ours. None when they are missing or make no sense."""
    try:
        if rule == "responses":
            return _responses_tokens(_Responses.model_validate(usage))
        if rule == "anthropic":
            return _messages_tokens(_Messages.model_validate(usage))
        if rule == "google":
            return _google_tokens(_Google.model_validate(usage))
        if rule == "embeddings":
            return Tokens(input_uncached=_Chat.model_validate(usage).prompt_tokens)
        read = _Chat.model_validate(usage)
        if isinstance(usage, dict) and "completion_tokens" not in usage:
            return None
        return _chat_tokens(read, rule)
    except ValidationError:
        return None


def for_an_hour(tokens: Tokens, usage: JsonValue, asked: JsonValue) -> Tokens | None:
    """`tokens` with all that was written to a cache at the price of an hour; None where that is not needed.

    It is where a request in Anthropic's protocol has asked for an hour and the provider does not say what it wrote for
    how long, as some do that speak this protocol for others.
    """
    told = isinstance(usage, dict) and usage.get("cache_creation") is not None
    if told or not tokens.cache_write or tokens.cache_write_1h or not _asks_for_an_hour(asked):
        return None
    return tokens.model_copy(update={"cache_write_1h": tokens.cache_write})


def _asks_for_an_hour(asked: JsonValue) -> bool:
    marks = (held.get("cache_control") for held in objects_in(asked))
    return any(isinstance(mark, dict) and mark.get("ttl") == "1h" for mark in marks)


class _Modality(_Loose):
    modality: str = ""
    tokenCount: _Count = 0


class _Sound(_Loose):
    """Where the protocols tell of sound; one of them at a time."""

    prompt_tokens_details: _Details = _NONE
    input_tokens_details: _Details = _NONE
    promptTokensDetails: list[_Modality] = []


def heard_tokens(usage: JsonValue) -> int:
    """How much of the input was sound, which has a price of its own."""
    try:
        told = _Sound.model_validate({name: it for name, it in usage.items() if it} if isinstance(usage, dict) else {})
    except ValidationError:
        return 0
    google = sum(it.tokenCount for it in told.promptTokensDetails if it.modality.upper() == "AUDIO")
    return google + sum(it.audio_tokens or 0 for it in (told.prompt_tokens_details, told.input_tokens_details))


def is_priced_otherwise(tier: object, usage: JsonValue) -> bool:
    """Whether an answer says that a tier of service has served it which has prices of its own.

    None can be asked for; it may be what an account has chosen for all that does not ask. tier: what stands beside the
    usage, in which the other protocols have it.
    """
    told = [tier, *(usage.get(name) for name in _TIER_FIELDS)] if isinstance(usage, dict) else [tier]
    return any(isinstance(it, str) and bool(_OTHER_TIER.fullmatch(it.lower())) for it in told)


def has_fees(usage: JsonValue) -> bool:
    """Whether the provider used tools of its own, each of which it bills beside the tokens."""
    told = [usage.get(name) for name in _FEES] if isinstance(usage, dict) else []
    counts = [count for it in told for count in (it.values() if isinstance(it, dict) else [it])]
    return any(isinstance(count, int) and count > 0 for count in counts)


def _chat_tokens(read: _Chat, rule: Rule) -> Tokens | None:
    given, brought = read.prompt_tokens_details or _NONE, read.completion_tokens_details or _NONE
    cached = max(given.cached_tokens or 0, read.prompt_cache_hit_tokens or 0, read.cached_tokens or 0)
    written = given.cache_write_tokens or 0
    hour = 0
    output, reasoning = read.completion_tokens, brought.reasoning_tokens or 0
    if rule == "litellm":
        cached = max(cached, read.cache_read_input_tokens or 0)
        written = max(written, given.cache_creation_tokens or 0, read.cache_creation_input_tokens or 0)
        hour = (given.cache_creation_token_details or _Creation()).ephemeral_1h_input_tokens or 0
    if rule != "litellm" and read.total_tokens is not None:
        # What the total has beyond both is thinking, which is billed as output: of Gemini's, xAI's, and others.
        hidden = max(read.total_tokens - read.prompt_tokens - output, 0)
        output, reasoning = output + hidden, max(reasoning, hidden)
    return _checked(read.prompt_tokens - cached - written, cached, written, hour, output, reasoning)


def _responses_tokens(read: _Responses) -> Tokens | None:
    given, brought = read.input_tokens_details or _NONE, read.output_tokens_details or _NONE
    cached, written = given.cached_tokens or 0, given.cache_write_tokens or 0
    reasoning = brought.reasoning_tokens or 0
    return _checked(read.input_tokens - cached - written, cached, written, 0, read.output_tokens, reasoning)


def _messages_tokens(read: _Messages) -> Tokens | None:
    parts = read.cache_creation
    hour = (parts.ephemeral_1h_input_tokens or 0) if parts else 0
    split = hour + ((parts.ephemeral_5m_input_tokens or 0) if parts else 0)
    written = max(read.cache_creation_input_tokens or 0, split)
    details = read.output_tokens_details or _NONE
    reasoning = details.thinking_tokens or details.reasoning_tokens or 0
    return _checked(
        read.input_tokens, read.cache_read_input_tokens or 0, written, hour, read.output_tokens, reasoning
    )  # fmt: skip


def _google_tokens(read: _Google) -> Tokens | None:
    cached, written = read.cachedContentTokenCount or 0, read.cacheWriteTokenCount or 0
    given, thought = read.promptTokenCount + (read.toolUsePromptTokenCount or 0), read.thoughtsTokenCount or 0
    output = (read.candidatesTokenCount or 0) + thought
    return _checked(given - cached - written, cached, written, 0, output, thought)


def _checked(plain: int, cached: int, written: int, hour: int, output: int, reasoning: int) -> Tokens | None:
    if plain < 0 or reasoning > output or hour > written:
        return None
    return Tokens(
        input_uncached=plain,
        cache_read=cached,
        cache_write=written,
        cache_write_1h=hour,
        output=output,
        reasoning=reasoning,
    )
