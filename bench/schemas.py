"""The exported JSON Schemas of every file that people or other programs write or read."""

from __future__ import annotations

import importlib
from typing import Any

FORMATS = {
    "agent": ("bench.agent", "AgentSpec"),
    "case": ("bench.case", "CaseSpec"),
    "cassette": ("bench.gateway.cassette", "Cassette"),
    "decision": ("bench.store.decisions", "Decision"),
    "manifest": ("bench.store.manifest", "Manifest"),
    "record": ("bench.record", "Record"),
    "run": ("bench.rundir", "RunPlan"),
    "shards": ("bench.store.admission", "Shards"),
    "suite": ("bench.suite", "Suite"),
}


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of format `name`."""
    module, model = FORMATS[name]
    document: dict[str, Any] = getattr(importlib.import_module(module), model).model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **document}
