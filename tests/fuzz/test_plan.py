"""Experiments, plans, ledgers and kept bundles of somebody else are valid models or one clear error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.base.errors import UserError
from bench.base.files import sha256_bytes
from bench.formats.plan import read_plan_file
from bench.plan.experiment import Experiment, load_experiment
from bench.store.bundle import line_of
from bench.store.collect import read_plan_checks
from bench.store.decisions import Decision, parse_decisions
from bench.store.pending import load_pending, save_pending
from tests.helpers.fuzz import Tally, as_json, fuzzed, json_bytes, yaml_bytes
from tests.helpers.fuzz_files import JSON_TRAPS, PLAN, YAML_TRAPS, trapped
from tests.helpers.store import bundle_of

EXPERIMENT = {
    "schema": 1, "name": "nightly", "suites": ["mini"], "agents": ["react", "./mine/agent.yaml"],
    "models": ["openai/gpt-5-mini"], "settings": {"MAX_STEPS": ["10", "20"]}, "profiles": ["mini"], "trials": 3,
    "mode": "rotating", "period_days": 7, "machines": [{"name": "gpu", "labels": ["gpu"], "gpus": 1, "count": 4}],
    "budget": {"usd": 100.0},
}  # fmt: skip
PLAN_FILE: dict[str, Any] = {
    "schema": 1, "name": "nightly", "created": "2026-11-20T02:00:00Z", "runs": [PLAN],
    "shards": [{"id": "cpu-1", "machine": "cpu", "labels": ["ubuntu-24.04"], "jobs": 1, "seconds": 90.0,
                "parts": [{"run": PLAN["run"], "cells": list(range(len(PLAN["cells"])))}]}],
    "expected": {"cells": 1, "shards": 1, "wall_s": 90.0, "cell_hours": 0.1, "gpu_hours": 0.0, "model_usd": 0.5,
                 "unpriced_cells": 0, "machine_usd": 0.0, "sources": {"measured": 1}},
}  # fmt: skip
SHARDS = {"run": PLAN["run"], "artifacts": {f"{PLAN['run']}-cpu-1": [PLAN["cells"][0]["cell"]]}}
DECISION = json.loads(
    Decision.model_validate(
        {"kind": "withdrawn", "run": "night-1", "why": "x", "who": "me", "when": "2026-11-21T00:00:00Z"}
    ).to_line()
)


@fuzzed
@given(yaml_bytes(EXPERIMENT))
@trapped(YAML_TRAPS)
@example(b"agents: [react, react]")
@example(b"budget: {usd: .nan}")
@example(b"machines: [{name: x, usd_per_hour: .inf}]")
def test_an_experiment(tmp_path: Path, tally: Tally, content: bytes) -> None:
    (tmp_path / "experiment.yaml").write_bytes(content)
    with tally.example(UserError):
        assert 1 <= load_experiment(tmp_path / "experiment.yaml", []).max_jobs <= 256


_KEYS = [
    *Experiment.model_fields, "budget.usd", "machines.0.count", "machines.9.count", "machines.\u00b2.count",
    "machines.-1", "settings.MAX_STEPS", "settings.a", "suites.0", "trials.x", "a.b.c", "", ".", "budget", "schema",
]  # fmt: skip
_VALUES = [
    "", "1", "-1", "1e999", ".nan", "2026-13-45", "!!int x", "!!python/name:os.system ", "[" * 3000, "&a [*a]", "{",
    ",",
    "\0", "\ud800", "9" * 5000, "1:" * 1000 + "1.5", "null", "[x", "a,b", "x\ny: 1", "mini,mini", "?",
]  # fmt: skip


@fuzzed
@given(
    st.lists(
        st.tuples(st.sampled_from(_KEYS) | st.text(max_size=8), st.sampled_from(_VALUES) | st.text(max_size=8)).map(
            "=".join
        )
        | st.text(max_size=8),
        min_size=1,
        max_size=3,
    )
)
@example(["machines.\u00b2.count=1"])
@example(["trials=2026-13-45"])
@example(["trials=" + "[" * 3000])
@example(["trials=&a [*a]"])
@example(["trials=" + "1:" * 1000 + "1.5"])
@example(["budget.usd=.nan"])
@example(["name.x=1"])
def test_overrides_of_an_experiment(tally: Tally, overrides: list[str]) -> None:
    with tally.example(UserError):
        load_experiment(None, overrides)


@fuzzed
@given(json_bytes(PLAN_FILE))
@trapped(JSON_TRAPS)
@example(as_json({**PLAN_FILE, "shards": []}))
@example(as_json({**PLAN_FILE, "runs": [PLAN, PLAN]}))
@example(as_json({**PLAN_FILE, "shards": [{**PLAN_FILE["shards"][0], "parts": [{"run": "x", "cells": [-1]}]}]}))
def test_a_plan_for_many_machines(tmp_path: Path, tally: Tally, content: bytes) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with tally.example(UserError):
        for shard in read_plan_file(path).shards:
            assert shard.parts
    with tally.example(UserError):
        assert read_plan_checks(path)


@fuzzed
@given(json_bytes(SHARDS))
@trapped(JSON_TRAPS)
def test_the_shards_of_a_run(tmp_path: Path, tally: Tally, content: bytes) -> None:
    (tmp_path / "run.json").write_bytes(as_json(PLAN))
    (tmp_path / "shards.json").write_bytes(content)
    with tally.example(UserError):
        assert read_plan_checks(tmp_path / "run.json", tmp_path / "shards.json")


@fuzzed
@given(st.lists(json_bytes(DECISION), min_size=1, max_size=3).map(lambda lines: b"\n".join([*lines, b""])))
@trapped(JSON_TRAPS)
@example(as_json({**DECISION, "when": "2026-13-45T99:99:99Z"}) + b"\n")
@example(as_json({**DECISION, "why": "@@half@@"}) + b"\n")
def test_the_ledger_of_decisions(tally: Tally, content: bytes) -> None:
    with tally.example(UserError):
        for decision in parse_decisions(content, "decisions/2026-11.jsonl"):
            assert parse_decisions(decision.to_line() + b"\n", "again") == [decision]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle on its way."""
    return save_pending(bundle_of(), tmp_path_factory.mktemp("kept"))


_LINES = b"".join(line_of(record) for record in bundle_of().records)
ABOUT = {
    "schema": 1, "run": "night-1", "attempt": 1, "started": "2026-11-20T02:00:00Z", "records": sha256_bytes(_LINES),
    "traces": [{"cell": "a/m/c/mini/1", "digest": sha256_bytes(b""), "size": 1, "stored": 1, "place": "inline"}],
    "inline": [],
}  # fmt: skip


@fuzzed
@given(json_bytes(ABOUT))
@trapped(JSON_TRAPS)
@example(as_json({**ABOUT, "inline": ["../../../etc/passwd"]}))
@example(as_json({**ABOUT, "inline": ["a\0b"]}))
@example(as_json({**ABOUT, "inline": ["traces/sha256/00/x.tar.gz"]}))
@example(as_json({**ABOUT, "started": "2026-13-45T99:99:99Z"}))
@example(as_json({**ABOUT, "run": "other"}))
def test_a_kept_bundle(kept: Path, tally: Tally, content: bytes) -> None:
    (kept / "bundle.json").write_bytes(content)
    with tally.example(UserError):
        assert load_pending(kept).records
