"""Traps that a file of somebody else may hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import example

from bench.base.install import find_data_folders
from bench.formats.agent_lookup import find_agent
from bench.formats.case import load_cases

YAML_TRAPS = [
    b"id: 2026-13-45", b"id: 0b_", b"id: 0x_", b"id: !!int x", b"id: !!int ''", b"id: !!float ''", b"id: !!bool x",
    b"id: !!timestamp x", b"id: " + b"1:" * 1000 + b"1.5", b"id: " + b"9" * 5000, b"id: &a [*a]", b"a: &a {<<: *a}",
    b"id: 2026-01-01T00:00:00+99:99", b'"a\\nb": 1', b'"\\x1b[2J": 1', b'"' + b"k" * 50_000 + b'": 1',
    b"\xef\xbb\xbfid: x",
    b"id: \x00", b"id: \xff", b"- " * 300, b"[" * 900_000, b"? [a]\n: 1", b"<<: 1", b"1: 1", b"a: &a [x]\nb: *a\n",
    b'"a\\nb": 1\n"a\\nb": 2',
]  # fmt: skip


JSON_TRAPS = [
    b"", b"null", b"NaN", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000, b'"\\ud800"', b"\xef\xbb\xbf{}", b"{}\x00",
    b"\xff\xfe{\x00}\x00", b'{"schema":1,"schema":1}', b'{"a\\nb":1}', b'{"' + b"k" * 50_000 + b'":1}', b"1e999",
]  # fmt: skip


def trapped(traps: list[bytes]) -> Callable[[Any], Any]:
    """Each of `traps` as an explicit example."""

    def add(test: Any) -> Any:
        for trap in traps:
            test = example(trap)(test)
        return test

    return add


_PLACES = find_data_folders()


_DIGESTS = {
    "agent_digest": find_agent("human", _PLACES.agents).digest,
    "case_digest": load_cases(_PLACES.cases, ["hello_world"])[0].digest,
}


PLAN: dict[str, Any] = {
    "schema": 1, "run": "r", "created": "2026-11-20T02:00:00Z", "suite": "smoke", "suite_version": "2026.11",
    "profile": "mini", "sandbox": "process", "cells": [{
        "cell": "human/none/hello_world/mini/1", "agent": "human", "models": {}, "case": "hello_world", "trial": 1,
        **_DIGESTS}],
}  # fmt: skip
