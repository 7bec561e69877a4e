"""What a provider would fetch is refused wherever it stands; the agent's own data passes, whatever it is called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import UserError
from bench.gateway.backends.readiness import check_model
from bench.gateway.launch import open_gateway
from bench.gateway.request import Dialect, RequestRefused
from tests.helpers.gateway import Json, spec_in
from tests.helpers.policy import SAID, passed

FAR = "https://example.com/x.png"
PIXEL = "data:image/png;base64,iVBORw0KGgo="
ADDRESSES = [
    FAR, "http://10.0.0.1/x", "//example.com/x.png", "file:///etc/passwd", "gs://b/x", "s3://b/x", " data:x", "DATA:x",
    "example.com/x.png", "ht\ntps://example.com", "\\\\host\\share", "",
]  # fmt: skip


def said(*parts: Any, role: str = "user") -> Json:
    return {"role": role, "content": list(parts)}


def _image_url(address: str) -> Json:
    return {"type": "image_url", "image_url": {"url": address}}


def _in_google(*parts: Any) -> Json:
    return {"contents": [{"role": "user", "parts": list(parts)}]}


def _nested(levels: int) -> Json:
    part: Json = {"file_data": {"file_uri": FAR}}
    for _ in range(levels):
        part = {"function_response": {"name": "f", "response": {}, "parts": [part]}}
    return part


URL_SOURCE = {"type": "url", "url": FAR}
FETCHED: list[tuple[str, Dialect, Json]] = [
    # Chat completions.
    ("image_url.url", "chat", {"messages": [{"role": "user", "content": _image_url(FAR)}]}),
    ("image_url", "chat", {"messages": [said({"type": "image_url", "image_url": FAR})]}),
    ("image_url", "chat", {"messages": [said({"type": "image_url", "image_url": [FAR]})]}),
    ("image_url.url", "chat", {"messages": [said([[_image_url(FAR)]])]}),
    ("image_url.url", "chat", {"messages": [said({"type": "text", "text": "x", "more": {"deeper": _image_url(FAR)}})]}),
    ("image_url.url", "chat", {"messages": [SAID, {"role": "tool", "content": [_image_url(FAR)]}]}),
    ("image_url", "chat", {"messages": [{"role": "system", "content": {"type": "image_url", "image_url": FAR}}]}),
    ("image_url", "chat", {"messages": [{"role": "user", "content": "x", "image_url": FAR}]}),
    ("video_url.url", "chat", {"messages": [said({"type": "video_url", "video_url": {"url": FAR}})]}),
    ("link", "chat", {"messages": [said({"type": "audio_url", "audio_url": {"link": FAR}})]}),
    ("document_url", "chat", {"messages": [said({"type": "document_url", "document_url": FAR})]}),
    ("imageUrl", "chat", {"messages": [said({"type": "image", "imageUrl": "//x/y.png"})]}),
    ("video", "chat", {"messages": [said({"type": "video", "video": [FAR, FAR]})]}),
    ("image", "chat", {"messages": [said({"image": FAR})]}),
    ("data", "chat", {"messages": [said({"type": "input_audio", "input_audio": {"data": FAR, "format": "mp3"}})]}),
    ("input_audio", "chat", {"messages": [said({"type": "input_audio", "input_audio": FAR})]}),
    ("file_data", "chat", {"messages": [said({"type": "file", "file": {"filename": "x", "file_data": FAR}})]}),
    ("file_id", "chat", {"messages": [said({"type": "file", "file": {"file_id": "f", "file_data": PIXEL}})]}),
    ("file", "chat", {"messages": [said({"type": "file", "file": {"filename": "x.pdf"}})]}),
    ("audio", "chat", {"messages": [SAID, {"role": "assistant", "audio": {"id": "audio_1"}}]}),
    ("tools", "chat", {"messages": [{"role": "system", "content": "x", "tools": [{"type": "web_search"}]}]}),
    ("documents.url", "chat", {"documents": [{"title": "t", "url": FAR}]}),
    # Responses.
    ("image_url", "responses", {"input": [{"role": "user", "content": {"type": "input_image", "image_url": FAR}}]}),
    ("image_url", "responses", {"input": [
        {"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": FAR}}]}),
    ("file_id", "responses", {"input": [
        {"type": "computer_call_output", "call_id": "1", "output": {"type": "computer_screenshot", "file_id": "f"}}]}),
    ("file_url", "responses", {"input": [
        {"type": "function_call_output", "call_id": "1", "output": {"type": "input_file", "file_url": FAR}}]}),
    ("file_url", "responses", {"input": [
        {"type": "custom_tool_call_output", "call_id": "1", "output": [[{"type": "input_file", "file_url": FAR}]]}]}),
    ("file_id", "responses", {"input": [said({"type": "input_image", "file_id": "file_1"})]}),
    ("file_data", "responses", {"input": [said({"type": "input_file", "file_data": FAR})]}),
    ("item_reference", "responses", {"input": [SAID, {"type": "item_reference", "id": "msg_1"}]}),
    ("item_reference", "responses", {"input": [SAID, {"id": "msg_1"}]}),
    ("item_reference", "responses", {"input": [SAID, {"type": None, "id": "msg_1"}]}),
    ("item_reference", "responses", {"input": [SAID, {"type": "", "role": "", "id": "msg_1", "content": []}]}),
    ("item_reference", "responses", {"input": [SAID, {"type": "message", "role": "assistant", "id": "msg_1"}]}),
    ("Item_Reference", "responses", {"input": [SAID, {"type": "Item_Reference", "id": "msg_1", "x": 1}]}),
    ("fallback_url", "chat", {"messages": [said({"image_url": {"url": PIXEL, "fallback_url": FAR}})]}),
    ("format", "chat", {"messages": [said({"type": "image_url", "image_url": {"url": PIXEL, "format": FAR}})]}),
    ("image_url.url", "chat", {"messages": [said({"type": "text", "text": _image_url(FAR)})]}),
    ("data", "messages", {"messages": [said({"type": "image", "source": {"type": "base64", "data": FAR}})]}),
    ("fileId", "responses", {"input": [said({"type": "input_text", "text": "x", "attachments": [{"fileId": "f"}]})]}),
    ("server_url", "responses", {"input": [{"type": "tool_search_output", "tools": [
        {"type": "function", "name": "x", "server_url": FAR}]}]}),
    ("definition", "messages", {"messages": [said({"type": "compaction", "content": "x", "tool_changes": [
        {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": [{"type": "advisor"}]}}]})]}),
    ("mcp_list_tools", "responses", {"input": [{"type": "mcp_list_tools", "server_label": "x", "tools": []}]}),
    ("mcp_approval_response", "responses", {"input": [{"type": "mcp_approval_response", "approve": True}]}),
    ("mcp_approval_request", "responses", {"input": [{"type": "mcp_approval_request", "arguments": "{}"}]}),
    ("mcp_call", "responses", {"input": [{"type": "mcp_call", "name": "x", "arguments": "{}"}]}),
    ("compaction_trigger", "responses", {"input": [SAID, {"type": "compaction_trigger"}]}),
    ("image_generation_call", "responses", {"input": [SAID, {"type": "image_generation_call", "id": "ig_1"}]}),
    ("program", "responses", {"input": [SAID, {"type": "program", "code": "fetch()"}]}),
    ("container_id", "responses", {"input": [{"type": "code_interpreter_call", "container_id": "c", "code": "1"}]}),
    ("tools", "responses", {"input": [{"type": "additional_tools", "role": "developer", "tools": [{"type": "mcp"}]}]}),
    ("tools", "responses", {"input": [{"type": "tool_search_output", "tools": {"type": "mcp"}}]}),
    ("tools", "responses", {"input": [{"type": "additional_tools", "tools": "mcp"}]}),
    ("action.url", "responses", {"input": [{"type": "web_search_call", "action": {"type": "open_page", "url": FAR}}]}),
    ("image_url", "responses", {"instructions": [said({"type": "input_image", "image_url": FAR})]}),
    # Messages.
    ("source.url", "messages", {"messages": [{"role": "user", "content": {"type": "image", "source": URL_SOURCE}}]}),
    ("source.url", "messages", {"messages": [said({"type": "document", "source": URL_SOURCE})]}),
    ("source.URL", "messages", {"messages": [said({"type": "image", "source": {"type": "URL", "at": FAR}})]}),
    ("source.None", "messages", {"messages": [said({"type": "image", "source": {"url": FAR}})]}),
    ("source", "messages", {"messages": [said({"type": "image", "source": FAR})]}),
    ("source.file", "messages", {"messages": [said({"type": "document", "source": {"type": "file"}})]}),
    ("source.url", "messages", {"messages": [said({"type": "document", "source": {
        "type": "content", "content": [{"type": "image", "source": URL_SOURCE}]}})]}),
    ("source.url", "messages", {"messages": [said({"type": "tool_result", "tool_use_id": "1", "content": [
        {"type": "document", "source": {"type": "content", "content": {"type": "image", "source": URL_SOURCE}}}]})]}),
    ("source.url", "messages", {"messages": [
        said({"type": "tool_result", "tool_use_id": "1", "content": {"type": "image", "source": URL_SOURCE}})]}),
    ("source.url", "messages", {"messages": [said({"type": "search_result", "source": "s", "title": "t", "content": [
        {"type": "image", "source": URL_SOURCE}]})]}),
    ("source.url", "messages", {"system": [{"type": "image", "source": URL_SOURCE}]}),
    ("server_tool_use", "messages", {"messages": [SAID, said(
        {"type": "server_tool_use", "id": "1", "name": "web_fetch", "input": {"url": FAR}}, role="assistant")]}),
    ("container_upload", "messages", {"messages": [said({"type": "container_upload", "file_id": "f"})]}),
    ("mcp_tool_use", "messages", {"messages": [said({"type": "mcp_tool_use", "input": {}}, role="assistant")]}),
    ("mcp_toolset_reference", "messages", {"messages": [
        {"role": "system", "content": [{"type": "tool_addition", "tool": {"type": "mcp_toolset_reference"}}]}]}),
    ("definition", "messages", {"messages": [{"role": "system", "content": [{"type": "tool_addition", "tool": {
        "type": "tool_definition", "definition": {"type": "web_fetch_20250910", "name": "web_fetch"}}}]}]}),
    ("content.url", "messages", {"messages": [said({"type": "web_fetch_tool_result", "content": {"url": FAR}})]}),
    ("source.url", "count_tokens", {"messages": [said({"type": "image", "source": URL_SOURCE})]}),
    # Embeddings, and Google.
    ("image", "embeddings", {"input": [{"image": FAR}]}),
    ("input.url", "embeddings", {"input": [{"url": FAR}]}),
    ("fileData", "generate", _in_google({"fileData": {"fileUri": FAR}})),
    ("fileData", "generate", _in_google({"file_data": {"file_uri": FAR}})),
    ("fileData", "generate", _in_google(_nested(1))),
    ("fileData", "generate", _in_google(_nested(12))),
    ("fileData", "generate", {"system_instruction": {"parts": {"file_data": {"mime_type": "x"}}}}),
    ("data", "generate", _in_google({"inlineData": {"mimeType": "image/png", "data": FAR}})),
    ("fileData", "generate", _in_google({"toolResponse": {"response": {"parts": [{"fileData": {"fileUri": FAR}}]}}})),
    ("mcpServers", "generate", {"tools": [{"functionDeclarations": [{"name": "a", "mcpServers": [FAR]}]}]}),
    ("fileData", "count_generate", _in_google({"fileData": {"fileUri": FAR}})),
]  # fmt: skip


@pytest.mark.parametrize(("field", "dialect", "fields"), FETCHED)
def test_what_would_be_fetched_is_refused_wherever_it_stands(field: str, dialect: Dialect, fields: Json) -> None:
    with pytest.raises(RequestRefused, match="not let through") as refused:
        passed(dialect, **fields)
    assert f"`{field}`" in str(refused.value)
    assert refused.value.code == "not_allowed"
    assert passed(dialect, hosted=True, **fields).removed == [], "a case with network may"


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_is_of_the_kind_data(address: str) -> None:
    asked: list[tuple[Dialect, Json]] = [
        ("chat", {"messages": [said(_image_url(address))]}),
        ("responses", {"input": [said({"type": "input_image", "image_url": address})]}),
        ("responses", {"input": [said({"type": "input_file", "file_url": address})]}),
    ]
    for dialect, fields in asked:
        with pytest.raises(RequestRefused, match="not let through"):
            passed(dialect, **fields)


PROPERTIES: Json = {
    "type": "object",
    "properties": {
        "image_url": {"type": "string", "default": FAR}, "file_id": {"type": "string", "const": "f"},
        "source": {"type": "url", "url": FAR}, "tools": {"type": "array"}, "url": {"enum": [FAR]}, "file": {},
    },
}  # fmt: skip
DATA: Json = {
    "image_url": FAR, "file_id": "f", "url": FAR, "source": URL_SOURCE, "tools": [{"type": "mcp"}], "file": {"x": 1},
    "type": "item_reference", "steps": [{"file_url": FAR, "mcp_servers": [FAR]}],
}  # fmt: skip
WORDS = f"{FAR} is where it was"
OWN: list[tuple[Dialect, Json]] = [
    ("chat", {"tools": [{"type": "function", "function": {"name": "o", "parameters": PROPERTIES}}]}),
    ("chat", {"functions": [{"name": "open", "parameters": PROPERTIES}]}),
    ("chat", {"metadata": {"image_url": FAR, "file_id": "f"}}),
    ("chat", {"messages": [SAID, {"role": "assistant", "content": None, "audio": None, "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "open", "arguments": f'{{"u": "{FAR}"}}'}}]},
        {"role": "tool", "tool_call_id": "1", "content": f'{{"file_id": "f", "image_url": "{FAR}"}}'}]}),
    ("chat", {"messages": [SAID, {"role": "assistant", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "open", "arguments": DATA}}]}]}),
    ("chat", {"messages": [{"role": "user", "content": WORDS}, {"role": "assistant", "content": [
        {"type": "text", "text": WORDS}], "annotations": [{"type": "url_citation", "url_citation": {"url": FAR}}],
        "reasoning_content": WORDS, "refusal": None}]}),
    ("chat", {"messages": [said(_image_url(PIXEL), {"type": "file", "file": {"file_data": PIXEL, "filename": "x"}},
                                {"type": "input_audio", "input_audio": {"data": "//uQxAAA", "format": "mp3"}})]}),
    ("chat", {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": PROPERTIES}}}),
    ("chat", {"guided_json": PROPERTIES, "chat_template_kwargs": DATA}),
    ("responses", {"tools": [{"type": "function", "name": "open", "parameters": PROPERTIES}]}),
    ("responses", {"tools": [{"type": "namespace", "name": "n", "tools": [
        {"type": "function", "name": "open", "parameters": PROPERTIES}]}]}),
    ("responses", {"input": WORDS, "instructions": FAR}),
    ("responses", {"input": [SAID, {"type": "function_call", "call_id": "1", "name": "o", "arguments": f'"{FAR}"'},
                             {"type": "function_call_output", "call_id": "1", "output": FAR}]}),
    ("responses", {"input": [
        {"type": "custom_tool_call", "call_id": "1", "name": "o", "input": FAR},
        {"type": "custom_tool_call_output", "call_id": "1", "output": [{"type": "input_text", "text": FAR}]},
        {"type": "tool_search_call", "call_id": "2", "execution": "client", "arguments": DATA},
        {"type": "tool_search_output", "call_id": "2", "tools": [
            {"type": "function", "name": "open", "parameters": PROPERTIES}]},
        {"type": "local_shell_call", "call_id": "3", "action": {"type": "exec", "command": ["curl", FAR], "env": DATA}},
        {"type": "local_shell_call_output", "id": "3", "output": FAR},
        {"type": "shell_call", "call_id": "4", "action": {"commands": [f"curl {FAR}"], "url": FAR}},
        {"type": "shell_call_output", "call_id": "4", "output": [{"stdout": FAR, "stderr": FAR}]},
        {"type": "apply_patch_call", "call_id": "5", "operation": {"type": "create_file", "path": FAR, "diff": FAR}},
        {"type": "computer_call", "call_id": "6", "action": {"type": "type", "text": FAR, "url": FAR}},
        {"type": "computer_call_output", "call_id": "6", "current_url": FAR,
         "output": {"type": "computer_screenshot", "image_url": PIXEL, "file_id": None}},
        {"type": "message", "role": "assistant", "id": "msg_1", "content": [{"type": "output_text", "text": FAR,
         "annotations": [{"type": "url_citation", "url": FAR}, {"type": "file_citation", "file_id": "f"}]}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": FAR}],
         "encrypted_content": "gAAA"},
        said({"type": "input_image", "image_url": PIXEL, "file_id": None, "detail": "auto"},
             {"type": "input_file", "file_data": PIXEL, "filename": "https.pdf"}),
    ]}),
    ("messages", {"tools": [{"name": "open", "input_schema": PROPERTIES, "input_examples": [DATA]}]}),
    ("messages", {"system": [{"type": "text", "text": WORDS, "cache_control": {"type": "ephemeral"}}]}),
    ("messages", {"messages": [
        said({"type": "text", "text": FAR}, {"type": "tool_use", "id": "1", "name": "open", "input": DATA},
             {"type": "thinking", "thinking": FAR, "signature": "x"}, role="assistant"),
        said({"type": "tool_result", "tool_use_id": "1", "content": [
            {"type": "text", "text": FAR}, {"type": "image", "source": {"type": "base64", "data": "iVBOR"}}]}),
        said({"type": "tool_result", "tool_use_id": "1", "content": WORDS}),
        said({"type": "document", "title": FAR, "source": {"type": "text", "media_type": "text/plain", "data": WORDS}},
             {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBER"}},
             {"type": "document", "source": {"type": "content", "content": WORDS}},
             {"type": "search_result", "source": FAR, "title": "t", "content": [{"type": "text", "text": FAR}]}),
        said({"type": "text", "text": "x", "citations": [{"type": "web_search_result_location", "url": FAR}]},
             {"type": "server_tool_use", "id": "2", "name": "tool_search_tool_regex", "input": {"query": FAR}},
             {"type": "tool_search_tool_result", "tool_use_id": "2", "content": {"tool_references": []}},
             role="assistant"),
        said({"type": "tool_result", "tool_use_id": "1", "content": [
            {"type": "browser_state", "tabs": [{"tab_id": "1", "title": "t", "url": FAR}]}]}),
    ]}),
    ("embeddings", {"input": [FAR]}), ("embeddings", {"input": FAR}), ("embeddings", {"input": [[1, 2, 3]]}),
    ("generate", {"tools": [{"functionDeclarations": [{"name": "open", "parameters": PROPERTIES}]}]}),
    ("generate", _in_google(
        {"text": WORDS}, {"functionCall": {"name": "open", "args": DATA}, "thoughtSignature": "x"},
        {"functionResponse": {"name": "open", "response": {**DATA, "file_data": {"file_uri": FAR}}}},
        {"inlineData": {"mimeType": "image/png", "data": "iVBOR"}})),
    ("generate", {"generationConfig": {"responseJsonSchema": PROPERTIES, "responseMimeType": "application/json"}}),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "fields"), OWN)
def test_the_agents_own_data_passes_whatever_it_is_called(dialect: Dialect, fields: Json) -> None:
    call = passed(dialect, **fields)
    assert {name: call.data[name] for name in fields} == fields
    assert (call.stripped, call.removed) == ([], [])


def test_no_gateway_opens_on_a_model_that_searches_where_a_case_has_no_network(tmp_path: Path) -> None:
    """Also with a price of one's own, and before the run as well."""
    model, prices = "openai/gpt-4o-search-preview", tmp_path / "own.json"
    prices.write_text(json.dumps({"schema": 1, "version": "x", "models": {model: {"input": 1, "output": 1}}}))
    environment = {"OPENAI_API_KEY": "sk-fake-0123456789abcdef"}
    spec = spec_in(tmp_path, models={"main": model}, own_prices=prices, environment=environment, cassettes=None)
    with pytest.raises(UserError, match="searches the web by itself"), open_gateway(spec):
        pytest.fail("it was opened")
    facts: Any = {
        "cassettes": None,
        "own_prices": prices,
        "max_cost_usd": 1.0,
        "environment": environment,
        "ask": False,
    }
    check_model(model, "main", "demo_case", network=True, **facts)
    with pytest.raises(UserError, match="searches the web by itself"):
        check_model(model, "main", "demo_case", network=False, **facts)
