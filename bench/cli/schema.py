"""`ml-dev-bench schema`."""

from __future__ import annotations

import importlib
import json
from typing import Any

import click

FORMATS = {
    "agent": ("bench.formats.agent", "AgentSpec"),
    "case": ("bench.formats.case", "CaseSpec"),
    "cassette": ("bench.gateway.backends.replay", "Cassette"),
    "decision": ("bench.store.decisions", "Decision"),
    "manifest": ("bench.store.bundle", "Manifest"),
    "record": ("bench.formats.record", "Record"),
    "run": ("bench.formats.plan", "RunPlan"),
    "shards": ("bench.store.collect", "Shards"),
    "suite": ("bench.formats.suite", "Suite"),
}


@click.command()
@click.argument("name", type=click.Choice(sorted(FORMATS)))
def schema(name: str) -> None:
    """Print the JSON Schema of a file format."""

    click.echo(json.dumps(json_schema(name), indent=1))


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of format `name`."""
    module, model = FORMATS[name]
    document: dict[str, Any] = getattr(importlib.import_module(module), model).model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **document}
