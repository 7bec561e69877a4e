"""Records of a real run that contradict themselves, their plan, their case or the prices are never collected."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from bench.gateway import launch
from bench.store import recompute
from bench.store.artifacts import Caps, find_artifacts
from bench.store.collect import PlanCheck, collect_bundle
from bench.store.sources import Sources
from tests.helpers.forgeries import FORGERIES, Bundle, forge, honest_bundle, refused_alone, same_records
from tests.helpers.store import ROOT, mldb


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A real run, made once; each test puts back what it changes."""
    return honest_bundle(tmp_path_factory.mktemp("honest"), "process")


def lines_of(bundle: Bundle, check: PlanCheck) -> list[str]:
    artifacts, _ = find_artifacts([bundle.folder], Caps())
    return [str(refusal) for refusal in collect_bundle(artifacts, check, Caps()).refused]


def test_honest_records_of_all_outcomes_are_taken_as_they_are(bundle: Bundle) -> None:
    collected = bundle.collect()
    assert (collected.refused, collected.missing) == ([], [])
    assert same_records(collected, bundle)
    outcomes = {(facts["outcome"], facts["success"]) for facts in bundle.records.values()}
    assert outcomes == {("graded", True), ("graded", False), ("infra", None)}


def test_a_cell_whose_gateway_looked_for_an_outage_is_taken() -> None:
    """As long as it may, after the agent's own last second: what it was asked last is the agent's to choose."""
    assert recompute._SETTING_UP_S > launch._SETTLE_S + launch._END_S


def test_there_are_at_least_thirty_classes() -> None:
    assert len(FORGERIES) >= 30


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_record_is_refused_by_name_and_no_good_one_is_lost(bundle: Bundle, name: str) -> None:
    rng = random.Random(20261122)
    for _ in range(3):
        assert refused_alone(bundle, *forge(bundle, name, rng)) == []


def test_a_refusal_names_file_cell_field_value_and_what_it_must_be(bundle: Bundle, tmp_path: Path) -> None:
    folder = shutil.copytree(bundle.folder, tmp_path / "r1")
    cell = "nop/none/hello_world/mini/1"
    path = folder / "cells" / bundle.file_of(cell).name
    path.write_text(json.dumps({**bundle.records[cell], "score": 0.75}))
    where = ["--results", "results.git"]
    done = mldb("results", "collect", folder, "--plan", folder / "run.json", *where, cwd=tmp_path, status=1)
    assert "9 of 10 planned cells; 1 missing; 1 refused" in done.stdout
    said = "field `score` is 0.75, and must be 0.0: by the record's own checks"
    assert f"refused: r1/cells/{path.name}: cell {cell}: {said}" in done.stderr


def test_a_cost_of_unknown_tokens_is_refused_without_a_trace_too(bundle: Bundle) -> None:
    facts = json.loads(json.dumps(next(it for it in bundle.records.values() if it["steps"])))
    facts["artifacts"], usage = [], facts["usage"][0]
    assert not isinstance(bundle.check.read(json.dumps(facts).encode(), "x"), str)
    for unknown in (list(usage["tokens"]), ["reasoning"]):
        cheap = {**usage, "tokens": {**usage["tokens"], **dict.fromkeys(unknown)}, "cost_usd": 0.0}
        told = bundle.check.read(json.dumps({**facts, "usage": [cheap], "cost_usd": 0.0}).encode(), "x")
        said = f"field `usage.main.tokens.{unknown[0]}` is None, and must be 'a number': its cost is simulated"
        assert said in str(told)


def test_a_case_that_is_not_here_as_planned_is_named_with_the_remedy(bundle: Bundle, tmp_path: Path) -> None:
    cases = shutil.copytree(ROOT / "cases", tmp_path / "cases")
    with (cases / "basics" / "hello_world" / "task.md").open("a") as task:
        task.write("\nAnd one more line.\n")
    shutil.rmtree(cases / "training" / "parse_logs")
    check = PlanCheck.to(bundle.plan, sources=Sources.installed(cases))
    lines = lines_of(bundle, check)
    assert len(lines) == len(bundle.records)
    assert all("give --cases the folder that holds it" in line for line in lines)
    assert {"hello_world" in line and "has the digest" in line for line in lines} == {True, False}
    assert sum("case 'parse_logs' is not here" in line for line in lines) == 5


def test_checks_whose_facts_are_no_literals_are_checked_by_their_form_alone(bundle: Bundle, tmp_path: Path) -> None:
    cases = shutil.copytree(ROOT / "cases", tmp_path / "cases")
    check_file = cases / "basics" / "hello_world" / "check.py"
    check_file.write_text(check_file.read_text().replace("weight=4", "weight=2 + 2"))
    from bench.formats.case import load_case

    digest = load_case(check_file.parent).digest
    cells = [
        it.model_copy(update={"case_digest": digest}) if it.case == "hello_world" else it for it in bundle.plan.cells
    ]
    plan = bundle.plan.model_copy(update={"cells": cells})
    cell = "oracle/none/hello_world/mini/1"
    facts = json.loads(json.dumps(bundle.records[cell]))
    facts["case"]["digest"] = digest
    check = PlanCheck.to(plan, sources=Sources.installed(cases))
    assert not isinstance(check.read(json.dumps(facts).encode(), "x"), str)
    facts["checks"] = []
    assert "field `checks` is []" in str(check.read(json.dumps(facts).encode(), "x"))


def test_a_plan_that_does_not_say_who_is_ranked_asks_the_agent_s_folder(bundle: Bundle) -> None:
    gone = {"ranked": None, "agent": "/nowhere/agent.yaml"}
    cells = [it.model_copy(update=gone if "idle" in it.agent else {"ranked": None}) for it in bundle.plan.cells]
    check = PlanCheck.to(bundle.plan.model_copy(update={"cells": cells}), sources=Sources.installed())
    for cell in ("nop/none/hello_world/mini/1", "react/replay/demo/hello_world/mini/1"):
        facts = json.loads(json.dumps(bundle.records[cell]))
        assert not isinstance(check.read(json.dumps(facts).encode(), "x"), str)
        facts["agent"]["ranked"] = True
        assert "field `agent.ranked` is True, and must be False" in str(check.read(json.dumps(facts).encode(), "x"))
    # The folder of this agent is not here, so that nothing says it competes.
    stranger = json.dumps(bundle.records["idle/none/hello_world/mini/1"]).encode()
    assert "give --agents the folder that holds the agent" in str(check.read(stranger, "x"))


def test_a_measurement_counts_once_even_with_its_traces_beside_it(bundle: Bundle, tmp_path: Path) -> None:
    """A copy whose traces were copied, too, cannot be told from its source: neither is taken, and both are named."""
    folder = shutil.copytree(bundle.folder, tmp_path / "r1")
    copy = Bundle(folder, bundle.plan, bundle.check, bundle.records)
    source, target = "oracle/none/hello_world/mini/1", "nop/none/hello_world/mini/1"
    old, new = (copy.file_of(cell).stem for cell in (source, target))
    shutil.rmtree(folder / "traces" / new)
    shutil.copytree(folder / "traces" / old, folder / "traces" / new)
    facts = json.loads(json.dumps(bundle.records[source]).replace(old, new))
    facts |= {name: bundle.records[target][name] for name in ("cell", "agent")}
    copy.file_of(target).write_text(json.dumps(facts))
    collected = copy.collect()
    assert sorted(collected.missing) == sorted([source, target])
    assert all("has the same measurement as 1 other record" in str(it) for it in collected.refused)
    assert len(collected.taken) == len(bundle.records) - 2
