"""Requests of every protocol, to be made worse."""

from __future__ import annotations

from typing import Any

_TOOL = {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}


CHAT: dict[str, Any] = {
    "model": "bench-main", "max_tokens": 10, "temperature": 0.5, "tools": [_TOOL], "tool_choice": "auto", "n": 1,
    "stream": True, "stream_options": {"include_usage": True}, "service_tier": "auto", "modalities": ["text"],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image_url",
        "image_url": {"url": "data:x"}}]},
        {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "r",
        "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "done"},
    ],
}  # fmt: skip


RESPONSES: dict[str, Any] = {
    "model": "bench-main", "max_output_tokens": 10, "instructions": "x", "tools": [{"type": "function", "name": "run"}],
    "stream": False, "background": False, "previous_response_id": None, "tool_choice": {"type": "function",
    "name": "run"},
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]},
        {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_text", "text": "x"}]},
        {"role": "user", "content": [{"type": "input_file", "file": {"file_data": "x"}, "source": {"type": "base64"}}]},
    ],
}  # fmt: skip


MESSAGES: dict[str, Any] = {
    "model": "bench-main", "max_tokens": 10, "system": [{"type": "text", "text": "x"}], "stream": True,
    "tools": [{"type": "bash_20250124", "name": "bash"}, {"name": "run", "input_schema": {}}],
    "metadata": {"user_id": "x"},
    "messages": [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "run", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text"}]}]},
    ],
}  # fmt: skip


EMBEDDINGS: dict[str, Any] = {"model": "bench-main", "input": ["x"], "n": None, "dimensions": 3}


GENERATE: dict[str, Any] = {
    "systemInstruction": {"parts": [{"text": "x"}]}, "tools": [{"functionDeclarations": [{"name": "run"}]}],
    "generationConfig": {"maxOutputTokens": 10, "candidateCount": 1, "thinkingConfig": {"thinkingLevel": "LOW"},
                         "responseModalities": ["TEXT"], "responseSchema": {"type": "OBJECT"}},
    "tool_config": {"function_calling_config": {"mode": "ANY"}},
    "contents": [
        {"role": "user", "parts": [{"text": "x"}, {"inline_data": {"mime_type": "image/png", "data": "x"}}]},
        {"role": "model", "parts": [{"text": "y", "thought": True}, {"functionCall": {"name": "run", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "run", "response": {"output": "x"}, "parts": []}}]},
    ],
}  # fmt: skip
GENERATE_ROUTE, COUNT_ROUTE = "/models/bench-main:generateContent", "/models/bench-main:countTokens"
STREAM_ROUTE = "/models/bench-main:streamGenerateContent?alt=sse"


BODIES = {
    "/chat/completions": CHAT, "/responses": RESPONSES, "/messages": MESSAGES, "/messages/count_tokens": MESSAGES,
    "/embeddings": EMBEDDINGS, GENERATE_ROUTE: GENERATE, COUNT_ROUTE: GENERATE,
}  # fmt: skip
