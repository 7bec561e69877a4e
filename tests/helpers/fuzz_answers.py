"""Answers of every protocol, to be made worse."""

from __future__ import annotations

from typing import Any

ANSWERS: dict[str, Any] = {
    "/chat/completions": {
        "id": "c1", "object": "chat.completion", "model": "gpt-4o", "choices": [{
            "index": 0, "finish_reason": "tool_calls", "message": {
                "role": "assistant", "content": "x", "reasoning_content": "y",
                "tool_calls": [{"id": "1", "type": "function", "function": {"name": "run",
                "arguments": "{\"a\": 1}"}}]}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}},
    "/responses": {
        "id": "r1", "model": "gpt-5", "status": "completed", "output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "y"}]},
            {"type": "message", "content": [{"type": "output_text", "text": "x"}]},
            {"type": "function_call", "call_id": "1", "name": "run", "arguments": "{}"},
            {"type": "local_shell_call", "call_id": "2", "action": {"type": "exec"}}],
        "usage": {"input_tokens": 3, "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 1}}},
    "/messages": {
        "id": "m1", "type": "message", "model": "claude", "stop_reason": "end_turn", "content": [
            {"type": "text", "text": "x"}, {"type": "thinking", "thinking": "y"},
            {"type": "tool_use", "id": "1", "name": "run", "input": {"a": [1]}}],
        "usage": {"input_tokens": 3, "output_tokens": 2, "cache_creation": {"ephemeral_1h_input_tokens": 0}}},
    "/messages/count_tokens": {"input_tokens": 3},
    "/models/bench-main:generateContent": {
        "candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [
            {"text": "y", "thought": True}, {"text": "x"},
            {"functionCall": {"id": "1", "name": "run", "args": {"a": [1]}}}]}}],
        "modelVersion": "gemini", "responseId": "g1",
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 1, "thoughtsTokenCount": 1}},
    "/models/bench-main:countTokens": {"totalTokens": 3},
    "/embeddings": {"data": [{"embedding": [0.1]}], "model": "e", "usage": {"prompt_tokens": 3}},
}  # fmt: skip
