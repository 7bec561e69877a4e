"""What clients do at the level of HTTP, and what they are told where something is not offered."""

from __future__ import annotations

import gzip
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.helpers.gateway_live import ALL_MODELS, NO_TLS, Live, live, request
from tests.helpers.provider import Reply, ScriptedUpstream


@pytest.fixture
def through(tmp_path: Path) -> Iterator[Live]:
    with ScriptedUpstream([Reply("hello")] * 9) as upstream, live(tmp_path, upstream, models=ALL_MODELS) as found:
        yield found


@pytest.mark.parametrize(("path", "status"), [("/", 404), ("/v1/models", 200), ("/v1/messages", 405)])
def test_a_look_at_the_head_alone_is_answered_and_leaves_the_connection_usable(
    through: Live, path: str, status: int
) -> None:
    """Some clients open their connection with it before the first call."""
    host = through.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=30)
    connection.request("HEAD", path, headers=through.headers)
    looked = connection.getresponse()
    assert (looked.status, looked.read()) == (status, b"")
    kept = connection.sock
    connection.request("POST", "/v1/chat/completions", json.dumps(request("chat")), headers=through.headers)
    assert connection.getresponse().status == 200
    assert connection.sock is kept


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_a_compressed_request_is_told_that_it_is_one(through: Live, coding: str) -> None:
    body = gzip.compress(json.dumps(request("messages")).encode())
    heard = httpx.post(
        f"{through.url}/v1/messages",
        content=body,
        headers={**through.headers, "Content-Encoding": coding},
        verify=NO_TLS,
    )
    error = heard.json()["error"]
    assert (heard.status_code, error["code"]) == (415, "unsupported_encoding")
    assert f"compressed as '{coding}'" in error["message"]
    assert through.lines == []


def test_the_key_counts_wherever_it_stands(through: Live) -> None:
    """Anthropic's client sends both of its variables, and one of them may be of another account."""
    headers = {"Authorization": "Bearer sk-of-another-account", "X-Api-Key": through.gateway.key}
    url, body = f"{through.url}/v1/chat/completions", request("chat")
    assert httpx.post(url, json=body, headers=headers, verify=NO_TLS).status_code == 200
    headers["X-Api-Key"] = "another one"
    assert httpx.post(url, json=body, headers=headers, verify=NO_TLS).status_code == 401


@pytest.mark.parametrize("name", ["openai/scripted", "openai%2Fscripted"])
def test_a_model_is_found_by_the_name_that_clients_write_in_a_path(through: Live, name: str) -> None:
    heard = httpx.get(f"{through.url}/v1/models/{name}", headers=through.headers, verify=NO_TLS)
    assert (heard.status_code, heard.json()["id"]) == (200, "openai/scripted")


@pytest.mark.parametrize(
    "path", ["/v1beta/models/bench-gemini:embedContent", "/v1/models/bench-gemini:batchEmbedContents"]
)
def test_what_is_not_offered_is_told_by_name(through: Live, path: str) -> None:
    headers = {"x-goog-api-key": through.gateway.key}
    heard = httpx.post(through.url + path, json={"content": {}}, headers=headers, verify=NO_TLS)
    error: dict[str, Any] = heard.json()["error"]
    assert (heard.status_code, error["code"], error["status"]) == (404, 404, "NOT_FOUND"), "as Google's clients read it"
    assert error["message"].startswith(f"'{path}' is not served here")


def test_anthropics_client_is_told_in_its_own_form(through: Live) -> None:
    headers = {**through.headers, "anthropic-version": "2023-06-01"}
    heard = httpx.post(f"{through.url}/v1/messages/batches", json={}, headers=headers, verify=NO_TLS)
    assert (heard.status_code, heard.json()["type"], heard.json()["error"]["type"]) == (404, "error", "not_found")
