"""Plans of several nights: their runs never share a name, and missing cells go where their plan had them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from bench.base.errors import UserError
from bench.base.install import DataFolders
from bench.cli.plan import plan
from bench.formats.plan import PlanFile, read_plan_file
from bench.formats.shards import MachineClass
from bench.plan.experiment import Experiment, load_experiment
from bench.plan.selection import expand_experiment
from bench.store.branch import publish
from tests.helpers.cells import RIGHT, ROOT, make_agent, make_case, write_files
from tests.helpers.records import make_record

BOX = {"name": "box", "labels": ["own", "gpu-a10"], "cpus": 2, "memory_mb": 9000, "setup_s": 0, "usd_per_hour": 0.5}


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataFolders:
    for name in ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_WORKSPACE", "GITHUB_ACTIONS", "MLDB_SEED_SECRET"):
        monkeypatch.delenv(name, raising=False)
    for name in ("one", "two"):
        make_case(tmp_path / "cases", id=name)
    make_agent(tmp_path / "agents", f"open('answer.py', 'w').write({RIGHT!r})", "b")
    content = {"id": "plain", "version": "2026.11", "title": "plain", "cases": ["one", "two"], "trials": 2}
    write_files(tmp_path / "cases" / "suites", {"plain.yaml": yaml.safe_dump(content)})
    return DataFolders(tmp_path / "cases", tmp_path / "agents", ROOT / "site", tmp_path / "cache")


def planned(places: DataFolders, out: Path, *words: str) -> PlanFile:
    told = CliRunner().invoke(plan, ["--cases", str(places.cases), "--out", str(out), "--no-seed-secret", *words])
    assert told.exit_code == 0, (told.output, told.exception)
    return read_plan_file(out)


def experiment(places: DataFolders, **changes: object) -> str:
    file = places.cases.parent / "nightly.yaml"
    agents = [str(places.agents / "b")]
    content = {"name": "nightly", "suites": ["plain"], "agents": agents, "machines": [BOX], "max_jobs": 9, **changes}
    file.write_text(yaml.safe_dump(content))
    return str(file)


def test_missing_cells_go_to_the_machines_of_their_plan(places: DataFolders, tmp_path: Path) -> None:
    first = tmp_path / "plan.json"
    facts = ("--runner", "self-hosted", "--sandbox", "process")
    before = planned(places, first, *facts, experiment(places, shard_minutes=30))
    after = planned(places, tmp_path / "later.json", "--missing-from", str(first))
    assert {(shard.machine, *shard.labels) for shard in after.shards} == {("box", "own", "gpu-a10")}
    assert after.fleet == before.fleet and after.fleet is not None
    assert (after.fleet.runner, after.fleet.shard_minutes, after.fleet.max_jobs) == ("self-hosted", 30, 9)
    assert {run.sandbox for run in after.runs} == {"process"}
    assert after.expected.machine_usd == before.expected.machine_usd > 0
    changed = planned(places, tmp_path / "c.json", "--missing-from", str(first), "--", "machines.0.labels=[other]")
    assert {tuple(shard.labels) for shard in changed.shards} == {("other",)}
    small = {**BOX, "name": "mine", "labels": ["mine"]}
    replaced = planned(places, tmp_path / "r.json", "--missing-from", str(first), experiment(places, machines=[small]))
    assert {shard.machine for shard in replaced.shards} == {"mine"}
    assert replaced.fleet is not None and replaced.fleet.shard_minutes == 30


def test_a_plan_that_does_not_tell_its_machines_wants_the_experiment(places: DataFolders, tmp_path: Path) -> None:
    first = tmp_path / "plan.json"
    file = experiment(places)
    document = planned(places, first, file).model_copy(update={"fleet": None})
    first.write_text(document.model_dump_json(by_alias=True))
    told = CliRunner().invoke(plan, ["--cases", str(places.cases), "--missing-from", str(first)])
    assert isinstance(told.exception, UserError) and "does not tell its machines" in str(told.exception)
    again = planned(places, tmp_path / "later.json", "--missing-from", str(first), file)
    assert {shard.machine for shard in again.shards} == {"box"}


def test_records_of_missing_cells_are_stored_beside_those_of_their_run(places: DataFolders, tmp_path: Path) -> None:
    """Also when two people plan them at once, and when the first part was never stored."""
    first = tmp_path / "plan.json"
    runs = [planned(places, first, experiment(places)).runs[0]]
    runs += [planned(places, tmp_path / f"{it}.json", "--missing-from", str(first)).runs[0] for it in (1,)]
    runs.append(planned(places, tmp_path / "3.json", "--missing-from", str(tmp_path / "1.json")).runs[0])
    assert len({run.run for run in runs}) == 1
    assert len({run.earlier_attempts for run in runs}) == 3, "no two plans store under one name"
    branch = str(tmp_path / "results.git")
    for number, run in enumerate(runs):
        commit = publish(run, [make_record(run=run.run, trial=number + 1, cell=str(number))], branch, "mldb-results")
        assert commit.new


def test_in_a_workflow_a_name_is_given_once(
    places: DataFolders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = []
    for number, attempt in (("4711", "1"), ("4711", "2"), ("4712", "1")):
        monkeypatch.setenv("GITHUB_RUN_ID", number)
        monkeypatch.setenv("GITHUB_RUN_ATTEMPT", attempt)
        document = planned(places, tmp_path / "plan.json", experiment(places))
        names.append(document.name)
        assert [run.run for run in document.runs] == [document.name]
    assert names == ["gh-4711-1-nightly", "gh-4711-2-nightly", "gh-4712-1-nightly"]
    # The night after next completes the first one: its runs keep their names, and what it uploads does not.
    monkeypatch.setenv("GITHUB_RUN_ID", "4713")
    later = planned(places, tmp_path / "later.json", "--missing-from", str(tmp_path / "plan.json"))
    assert (later.name, later.runs[0].run) == ("gh-4713-1-plan", "gh-4712-1-nightly")


def test_a_long_name_keeps_its_runs_apart(places: DataFolders) -> None:
    content = {"id": "plainer", "version": "2026.11", "title": "x", "cases": ["one"]}
    write_files(places.cases / "suites", {"plainer.yaml": yaml.safe_dump(content)})
    facts = {"name": "n" * 64, "suites": ["plain", "plainer"], "agents": [str(places.agents / "b")]}
    names = [part.run for part in expand_experiment(Experiment.model_validate(facts), places)]
    assert len(set(names)) == 2 and all(len(name) == 64 for name in names)


def test_agents_of_the_workspace_are_named_as_seen_from_there(
    places: DataFolders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A self-hosted machine has the workspace elsewhere than the hosted one that planned."""
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    document = planned(places, tmp_path / "plan.json", experiment(places))
    assert {cell.agent for cell in document.runs[0].cells} == {"./agents/b/agent.yaml"}
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / "other"))
    document = planned(places, tmp_path / "plan.json", experiment(places))
    assert {cell.agent for cell in document.runs[0].cells} == {str(places.agents / "b" / "agent.yaml")}


def test_the_matrix_says_what_a_machine_needs(
    places: DataFolders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_case(places.cases, id="two", needs={"python": ["torch", "numpy"]})
    make_agent(places.agents, "pass", "c", models={"main": "openai/x"})
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "outputs"))
    for agent, cases, extras in (("b", "one", ""), ("b", "two", "ml"), ("c", "two", "gateway,ml")):
        facts = (f"agents={places.agents / agent}", f"cases={cases}")
        planned(places, tmp_path / "plan.json", "--github-output", experiment(places), *facts)
        matrix = (tmp_path / "outputs").read_text().splitlines()[-2].removeprefix("matrix=")
        assert {entry["extras"] for entry in json.loads(matrix)["include"]} == {extras}


def test_what_the_file_says_of_machines_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text("schema: 1\nshard_minutes: 5\n")
    fleet = Experiment(machines=[MachineClass(name="box")], max_jobs=3).fleet("local")
    loaded = load_experiment(file, ["max_jobs=4"], fleet)
    assert (loaded.shard_minutes, loaded.max_jobs, loaded.machines[0].name) == (5, 4, "box")
