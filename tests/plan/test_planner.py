"""From an experiment to shards that run: the grid, its overrides, its modes, its price, and what was lost."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from bench.base.errors import UserError
from bench.base.install import DataFolders
from bench.cli.plan import plan
from bench.cli.run_shard import run_shard
from bench.formats.judge_version import JUDGE
from bench.formats.plan import Cell, PlanFile, read_plan_file
from bench.formats.record import Record
from bench.formats.run_folder import RunFolder
from bench.plan.estimate import Estimate, History
from bench.plan.experiment import Experiment, load_experiment
from bench.plan.selection import cells_of, expand_experiment, select_cells
from tests.helpers.cells import RIGHT, ROOT, make_agent, make_case, write_files
from tests.helpers.records import make_record


@pytest.fixture
def places(tmp_path: Path) -> DataFolders:
    for name in ("one", "two", "three"):
        make_case(tmp_path / "cases", id=name)
    for name, models in (("a", {"main": "openai/x"}), ("b", {})):
        make_agent(tmp_path / "agents", f"open('answer.py', 'w').write({RIGHT!r})", name, models=models)
    for suite, cases in (("plain", ["one", "two"]), ("other", ["three"])):
        content = {"id": suite, "version": "2026.11", "title": suite, "cases": cases, "trials": 2}
        write_files(tmp_path / "cases" / "suites", {f"{suite}.yaml": yaml.safe_dump(content)})
    return DataFolders(
        cases=tmp_path / "cases", agents=tmp_path / "agents", site=ROOT / "site", cache=tmp_path / "cache"
    )


def cells(places: DataFolders, **facts: Any) -> list[Cell]:
    parts = expand_experiment(Experiment.model_validate({"suites": ["plain"], **facts}), places)
    return [cell for part in parts for cell in part.cells]


# --- the grid ---------------------------------------------------------------------------------------------------------


def test_the_grid_is_the_product_of_its_axes(places: DataFolders) -> None:
    found = cells(places, agents=["a", "b"], models=["openai/x", "openai/y"], settings={"T": ["0", "1"]}, trials=3)
    by_agent = Counter(cell.agent.folder.name for cell in found)
    assert by_agent == {"a": 2 * 2 * 2 * 3, "b": 2 * 2 * 3}
    assert len({cell.id for cell in found}) == len(found)


def test_a_setting_makes_an_agent_of_its_own(places: DataFolders) -> None:
    found = {cell.agent.id: cell.agent for cell in cells(places, agents=["b"], settings={"T": ["0", "1"]})}
    assert len(found) == len({agent.digest for agent in found.values()}) == 2
    assert {agent.spec.environment.variables["T"] for agent in found.values()} == {"0", "1"}
    assert all(name.startswith("b-") for name in found)


def test_several_suites_are_runs_of_their_own(places: DataFolders) -> None:
    parts = expand_experiment(Experiment(name="night", suites=["plain", "other"], agents=["b"]), places)
    assert [(part.run, len(part.cells)) for part in parts] == [("night-plain-mini", 4), ("night-other-mini", 2)]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["trials=5"], {"trials": 5}),
        (["agents=a,b"], {"agents": ["a", "b"]}),
        (["agents="], {"agents": []}),
        (["settings.T=0.1,0.7"], {"settings": {"T": ["0.1", "0.7"]}}),
        (["machines.0.count=4", "machines.0.name=x"], {"machines.0.count": 4}),
        (["budget.usd=12.5", "mode=changed"], {"budget.usd": 12.5, "mode": "changed"}),
    ],
)
def test_overrides_reach_every_field(tmp_path: Path, overrides: list[str], expected: dict[str, Any]) -> None:
    path = tmp_path / "e.yaml"
    path.write_text("schema: 1\nagents: [react]\nmachines: [{name: cpu}]\n")
    found = load_experiment(path, overrides).model_dump()
    for key, value in expected.items():
        place: Any = found
        for part in key.split("."):
            place = place[int(part)] if isinstance(place, list) else place[part]
        assert place == value


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("trials", "is not an override"),
        ("=3", "is not an override"),
        ("trials=many", "field `trials`"),
        ("trails=3", "unknown field"),
        ("trials.x=3", "inside of a value|field `trials`"),
        ("machines.7.count=3", "is none of 1 items"),
        ("mode=[", "not YAML"),
        ("agents=a,a", "agents names a value twice"),
    ],
)
def test_a_wrong_override_is_one_clear_line(tmp_path: Path, override: str, fault: str) -> None:
    path = tmp_path / "e.yaml"
    path.write_text("schema: 1\nmachines: [{name: cpu}]\n")
    with pytest.raises(UserError, match=fault) as caught:
        load_experiment(path, [override])
    assert "\n" not in str(caught.value)


# --- estimates and modes ----------------------------------------------------------------------------------------------


def record_of(cell: Cell, seconds: float, cost: float | None = 0.5, **changes: Any) -> Record:
    made = make_record()
    phases = [made.phases[0].model_copy(update={"name": "agent", "seconds": seconds})]
    return made.model_copy(
        update={
            "agent": made.agent.model_copy(update={"id": cell.agent.id, "digest": cell.agent.digest}),
            "case": made.case.model_copy(update={"id": cell.case.id, "digest": cell.case.digest}),
            "models": cell.models,
            "cell": cell.id,
            "profile": cell.profile,
            "trial": cell.trial,
            "phases": phases,
            "cost_usd": cost,
            "provenance": made.provenance.model_copy(update={"judge": JUDGE}),
            **changes,
        }
    )


def figures(estimate: Estimate) -> tuple[float, float | None, str]:
    return estimate.seconds, estimate.usd, estimate.source


def test_estimates_rest_on_the_nearest_that_was_measured(places: DataFolders) -> None:
    one, two = cells(places, agents=["a"], trials=1)
    other = cells(places, agents=["b"], trials=1)
    limit = one.case.spec.limits
    whole = limit.agent_s + limit.grade_s
    history = History.of([record_of(one, 10.0, 1.0), record_of(one, 12.0, 3.0), record_of(one, 500.0, 2.0)])
    assert figures(history.estimate(one)) == (12.0, 2.0, "measured")
    assert history.estimate(two).source == "agent"
    assert history.estimate(two).usd == limit.cost_usd
    assert figures(history.estimate(other[0])) == (12.0, 0.0, "case")
    assert figures(history.estimate(other[1])) == (whole / 2, 0.0, "limit")


def test_a_cost_nobody_knows_stays_unknown(places: DataFolders) -> None:
    one, _ = cells(places, agents=["a"], trials=1)
    assert History.of([record_of(one, 10.0, None)]).estimate(one).usd is None


def test_lost_cells_teach_nothing(places: DataFolders) -> None:
    one, _ = cells(places, agents=["a"], trials=1)
    lost = record_of(one, 10.0, outcome="infra", score=None, success=None, stop_reason=None)
    assert History.of([lost]).estimate(one).source == "limit"


def test_changed_means_without_a_verdict_for_this_version(places: DataFolders) -> None:
    every = cells(places, agents=["a", "b"])
    done = [cell for cell in every if cell.agent.id == "a"]
    history = History.of([record_of(cell, 1.0) for cell in done])
    today = date(2026, 11, 22)
    assert {cell.agent.id for cell in select_cells(every, "changed", history, today, 7)} == {"b"}
    earlier = make_record().provenance
    judged_before = History.of([record_of(cell, 1.0, provenance=earlier) for cell in done])
    assert select_cells(every, "changed", judged_before, today, 7) == every
    (places.agents / "a" / "main.py").write_text("pass\n")
    again = cells(places, agents=["a", "b"])
    assert {cell.agent.id for cell in select_cells(again, "changed", history, today, 7)} == {"a", "b"}


def test_rotating_meets_each_case_once_in_a_period(places: DataFolders) -> None:
    every = cells(places, suites=["plain", "other"], agents=["b"], trials=1)
    for period in (1, 3, 7):
        for start in (date(2026, 11, 22), date(2027, 2, 26)):
            days = [start + timedelta(days=day) for day in range(period)]
            met = Counter(cell.id for day in days for cell in select_cells(every, "rotating", History(), day, period))
            assert met == Counter(cell.id for cell in every)


# --- the command ------------------------------------------------------------------------------------------------------


def invoke(places: DataFolders, *words: str, fails: bool = False) -> str:
    told = CliRunner().invoke(plan, ["--cases", str(places.cases), *words], catch_exceptions=True)
    if fails:
        assert isinstance(told.exception, UserError), told.output
        return str(told.exception)
    assert told.exit_code == 0, (told.output, told.exception)
    return told.output


def test_a_plan_is_priced_before_anything_runs(places: DataFolders) -> None:
    where = str(places.agents / "a")
    text = invoke(places, "suites=plain", f"agents={where}")
    assert "4 cells in 1 shard" in text
    assert "models    8.00 USD" in text
    assert "4 from limits alone" in text
    fault = invoke(places, "suites=plain", f"agents={where}", "budget.usd=7.99", fails=True)
    assert "8.00 USD, over the budget of 7.99" in fault


def test_shards_run_and_lost_cells_are_planned_again(places: DataFolders, tmp_path: Path) -> None:
    out, runs, where = tmp_path / "plan.json", tmp_path / "runs", str(places.agents / "b")
    file = tmp_path / "e.yaml"
    machine = {"name": "cpu", "cpus": 1, "memory_mb": 4000, "setup_s": 0}
    content = {"schema": 1, "name": "night", "suites": ["plain", "other"], "agents": [where], "machines": [machine]}
    file.write_text(yaml.safe_dump(content))
    invoke(places, str(file), "shard_minutes=1", "--sandbox", "process", "--out", str(out))
    document = read_plan_file(out)
    assert len(document.shards) > 1
    for shard in document.shards[1:]:
        told = CliRunner().invoke(
            run_shard, [str(out), shard.id, "--out", str(runs), "--sandbox", "process", "--cases", str(places.cases)]
        )
        assert told.exit_code == 0, (told.output, told.exception)
    folders = [word for folder in runs.iterdir() for word in ("--runs", str(folder))]
    again = json.loads(invoke(places, str(file), "--missing-from", str(out), *folders, "--json"))
    lost = PlanFile.model_validate(again)
    expected = {
        run.cells[index].cell
        for part in document.shards[0].parts
        for run in document.runs
        if run.run == part.run
        for index in part.cells
    }
    assert {cell.cell for run in lost.runs for cell in run.cells} == expected
    assert lost.expected.sources.keys() <= {"measured", "agent"}
    records = [record for folder in runs.iterdir() for record in RunFolder(folder).records()]
    assert all(record.success for record in records)
    assert len(records) + len(expected) == document.expected.cells


def test_a_variant_survives_the_plan_file(places: DataFolders, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    invoke(places, "suites=plain", f"agents={places.agents / 'b'}", "settings.T=0,1", "--out", str(out))
    document = read_plan_file(out)
    found = cells_of(document.part(document.shards[0].parts[0]), places)
    assert {cell.agent.spec.environment.variables["T"] for cell in found} == {"0", "1"}


def test_the_matrix_goes_to_github(places: DataFolders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "outputs"
    monkeypatch.setenv("GITHUB_OUTPUT", str(place))
    invoke(places, "suites=plain", f"agents={places.agents / 'b'}", "--github-output")
    told = dict(line.split("=", 1) for line in place.read_text().splitlines())
    entries = json.loads(told["matrix"])["include"]
    assert told["shards"] == str(len(entries)) == "1"
    assert entries[0]["labels"] == ["ubuntu-24.04"]


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda it: it["shards"][0]["parts"][0]["cells"].pop(), "exactly one shard"),
        (lambda it: it["shards"][0]["parts"][0]["cells"].append(0), "exactly one shard"),
        (lambda it: it["shards"][0]["parts"][0].update(run="nobody"), "exactly one shard"),
        (lambda it: it["shards"][0].update(id="../x"), "field `shards.0.id`"),
        (lambda it: it.pop("runs"), "field `runs`"),
    ],
)
def test_a_plan_that_was_tampered_with_is_refused(places: DataFolders, tmp_path: Path, spoil: Any, fault: str) -> None:
    out = tmp_path / "plan.json"
    invoke(places, "suites=plain", f"agents={places.agents / 'b'}", "--out", str(out))
    content = json.loads(out.read_text())
    spoil(content)
    out.write_text(json.dumps(content))
    with pytest.raises(UserError, match=fault):
        read_plan_file(out)
