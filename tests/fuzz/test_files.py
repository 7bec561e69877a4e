"""Every file of somebody else is a valid model or one clear error: settings, records, plans, results, inputs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from bench.base.errors import UserError
from bench.base.files import sha256_bytes
from bench.cli.action_inputs import Inputs, Outcome, Publication, Wanted, read_inputs
from bench.formats.agent import load_agent
from bench.formats.case import load_case
from bench.formats.older_records import parse_records, read_line
from bench.formats.record import Record
from bench.formats.run_folder import RunFolder, read_record
from bench.formats.suite import load_suite
from bench.gateway.backends.cassettes import load_cassette
from bench.gateway.backends.recorded import load_exchanges
from bench.gateway.backends.replay import is_recorded
from bench.gateway.prices import find_prices
from bench.plan.selection import cells_of
from bench.runs.human import Attempt, open_desk
from bench.store.bundle import Manifest, parse_manifest
from tests.helpers.cells import FACTS, FILES, ROOT, write_files
from tests.helpers.fuzz import Originals, Tally, as_json, as_yaml, fuzzed, json_bytes, mutated, yaml_bytes
from tests.helpers.fuzz_files import _PLACES, JSON_TRAPS, PLAN, YAML_TRAPS, trapped
from tests.helpers.records import make_record


def valid(pattern: str, most: int | None = None) -> list[Any]:
    return [yaml.safe_load(path.read_text()) for path in sorted(ROOT.glob(pattern))[:most]]


# --- settings --------------------------------------------------------------------------------------------------------

_HERE = {"id": "double_it", "category": "basics", "wrong": {}}
CASES = [FACTS, *({**facts, **_HERE} for facts in valid("cases/*/*/case.yaml", 8))]


@fuzzed
@given(yaml_bytes(*CASES))
@trapped(YAML_TRAPS)
def test_case_yaml(tmp_path: Path, tally: Tally, content: bytes) -> None:
    folder = tmp_path / "basics" / "double_it"
    if not folder.exists():
        write_files(folder, {**FILES, "services.py": ""})
    (folder / "case.yaml").write_bytes(content)
    with tally.example(UserError):
        load_case(folder)


@fuzzed
@given(yaml_bytes(*valid("agents/*/agent.yaml"), *valid("agents/examples/*/agent.yaml")))
@trapped(YAML_TRAPS)
@example(as_yaml({"id": "a", "command": ["x"], "environment": {"requirements": "x" * 300}}))
@example(b'{id: a, command: [x], environment: {requirements: "a\\0b"}}')
def test_agent_yaml(tmp_path: Path, tally: Tally, content: bytes) -> None:
    (tmp_path / "agent.yaml").write_bytes(content)
    (tmp_path / "requirements.txt").touch()
    with tally.example(UserError):
        agent = load_agent(tmp_path)
        assert agent.spec.command


@fuzzed
@given(yaml_bytes(*({**suite, "id": "smoke"} for suite in valid("cases/suites/*.yaml"))))
@trapped(YAML_TRAPS)
@example(b"{id: smoke, version: '2026.11', title: x, cases: [a], trials: 1000000000000}")
def test_suite_yaml(tmp_path: Path, tally: Tally, content: bytes) -> None:
    write_files(tmp_path, {"suites/smoke.yaml": content})
    with tally.example(UserError):
        suite = load_suite(tmp_path, "smoke")
        assert suite.trials <= 1000


OWN_PRICES = {
    "schema": 1, "version": "2026-11", "models": {"openai/x": {"input": 1, "output": 2.5, "cache_read": 0.1,
    "max_output": 9}},
}  # fmt: skip


@fuzzed
@given(yaml_bytes(OWN_PRICES))
@trapped(YAML_TRAPS)
@example(b"{version: x, models: {openai/x: {input: 1.0e308, output: 1}}}")
def test_own_prices(tmp_path: Path, tally: Tally, content: bytes) -> None:
    (tmp_path / "prices.yaml").write_bytes(content)
    with tally.example(UserError):
        prices = find_prices("openai/x", tmp_path / "prices.yaml")
        assert prices is None or 0 <= prices.worst(10**9, 10**9) < 1e30


TABLE = {
    "x": {
        "litellm_provider": "openai", "input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6, "mode": "chat",
        "cache_read_input_token_cost": 1e-7, "input_cost_per_token_above_200k_tokens": 2e-6, "max_output_tokens": 8192,
    },
    "openai/x": {"litellm_provider": "openai", "input_cost_per_token": 0, "output_cost_per_token": 0},
}  # fmt: skip


@fuzzed
@given(json_bytes(TABLE, {"x": TABLE["x"]}))
@trapped(JSON_TRAPS)
@example(as_json({"x": {**TABLE["x"], f"input_cost_per_token_above_{'9' * 5000}k_tokens": 1}}))
def test_the_published_price_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally, content: bytes
) -> None:
    name = "litellm/model_prices_and_context_window_backup.json"
    write_files(tmp_path, {"litellm/__init__.py": "", name: content})
    monkeypatch.setattr("sys.path", [str(tmp_path), *__import__("sys").path])
    with tally.example(UserError):
        prices = find_prices("openai/x")
        assert prices is None or 0 <= prices.worst(10**9, 10**9) < 1e30


# --- cassettes -------------------------------------------------------------------------------------------------------

RECORDED: list[Any] = [
    {"schema": 2, "model": "openai/x", "prices": {"base": {
        "input": 1e-6, "output": 1e-6, "cache_read": 1e-7, "cache_write": 1e-6, "cache_write_1h": 1e-6},
        "version": "v"}},
    {"protocol": "chat", "frame": {"temperature": 1}, "new": [{"role": "user", "content": "x"}], "body": {"id": "1"}},
    {"protocol": "chat", "frame": "same", "after": 1, "kept": 1, "new": [{"role": "assistant"}],
    "events": ["data: {}"]},
]  # fmt: skip


def as_documents(parts: Any) -> bytes:
    return b"\n---\n".join(as_yaml(part) for part in (parts if isinstance(parts, list) else [parts]))


_RECORDED = yaml_bytes(*RECORDED[1:]).map(lambda part: as_documents(RECORDED[:1]) + b"\n---\n" + part)
_WHOLE = mutated(Originals([RECORDED])).map(as_documents)


@fuzzed
@given(yaml_bytes(*valid("agents/react/cassettes/demo/*.yaml")))
@trapped(YAML_TRAPS)
def test_a_cassette_of_turns(tmp_path: Path, tally: Tally, content: bytes) -> None:
    path = tmp_path / "cassette.yaml"
    path.write_bytes(content)
    with tally.example(UserError):
        is_recorded(path)
        assert load_cassette(path).turns


@fuzzed
@given(_WHOLE | _RECORDED)
@trapped([as_documents(RECORDED[:1]) + b"\n---\n" + trap for trap in YAML_TRAPS] + YAML_TRAPS)
@example(as_documents([*RECORDED[:2], {**RECORDED[2], "after": -9}]))
@example(as_documents([{**RECORDED[0], "prices": {**RECORDED[0]["prices"], "version": 1}}]))
@example(as_documents([{"schema": 2, "model": "x", "prices": {"base": dict.fromkeys(RECORDED[0]["prices"]["base"],
-1.0), "version": "v"}}]))  # fmt: skip
@example(as_documents([RECORDED[0], {**RECORDED[1], "status": 5}]))
def test_a_recorded_cassette(tmp_path: Path, tally: Tally, content: bytes) -> None:
    path = tmp_path / "cassette.yaml"
    path.write_bytes(content)
    with tally.example(UserError):
        is_recorded(path)
        heading, played = load_exchanges(path)
        assert heading.prices is None or heading.prices.worst(9, 9) >= 0
        assert all(200 <= it.exchange.status <= 599 for it in played)


# --- a run and what is left of it ------------------------------------------------------------------------------------

RECORD = json.loads(make_record().to_line())
RECORDS = [RECORD, json.loads(make_record(outcome="infra").to_line())]
ATTEMPT = json.loads(
    Attempt(
        prepare={"name": "prepare", "start": "2026-11-20T02:00:00Z", "seconds": 1},
        began=1.0,
        started="2026-11-20T02:00:00Z",
    ).model_dump_json(by_alias=True)
)


def stays_readable(record: Record) -> None:
    """What was accepted can be written, and then is the same."""
    assert read_line(record.to_line().encode(), "again") == record
    assert all(number is None or abs(number) < 2**63 for number in (record.trial, record.seed, record.steps))


@fuzzed
@given(json_bytes(*RECORDS))
@trapped(JSON_TRAPS)
@example(as_json({**RECORD, "started": "2026-13-45T99:99:99Z"}))
@example(as_json({**RECORD, "metrics": [{"name": "loss", "value": "@@nan@@"}]}))
@example(as_json({**RECORD, "seed": 10**400}))
def test_a_record_file(tmp_path: Path, tally: Tally, content: bytes) -> None:
    (tmp_path / "record.json").write_bytes(content)
    with tally.example(UserError):
        stays_readable(read_record(tmp_path / "record.json"))


@fuzzed
@given(
    st.lists(json_bytes(*RECORDS), min_size=1, max_size=3).map(lambda lines: b"\n".join([*lines, b""])) | st.binary()
)
@trapped(JSON_TRAPS)
@example(as_json(RECORD))
@example(as_json(RECORD) + b"\n")
def test_a_file_of_the_results_branch(tally: Tally, content: bytes) -> None:
    with tally.example(UserError):
        for record in parse_records(content, "runs/x.jsonl"):
            stays_readable(record)


MANIFEST = {
    "schema": 1, "run": "night-1", "attempt": 1, "started": "2026-11-20T02:00:00Z", "previous": None,
    "record_schema": {"version": 1, "digest": sha256_bytes(b"")}, "outcomes": {"graded": 1},
    "files": [{"path": "runs/x.jsonl", "agent": "react", "digest": sha256_bytes(b""), "size": 9, "records": 1}],
    "provenance": [RECORD["provenance"]],
}  # fmt: skip


@fuzzed
@given(json_bytes(MANIFEST))
@trapped(JSON_TRAPS)
@example(as_json({**MANIFEST, "started": "2026-13-45T99:99:99Z"}))
@example(as_json({**MANIFEST, "provenance": [{**RECORD["provenance"], "suite": "@@half@@"}]}))
@example(as_json({**MANIFEST, "started": "2026-11-20T02:00:0\u0663Z"}))
def test_a_manifest_of_the_results_branch(tally: Tally, content: bytes) -> None:
    with tally.example(UserError):
        manifest = parse_manifest(content, "manifests/x.json")
        assert manifest.path.endswith(f"/{manifest.run}-{manifest.attempt}.json")
        assert parse_manifest(manifest.to_bytes(), "again") == manifest
        assert isinstance(manifest, Manifest)


@fuzzed
@given(json_bytes(PLAN))
@trapped(JSON_TRAPS)
@example(as_json({**PLAN, "cells": []}))
@example(as_json({**PLAN, "cells": [{**PLAN["cells"][0], "agent": "a\0/b"}]}))
@example(as_json({**PLAN, "cells": [{**PLAN["cells"][0], "agent": "x" * 300}]}))
@example(as_json({**PLAN, "created": "2026-13-45T99:99:99Z"}))
def test_a_plan(tmp_path: Path, tally: Tally, content: bytes) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with tally.example(UserError):
        cells_of(RunFolder(tmp_path).read_plan(), _PLACES)


@fuzzed
@given(json_bytes(ATTEMPT), json_bytes(PLAN))
@example(as_json(ATTEMPT), as_json({**PLAN, "cells": []}))
@example(as_json({**ATTEMPT, "began": "@@overflow@@"}), as_json(PLAN))
def test_the_state_of_a_person(tmp_path: Path, tally: Tally, content: bytes, plan: bytes) -> None:
    (tmp_path / "human.json").write_bytes(content)
    for text in (as_json(PLAN), plan):
        (tmp_path / "run.json").write_bytes(text)
        with tally.example(UserError):
            desk = open_desk(tmp_path, _PLACES)
            assert desk.elapsed_s >= 0
            assert int(desk.attempt.began + desk.left_s) < 10**11


# --- the action ------------------------------------------------------------------------------------------------------

_VARIABLES = sorted(
    f"MLDB_{(field.alias or name).upper().replace('-', '_')}"
    for model in (Inputs, Outcome, Publication)
    for name, field in model.model_fields.items()
)
_TEXTS = st.one_of(
    st.sampled_from(["react", "true", "FALSE", "1", "9" * 5000, "1e3", "nan", ",", "\n", "-1", "\u0661", "mini",
    "none", "x,y"]),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
    st.binary(max_size=12).map(lambda data: os.fsdecode(data.replace(b"\0", b""))),
)  # fmt: skip


@fuzzed
@given(st.dictionaries(st.sampled_from(sorted(set(_VARIABLES))), _TEXTS))
@example({"MLDB_AGENT": "\udcff"})
@example({"MLDB_AGENT": "react", "MLDB_TRIALS": "9" * 5000})
def test_inputs_of_the_action(monkeypatch: pytest.MonkeyPatch, tally: Tally, given_ones: dict[str, str]) -> None:
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in given_ones.items():
        monkeypatch.setenv(name, value)
    for model in (Inputs, Outcome, Publication, Wanted):
        with tally.example(UserError):
            assert read_inputs(model).model_dump_json()
