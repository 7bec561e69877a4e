"""Which fields of a request a provider may see: an allow-list per protocol, and what is refused by name.

What is on neither list is taken out and written down: a client with a harmless extra goes on, and what a provider
invents next does not slip in. `tests/gateway/test_known_fields.py` holds the lists to the installed clients.
"""

from __future__ import annotations

from bench.gateway.json_values import Json
from bench.gateway.request import Dialect, not_allowed


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SAMPLING = _names(
    "temperature top_p top_k min_p top_a typical_p tfs_z frequency_penalty presence_penalty repetition_penalty"
    " repeat_penalty repeat_last_n length_penalty seed random_seed do_sample dry_multiplier dry_base"
    " dry_allowed_length dry_penalty_last_n dry_sequence_breakers xtc_probability xtc_threshold dynatemp_range"
    " dynatemp_exponent mirostat mirostat_tau mirostat_eta samplers logit_bias logprobs top_logprobs prompt_logprobs"
    " logprob_token_ids allowed_token_ids bad_words stop stop_token_ids stop_regex no_stop_trim"
    " include_stop_str_in_output ignore_eos min_tokens skip_special_tokens spaces_between_special_tokens"
    " add_special_tokens add_generation_prompt continue_final_message truncate_prompt_tokens truncation_side"
    " prompt_truncate_len context_length_exceeded_behavior return_tokens_as_token_ids return_token_ids"
)
"""How the next token is drawn and where an answer ends, by the names of OpenAI's and of compatible servers (vLLM,
SGLang, llama.cpp, OpenRouter, Mistral, Fireworks, Z.ai)."""
_SHAPE = _names(
    "guided_json guided_regex guided_choice guided_grammar guided_decoding_backend guided_whitespace_pattern"
    " structured_outputs regex ebnf grammar json_schema chat_template_kwargs reasoning reasoning_effort"
    " reasoning_format reasoning_split include_reasoning separate_reasoning stream_reasoning thinking"
    " enable_thinking preserve_thinking thinking_budget thinking_token_budget verbosity prompt_mode safe_prompt"
)
"""What form an answer has, and how long is thought about it."""
_LABELS = _names(
    "metadata client_metadata user user_id safety_identifier session_id request_id cache_salt cache_control"
    " cache_prompt prompt_cache_key prompt_cache_options prompt_cache_retention prompt_cache_isolation_key"
    " transforms usage store"
)
"""Names for the request, and what is kept of its beginning; `transforms` shortens what is too long."""
_KNOWN: dict[Dialect, frozenset[str]] = {
    "chat": _SAMPLING | _SHAPE | _LABELS | _names(
        "messages model max_tokens max_completion_tokens n stream stream_options response_format tools tool_choice"
        " parallel_tool_calls functions function_call modalities service_tier documents tool_stream"
        " context_management background"
    ),
    "responses": _SAMPLING | _SHAPE | _LABELS | _names(
        "input model instructions include max_output_tokens max_tool_calls parallel_tool_calls previous_response_id"
        " stream stream_options text response_format tools tool_choice truncation image modalities service_tier"
        " context_management background"
    ),
    "messages": _SAMPLING | _SHAPE | _LABELS | _names(
        "messages model max_tokens system stop_sequences stream tools tool_choice output_config output_format"
        " service_tier speed context_management diagnostics anthropic_version"
    ),
    "embeddings": _names(
        "input model dimensions encoding_format user input_type task normalize normalized truncate truncation"
        " truncate_prompt_tokens add_special_tokens output_dimension output_dtype embedding_type embedding_types"
    ),
    "generate": _names(
        "model contents systemInstruction tools toolConfig safetySettings generationConfig labels serviceTier store"
    ),
}  # fmt: skip
_KNOWN["count_tokens"] = _KNOWN["messages"]
_KNOWN["count_generate"] = _KNOWN["generate"] | {"generateContentRequest"}

_SEARCHES = "the provider would read the web for it"
_ELSEWHERE = "which model answers, and where, is the run's choice"
_STORED = "what is stored there is not known; send the content itself"
_ACCOUNT = "whose account is asked, and by which rights, is the run's choice"
_SUMMARY = "the provider would have a model write a summary, which is billed beside the answer"
_REACHES = "the provider would reach out by itself"
_REFUSED: dict[str, str] = {
    **dict.fromkeys(
        ("web_search_options", "web_search", "search_parameters", "search_settings", "search_options", "enable_search",
         "compound_custom", "enable_code_interpreter"), _SEARCHES),
    **dict.fromkeys(
        ("plugins", "mcp_servers", "container", "connectors", "skills", "tool_resources", "kv_transfer_params",
         "ec_transfer_params", "bootstrap_host"), _REACHES),
    **dict.fromkeys(
        ("models", "route", "provider", "preset", "fallbacks", "fallback_credit_token", "inference_geo",
         "routingConfig", "modelSelectionConfig"), _ELSEWHERE),
    **dict.fromkeys(("prompt", "conversation", "thread", "continuationToken", "cachedContent"), _STORED),
    **dict.fromkeys(("billing_policy", "user_profile_id", "workspace_id", "access_programs"), _ACCOUNT),
    **dict.fromkeys(("compaction",), _SUMMARY),
    **dict.fromkeys(("deferred", "background_options"), "answers are taken while the cell lives"),
    "audio": "only text comes back",
    "prediction": "what the model does not take of it is billed beside the answer",
    "moderation": "the provider would ask another model",
    "generationOutputConfig": "the provider would write the answer elsewhere",
}  # fmt: skip
"""Fields of any protocol that are not let through -> why. Google's are spelled as in `google.one_spelling`."""
_DETAILS: dict[str, Json] = {"thread": {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}}
"""By which Anthropic's clients know that they can do without a field; their tool runner asks for a thread."""
_NOT_ASKED: tuple[object, ...] = (None, False, [])
"""Values by which nothing is asked for. An empty object is not one of them: `web_search_options: {}` searches."""

