"""Times that are promised, jobs that GitHub would end, replayed calls, and plans for a budget."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from bench.base.errors import UserError
from bench.base.install import DataFolders
from bench.cli.plan import plan
from bench.formats.plan import Cell
from bench.formats.record import Record
from bench.formats.run_folder import RunFolder
from bench.plan.estimate import Estimate, History, paid_usd
from bench.plan.experiment import Experiment
from bench.plan.selection import expand_experiment
from bench.plan.shards import PlannedJob, check_job_limits, github_matrix, packed_shards, wall_seconds
from bench.plan.spread import Nights, Seen, Spreads, promised_seconds
from tests.helpers.cells import ROOT, make_agent, make_case, write_files
from tests.helpers.records import make_check, make_record

CASES = [f"case_{number}" for number in range(8)]
HOURS = 3600.0


@pytest.fixture
def places(tmp_path: Path) -> DataFolders:
    for number, name in enumerate(CASES):
        make_case(tmp_path / "cases", id=name, category=("basics", "training")[number % 2])
    for name, models in (("live", {"main": "openai/x"}), ("taped", {"main": "replay/demo"}), ("quiet", {})):
        make_agent(tmp_path / "agents", "pass", name, models=models)
    suite = {"id": "all", "version": "2026.11", "title": "all", "cases": CASES, "trials": 3}
    write_files(tmp_path / "cases" / "suites", {"all.yaml": yaml.safe_dump(suite)})
    return DataFolders(
        cases=tmp_path / "cases", agents=tmp_path / "agents", site=ROOT / "site", cache=tmp_path / "cache"
    )


def cells_of(places: DataFolders, agent: str, trials: int = 1) -> list[Cell]:
    asked = Experiment(suites=["all"], agents=[str(places.agents / agent)], trials=trials)
    return expand_experiment(asked, places)[0].cells


def asked(**machine: Any) -> Experiment:
    return Experiment.model_validate({"machines": [{"name": "cpu", "cpus": 1, "setup_s": 0, **machine}]})


def jobs_of(cells: list[Cell], hours: float) -> list[PlannedJob]:
    return [PlannedJob("run", at, cell, Estimate(hours * HOURS, 0.0, "measured")) for at, cell in enumerate(cells)]


def record_of(cell: Cell, seconds: float, run: str, trial: int, *, success: bool = True, **changes: Any) -> Record:
    made = make_record(case=cell.case.id, trial=trial, run=run, checks=None if success else [make_check(value=0.0)])
    phases = [made.phases[0].model_copy(update={"name": "agent", "seconds": seconds})]
    agent = made.agent.model_copy(update={"id": cell.agent.id, "digest": cell.agent.digest})
    name = f"{cell.id.rpartition('/')[0]}/{trial}"
    facts = {"agent": agent, "models": cell.models, "phases": phases, "cell": name, "profile": cell.profile, **changes}
    return made.model_copy(update=facts)


# --- replayed calls ---------------------------------------------------------------------------------------------------


def test_replayed_calls_cost_nothing_however_they_are_priced(places: DataFolders) -> None:
    cell, other = cells_of(places, "taped")[:2]
    history = History.of([record_of(cell, 5.0, "r", 1, cost_usd=3.0, cost_status="simulated")])
    assert history.estimate(cell).usd == 0.0
    assert (history.estimate(other).source, history.estimate(other).usd) == ("agent", 0.0)
    assert History().estimate(cell).usd == 0.0
    live = cells_of(places, "live")[0]
    assert History().estimate(live).usd == live.case.spec.limits.cost_usd
    assert History.of([record_of(live, 5.0, "r", 1, cost_usd=3.0, cost_status="exact")]).estimate(live).usd == 3.0


def test_of_roles_only_the_live_ones_are_paid() -> None:
    usage = make_record(cost_usd=1.0, cost_status="exact").usage[0]
    roles = [
        usage.model_copy(update={"model": model, "cost_usd": cost, "cost_status": status})
        for model, cost, status in (("replay/demo", 2.0, "simulated"), ("openai/x", 0.5, "exact"))
    ]
    models = {"main": "replay/demo", "judge": "openai/x"}
    record = make_record().model_copy(
        update={"models": models, "usage": roles, "cost_usd": 2.5, "cost_status": "simulated"}
    )
    assert paid_usd(record) == 0.5
    unknown = roles[1].model_copy(update={"cost_usd": None})
    assert paid_usd(record.model_copy(update={"usage": [roles[0], unknown]})) is None


# --- jobs that GitHub would end ---------------------------------------------------------------------------------------


def test_a_shard_that_github_would_end_is_refused_by_name(places: DataFolders) -> None:
    cells = cells_of(places, "quiet", trials=31)
    made = packed_shards(jobs_of(cells, 1.0), asked(count=1))
    assert made[0].seconds == 248 * HOURS
    with pytest.raises(
        UserError, match=r"takes up to 248\.0 hours, and GitHub ends a job on a hosted runner after 6"
    ) as told:
        check_job_limits(made, "auto", "night.yaml")
    for word in ("night.yaml", "cpu-001", "count of machine 'cpu'", "--runner self-hosted", "--runner local"):
        assert word in str(told.value)
    with pytest.raises(UserError, match="self-hosted runner after 120"):
        check_job_limits(made, "self-hosted", "plan")
    check_job_limits(made, "local", "plan")
    check_job_limits(packed_shards(jobs_of(cells[:100], 1.0), asked(count=1, labels=["self-hosted"])), "auto", "plan")


def test_a_shard_that_github_would_end_is_split(places: DataFolders) -> None:
    jobs = jobs_of(cells_of(places, "quiet", trials=31), 1.0)
    wide = asked().model_copy(update={"shard_minutes": 100_000.0})
    made = packed_shards(jobs, wide)
    check_job_limits(made, "auto", "plan")
    assert len(made) <= 256
    assert sorted(job.index for batch in made for job in batch.jobs) == list(range(len(jobs)))
    assert len(packed_shards(jobs, wide, "local")) == 1
    assert max(entry["minutes"] for entry in json.loads(github_matrix(made))["include"]) <= 360
    [alone] = packed_shards(jobs_of(cells_of(places, "quiet")[:1], 7.0), asked())
    with pytest.raises(UserError, match="lower the limits of the case"):
        check_job_limits([alone], "auto", "plan")


# --- promises ---------------------------------------------------------------------------------------------------------


def test_cells_side_by_side_end_as_they_would() -> None:
    cells = [("a", 5.0, None), ("b", 4.0, None), ("c", 3.0, None), ("d", 3.0, None)]
    assert promised_seconds(Nights().finish(cells, 2)) == 8.0
    assert promised_seconds(Nights().finish(cells, 1)) == 15.0


def test_a_promise_is_a_quantile_of_what_was_seen() -> None:
    rng = np.random.default_rng(0)
    seen = {
        (str(key), "", "", "mini"): [
            Seen(float(it), 0.1, f"n{night}") for night, it in enumerate(rng.lognormal(5, 0.5, 20))
        ]
        for key in range(30)
    }
    spreads = Spreads.of(seen)
    alone = [
        Nights().finish([(f"x{key}", 1.0, spreads.exact((str(key), "", "", "mini"), 1e6, 1e3))], 1) for key in range(30)
    ]
    middle, promised = np.log([(np.quantile(it, 0.5), promised_seconds(it)) for it in alone]).mean(axis=0)
    assert middle == pytest.approx(5, abs=0.1)
    assert 1.64 * 0.5 < promised - 5 < 3 * 0.5
    many = Nights().finish(
        [(f"x{key}", 1.0, spreads.exact((str(key), "", "", "mini"), 1e6, 1e3)) for key in range(30)], 1
    )
    mean = 30 * np.exp(5 + 0.125)
    assert mean * 1.1 < promised_seconds(many) < mean * 2


def test_promises_hold_for_nights_that_were_not_seen(places: DataFolders) -> None:
    cells = cells_of(places, "live", trials=3)
    late = shards = 0
    for seed in range(25):
        rng = np.random.default_rng([1, seed])
        centres = {name: rng.normal(6, 1) for name in CASES}
        records = [
            record_of(cell, float(rng.lognormal(centres[cell.case.id], 0.5)), f"night-{night}", 1)
            for night in range(5)
            for cell in cells[: len(CASES)]
        ]
        history = History.of(records)
        jobs = [PlannedJob("run", at, cell, history.estimate(cell)) for at, cell in enumerate(cells)]
        made = packed_shards(jobs, asked())
        assert wall_seconds(made) >= max(batch.seconds for batch in made)
        for batch in made:
            took = sum(float(rng.lognormal(centres[job.cell.case.id], 0.5)) for job in batch.jobs)
            late += took > batch.seconds
            shards += 1
    assert shards > 100
    assert late <= 0.05 * shards


# --- a plan for a budget ----------------------------------------------------------------------------------------------


def past(places: DataFolders, tmp_path: Path, agent: str, **changes: Any) -> Path:
    folder = RunFolder(tmp_path / f"past-{agent}")
    (folder.path / "cells").mkdir(parents=True)
    rng = np.random.default_rng(3)
    for number, cell in enumerate(cells_of(places, agent)):
        for trial in (1, 2, 3):
            record = record_of(cell, 30.0, "past", trial, success=bool(rng.random() < 0.4 + number / 12), **changes)
            folder.keep(f"{cell.case.id}.{trial}", record.to_line().encode())
    return folder.path


def invoke(places: DataFolders, *words: str) -> Any:
    return CliRunner().invoke(plan, ["suites=all", *words, "--cases", str(places.cases)])


def test_a_budget_goes_in_and_a_chance_comes_out(places: DataFolders, tmp_path: Path) -> None:
    runs = ["--runs", str(past(places, tmp_path, "live", cost_usd=0.1, cost_status="exact"))]
    agent = f"agents={places.agents / 'live'}"
    found = json.loads(invoke(places, agent, *runs, "--budget", "6", "--detect", "20", "--json").stdout)
    told = found["detection"]
    cells = found["runs"][0]["cells"]
    assert {cell["case"] for cell in cells} == set(told["cases"])
    assert len(cells) == len(told["cases"]) * told["trials"]
    assert told["estimate_of"] == "this selection"
    assert told["usd"] == pytest.approx(0.1 * len(cells))
    assert told["usd_interval"][1] <= 6
    assert 0 <= told["power_interval"][0] <= told["power"] <= told["power_interval"][1] <= 1
    text = invoke(places, agent, *runs, "--budget", "6", "--detect", "20").output
    assert "of this selection, not of the suite" in text
    assert "against a base with as many trials" in text
    refused = invoke(places, agent, *runs, "--budget", "0.4")
    assert "may cost" in str(refused.exception) and "raise --budget" in str(refused.exception)
    for words, fault in (
        (["--budget", "5"], "needs a history"),
        ([*runs, "--budget", "5", "mode=changed"], "cannot be combined with mode=changed"),
        ([*runs, "--budget", "5", f"agents={places.agents / 'live'},{places.agents / 'quiet'}"], "one comparison"),
    ):
        assert fault in str(invoke(places, agent, *words).exception)


def test_a_replayed_agent_is_planned_for_nothing(places: DataFolders, tmp_path: Path) -> None:
    runs = ["--runs", str(past(places, tmp_path, "taped", cost_usd=5.0, cost_status="simulated"))]
    agent = f"agents={places.agents / 'taped'}"
    found = json.loads(invoke(places, agent, *runs, "--budget", "0.01", "--detect", "20", "--json").stdout)
    assert found["detection"]["usd_interval"] == [0.0, 0.0]
    assert found["expected"]["model_usd"] == 0.0
