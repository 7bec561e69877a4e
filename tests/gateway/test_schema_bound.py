"""Schemas whose references name each other: none is written out that becomes much larger than it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.gateway.json_values import Json
from bench.gateway.schema_bound import can_be_written_out
from tests.helpers.gateway_live import live
from tests.helpers.provider import Reply, ScriptedUpstream


def doubling(depth: int, key: str = "$defs") -> Json:
    """A schema of `depth` definitions, of which each names the next one twice."""
    below: dict[str, Any] = {
        f"d{n}": {"properties": {side: {"$ref": f"#/{key}/d{n + 1}"} for side in "ab"}} for n in range(depth)
    }
    return {
        "type": "object",
        "properties": {"x": {"$ref": f"#/{key}/d0"}},
        key: {**below, f"d{depth}": {"type": "null"}},
    }


def all_of_all(count: int) -> Json:
    """Definitions that each name all others: no chain of them closes before it has met every one."""
    every = [{"$ref": f"#/$defs/d{n}"} for n in range(count)]
    return {"anyOf": every, "$defs": {f"d{n}": {"anyOf": every} for n in range(count)}}


@pytest.mark.parametrize(
    "schema",
    [
        doubling(40),
        doubling(40, "definitions"),
        doubling(40, "schemas"),
        {"items": [doubling(40)]},
        all_of_all(12),
        {"items": [{"$ref": "a"}] * 3000, "$defs": {"a": {"description": "x" * 1000}}},
        {"$ref": "d0", "$defs": {f"d{n}": {"items": {"$ref": f"d{n + 1}"}} for n in range(3000)}},
    ],
    ids=["doubling", "older", "of an API", "deep", "all of all", "long texts", "a long chain"],
)
def test_what_grows_without_bound_is_not_written_out(schema: Json) -> None:
    assert not can_be_written_out([schema])


@pytest.mark.parametrize(
    "schema",
    [
        {},
        doubling(8),
        {"$ref": "#/$defs/node", "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}}},
        {"$ref": 5, "$defs": [1], "definitions": {"a": None}},
        {"items": ["x" * 1000] * 10_000},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
    ],
    ids=["nothing", "a few", "a list of nodes", "odd", "large without references", "elsewhere"],
)
def test_schemas_as_clients_write_them_pass(schema: Json) -> None:
    assert can_be_written_out([schema])


def test_a_request_with_such_a_schema_goes_to_no_library_and_loses_no_gateway(tmp_path: Path) -> None:
    """It took hours and all memory; a gateway that does not answer any more makes its cell `infra`."""
    tool: Json = {"type": "function", "function": {"name": "f", "parameters": doubling(40)}}
    with (
        ScriptedUpstream(lambda body, protocol: Reply("hello")) as upstream,
        live(tmp_path, upstream) as through,
    ):
        refused = through.post("chat", model="bench-claude", tools=[tool])
        assert refused.status_code == 400
        assert "with their references replaced" in refused.text
        assert through.post("chat", model="bench-claude").status_code == 200
        assert not through.gateway.state().error
    assert len(upstream.requests) == 1