_REASONING = _names("effort summary generate_summary context mode max_tokens exclude enabled")
_THINKING = _names("type budget_tokens display block_binding clear_thinking enabled")
_STREAMING = frozenset(["include_usage", "include_obfuscation", "continuous_usage_stats"])
_CONFIG = _names(
    "stopSequences responseMimeType responseSchema responseJsonSchema _responseJsonSchema responseModalities"
    " candidateCount maxOutputTokens temperature topP topK seed presencePenalty frequencyPenalty responseLogprobs"
    " logprobs thinkingConfig mediaResolution enableEnhancedCivicAnswers"
)
_WITHIN: dict[str, frozenset[str]] = {
    "reasoning": _REASONING,
    "thinking": _THINKING,
    "stream_options": _STREAMING,
    "text": frozenset({"format", "verbosity"}),
    "output_config": frozenset({"effort", "format", "task_budget"}),
    "prompt_cache_options": frozenset({"mode", "ttl", "prewarm"}),
    "diagnostics": frozenset({"previous_message_id"}),
    "context_management": frozenset({"edits"}),
    "image": frozenset({"context_compression"}),
    "usage": frozenset({"include"}),
    "generationConfig": _CONFIG,
    "toolConfig": frozenset({"functionCallingConfig"}),
}
"""Fields in which providers put further options -> those that are known."""
_INCLUDED = _names(
    "web_search_call.action.sources web_search_call.results code_interpreter_call.outputs file_search_call.results"
    " computer_call_output.output.image_url message.input_image.image_url message.output_text.logprobs"
    " reasoning.encrypted_content"
)
_EDIT = _names("type clear_at_least clear_tool_inputs exclude_tools keep trigger")
_HARMLESS_EDITS = ("clear_tool_uses_", "clear_thinking_")
"""Of Anthropic's context management: what leaves things out, and asks no model for a summary."""


def known_fields(dialect: Dialect) -> frozenset[str]:
    """The fields of `dialect` that pass."""
    return _KNOWN[dialect]


def refused_fields() -> frozenset[str]:
    """The fields that are refused by name, whatever the protocol."""
    return frozenset(_REFUSED)


def keep_known(dialect: Dialect, data: Json) -> tuple[Json, list[str]]:
    """`data` without what nobody knows, and the names of that; raises `RequestRefused` for what is refused by name."""
    kept, removed = _keep(data, _KNOWN[dialect], "")
    kept, more = _without_summaries(kept)
    removed += more
    for name, known in _WITHIN.items():
        if isinstance(kept.get(name), dict):
            inner, more = _keep(kept[name], known, f"{name}.")
            kept = kept if inner is kept[name] else {**kept, name: inner}
            removed += more
    if dialect == "responses" and isinstance(kept.get("include"), list):
        asked = [(it, isinstance(it, str) and it in _INCLUDED) for it in kept["include"]]
        if strange := [it for it, known in asked if not known]:
            kept = {**kept, "include": [it for it, known in asked if known]}
            removed += [f"include.{it}" for it in strange]
    return kept, [name[:60] for name in removed]


def _keep(data: Json, known: frozenset[str], within: str) -> tuple[Json, list[str]]:
    others = data.keys() - known
    if not others:
        return data, []
    for name in sorted(others & _REFUSED.keys()):
        if data[name] not in _NOT_ASKED:
            refused = not_allowed(f"{within}{name}", _REFUSED[name])
            refused.details = _DETAILS.get(name)
            raise refused
    removed = [f"{within}{name}" for name in data if name in others and data[name] is not None]
    return {name: value for name, value in data.items() if name in known}, removed


def _without_summaries(data: Json) -> tuple[Json, list[str]]:
    """Context may be cleared, never summarised; and what was taken out of how it is to be cleared."""
    asked = data.get("context_management")
    edits = asked.get("edits") if isinstance(asked, dict) else asked
    kept, removed = [], []
    for edit in edits if isinstance(edits, list) else [edits]:
        kind = edit.get("type") if isinstance(edit, dict) else edit
        if kind is not None and not (isinstance(kind, str) and kind.startswith(_HARMLESS_EDITS)):
            raise not_allowed("context_management", _SUMMARY)
        inner, more = _keep(edit, _EDIT, "context_management.edits.") if isinstance(edit, dict) else (edit, [])
        kept.append(inner)
        removed += more
    if not removed:
        return data, []
    cleared = {**asked, "edits": kept} if isinstance(asked, dict) else kept
    return {**data, "context_management": cleared}, removed
