"""Two arms of one experiment: the same cells for both, in the order ABBA, never mixed up, and a pair on one machine."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from bench.base.errors import UserError
from bench.base.install import DataFolders
from bench.cli.plan import plan
from bench.formats.plan import RunPlan, make_run_plan, read_plan_file
from bench.plan.arms import expand_arms, make_arms
from bench.plan.estimate import Estimate
from bench.plan.experiment import Experiment
from bench.plan.selection import Request, cells_of
from bench.plan.shards import PlannedJob, packed_shards
from tests.helpers.cells import ROOT, make_agent, make_case, write_files

CASES = ["one", "two", "three"]


@pytest.fixture
def places(tmp_path: Path) -> DataFolders:
    for name in CASES:
        make_case(tmp_path / "cases", id=name)
    for folder, script in (("old", "1"), ("new", "2")):
        # The same id in two folders, as two checkouts of one repository have it.
        make_agent(tmp_path / folder, script, "mine")
    make_agent(tmp_path / "agents", "3", "asks", models={"main": "openai/x"})
    make_agent(tmp_path / "agents", "4", "asks_more", models={"main": "openai/y"})
    suite = {"id": "plain", "version": "2026.11", "title": "plain", "cases": CASES, "trials": 2}
    write_files(tmp_path / "cases" / "suites", {"plain.yaml": yaml.safe_dump(suite)})
    return DataFolders(
        cases=tmp_path / "cases", agents=tmp_path / "agents", site=ROOT / "site", cache=tmp_path / "cache"
    )


def folders(places: DataFolders) -> tuple[str, str]:
    root = places.cases.parent
    return str(root / "old" / "mine"), str(root / "new" / "mine")


def test_arms_meet_the_same_cases_in_the_order_abba(places: DataFolders) -> None:
    old, new = folders(places)
    found = make_arms(Request("plain", [new], trials=2), old, "ab", places).cells
    order = "".join("A" if cell.arm == "base" else "B" for cell in found)
    assert order == "ABBAAB" + "BAABBA"
    by_arm = {arm: sorted((it.case.id, it.trial) for it in found if it.arm == arm) for arm in ("base", "head")}
    assert by_arm["base"] == by_arm["head"] == sorted((case, trial) for case in CASES for trial in (1, 2))


def test_two_folders_with_one_agent_id_are_never_mixed_up(places: DataFolders) -> None:
    old, new = folders(places)
    made = make_arms(Request("plain", [new], trials=1), old, "ab", places)
    assert len({cell.id for cell in made.cells}) == len({cell.slug for cell in made.cells}) == 6
    assert {(cell.arm, str(cell.agent.folder)) for cell in made.cells} == {("base", old), ("head", new)}
    plan = RunPlan.model_validate_json(
        make_run_plan("ab", "plain", "2026.11", "mini", "process", made.cells).model_dump_json(by_alias=True)
    )
    again = cells_of(plan, places)
    assert [(it.id, it.arm, it.agent.digest) for it in again] == [(it.id, it.arm, it.agent.digest) for it in made.cells]


def test_an_older_plan_without_arms_still_reads(places: DataFolders) -> None:
    made = make_arms(Request("plain", [folders(places)[1]], trials=1), folders(places)[0], "ab", places)
    document = json.loads(make_run_plan("ab", "plain", "2026.11", "mini", "process", made.cells).model_dump_json())
    document = {key.removesuffix("_"): value for key, value in document.items() if key != "sequential"}
    for cell in document["cells"]:
        del cell["arm"]
    assert {cell.arm for cell in RunPlan.model_validate(document).cells} == {""}


@pytest.mark.parametrize("agents", [(), ("a", "b")])
def test_a_base_is_compared_with_one_head(places: DataFolders, agents: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match="one --agent"):
        make_arms(Request("plain", agents), "old", "ab", places)


def test_arms_with_different_models_are_refused_before_they_cost_anything(places: DataFolders) -> None:
    with pytest.raises(UserError, match="base runs with openai/x, head with openai/y"):
        make_arms(Request("plain", ["asks_more"]), "asks", "ab", places)
    same = make_arms(Request("plain", ["asks_more"], models=["openai/z"]), "asks", "ab", places)
    assert {cell.models["main"] for cell in same.cells} == {"openai/z"}


@pytest.mark.parametrize(
    "facts",
    [{"agents": []}, {"agents": ["a", "b"]}, {"settings": {"T": ["0"]}}, {"mode": "changed"}],
    ids=lambda facts: next(iter(facts)),
)
def test_an_experiment_whose_arms_could_not_be_paired_is_refused(facts: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="base:"):
        Experiment.model_validate({"suites": ["plain"], "agents": ["b"], "base": "a", **facts})


def test_a_pair_is_on_one_shard_and_shards_run_abba(places: DataFolders) -> None:
    old, new = folders(places)
    machine = {"name": "cpu", "cpus": 2, "memory_mb": 16_000, "setup_s": 0}
    asked = Experiment.model_validate(
        {"suites": ["plain"], "agents": [new], "base": old, "trials": 5, "shard_minutes": 2, "machines": [machine]}
    )
    [part] = expand_arms(asked, places)
    jobs = [
        PlannedJob(part.run, index, cell, Estimate(20.0 + 7 * (index % 5), 0.0, "measured"))
        for index, cell in enumerate(part.cells)
    ]
    made = packed_shards(jobs, asked)
    assert len(made) > 2
    assert sorted(job.index for batch in made for job in batch.jobs) == list(range(30))
    for batch in made:
        pairs: dict[tuple[str, int], list[str]] = defaultdict(list)
        for job in batch.jobs:
            pairs[job.cell.case.id, job.cell.trial].append(job.cell.arm)
        assert all(sorted(arms) == ["base", "head"] for arms in pairs.values())
        order = [job.cell.arm[0] for job in batch.jobs]
        assert "".join(order) == ("bhhb" * len(order))[: len(order)]


def test_the_plan_command_makes_both_arms(places: DataFolders, tmp_path: Path) -> None:
    old, new = folders(places)
    out = tmp_path / "plan.json"
    words = [f"agents={new}", f"base={old}", "suites=plain", "trials=2", "shard_minutes=0.5"]
    done = CliRunner().invoke(plan, [*words, "--cases", str(places.cases), "--out", str(out)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    document = read_plan_file(out)
    arms = {(cell.arm, cell.agent) for run in document.runs for cell in run.cells}
    assert arms == {("base", f"{old}/agent.yaml"), ("head", f"{new}/agent.yaml")}
    for shard in document.shards:
        cells = [cell for part in shard.parts for cell in document.part(part).cells]
        sides = {arm: {(it.case, it.trial) for it in cells if it.arm == arm} for arm in ("base", "head")}
        assert sides["base"] == sides["head"]
