"""Rounds in shards: the look between two of them is made once, by one job, into a ledger on the results branch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from bench.base.errors import UserError
from bench.cli.plan_earlier import with_designs
from bench.formats.plan import Cell, PlanFile, read_plan_file
from bench.formats.record import Record
from bench.formats.suite import load_suite
from bench.plan.document import plan_document
from bench.plan.estimate import History
from bench.plan.experiment import Experiment
from bench.plan.rounds import packed_rounds
from bench.plan.selection import RunCells
from bench.plan.shards import PlannedJob
from bench.runs.rounds import cells_not_due
from bench.runs.shard_rounds import cells_due, look_at_rounds
from bench.store.audit import Audit
from bench.store.branch import ResultsBranch
from bench.store.bundle import Bundle
from bench.store.reader import open_copy
from tests.helpers.cells import RIGHT, ROOT, WRONG, make_agent, make_case, write_files
from tests.helpers.records import START, make_check, make_provenance, make_record

CASES, ROUNDS = 12, 3


class Night:
    """A plan in rounds and the branch on which the records of its rounds are stored."""

    def __init__(self, folder: Path) -> None:
        names = [f"case_{number:02}" for number in range(CASES)]
        cases = [make_case(folder / "cases", id=name) for name in names]
        suite = {"id": "pair", "version": "2026.11", "title": "pair", "cases": names, "trials": 1}
        write_files(folder / "cases" / "suites", {"pair.yaml": yaml.safe_dump(suite)})
        agents = {arm: make_agent(folder / arm, arm, "mine") for arm in ("base", "head")}
        cells = [
            Cell(agents[arm], {}, case, "mini", trial, arm)
            for trial in range(1, ROUNDS + 1)
            for case in cases
            for arm in ("base", "head")
        ]
        asked = Experiment(name="night", suites=["pair"], agents=["head"], base="base", until_decided=True)
        part = RunCells("ab", load_suite(folder / "cases", "pair"), "mini", cells)
        jobs = [PlannedJob("ab", at, cell, History().estimate(cell)) for at, cell in enumerate(cells)]
        self.rounds = packed_rounds(jobs, asked)
        made = [batch for one in self.rounds for batch in one]
        self.plan: PlanFile = with_designs(plan_document(asked, [part], made, "process"), [part])
        self.repository = folder / "results.git"
        self.branch = ResultsBranch(self.repository, "mldb-results")
        self.branch.ensure()
        self.cells = cells

    def store(self, trial: int, *, fails: int = 0, lost: Sequence[str] = (), attempt: int = 0) -> None:
        """Store a round, in which head fails `fails` cases and `lost` cells have no verdict."""
        design = self.plan.runs[0].sequential
        records: list[Record] = [
            make_record(
                agent="mine", case=cell.case.id, trial=trial, cell=cell.id, arm=cell.arm,
                outcome="infra" if cell.id in lost else "graded",
                checks=[make_check(value=float(cell.arm == "base" or int(cell.case.id[-2:]) >= fails))],
                provenance=make_provenance("ab").model_copy(update={"sequential": design}),
            )
            for cell in self.cells
            if cell.trial == trial
        ]  # fmt: skip
        self.branch.commit(Bundle("ab", attempt or trial, records, START, [], {}))

    def look(self) -> list[tuple[str, int | None]]:
        """The decisions of all looks made, and the round that is due."""
        states = look_at_rounds(self.plan, list(self.branch.records()), self.branch)
        return [(", ".join(look.decision for look in state.looks), state.due) for state in states]


@pytest.fixture
def night(tmp_path: Path) -> Night:
    return Night(tmp_path)


def test_no_shard_has_two_rounds_and_the_arms_of_a_case_are_together(night: Night) -> None:
    run = night.plan.runs[0]
    for shard in night.plan.shards:
        cells = [run.cells[index] for part in shard.parts for index in part.cells]
        assert {f"r{cell.trial}" for cell in cells} == {shard.id.partition("-")[0]}
        assert {cell.case for cell in cells if cell.arm == "base"} == {it.case for it in cells if it.arm == "head"}
    assert run.sequential is not None and run.sequential.rounds == ROUNDS


def test_each_complete_round_is_looked_at_until_one_decides(night: Night) -> None:
    night.store(1, fails=9)
    assert night.look() == [("go on", 2)]
    assert cells_due(look_at_rounds(night.plan, list(night.branch.records()), night.branch)) == {"ab": 2}
    assert len(night.branch.looks("ab")) == 1
    night.store(2, fails=9)
    assert night.look() == [("go on, regression", None)]
    assert [json.loads(line)["decision"] for line in night.branch.looks("ab")] == ["go on", "regression"]
    assert night.look() == [("go on, regression", None)]
    with open_copy(night.repository, "mldb-results", history=True) as copy:
        assert list(Audit(copy).findings()) == []


def test_a_round_that_lost_too_much_waits_and_one_that_was_looked_at_is_closed(night: Night) -> None:
    lost = [cell.id for cell in night.cells if cell.trial == 1][:6]
    night.store(1, lost=lost)
    (state,) = look_at_rounds(night.plan, list(night.branch.records()), night.branch)
    assert state.due == 1 and "lost 3 of 12 cases" in state.waits_for
    assert night.branch.looks("ab") == []
    night.branch.add_look("ab", 1, b"{}\n")
    with pytest.raises(UserError, match="already, with other content"):
        night.branch.add_look("ab", 1, b"[]\n")


def test_records_that_change_after_their_look_stop_the_experiment(night: Night) -> None:
    lost = [night.cells[0].id]
    night.store(1, lost=lost)
    assert night.look() == [("go on", 2)]
    night.store(1, fails=12, attempt=7)
    with pytest.raises(UserError, match="round 1 was looked at, and its records or rules have changed"):
        night.look()


def test_rounds_to_come_are_not_missing(night: Night) -> None:
    run = night.plan.runs[0]
    first = [make_record(case=cell.case.id, trial=1, cell=cell.id, run="ab") for cell in night.cells if cell.trial == 1]
    assert cells_not_due(run, []) == cells_not_due(run, first) == {it.id for it in night.cells if it.trial > 1}
    assert cells_not_due(run.model_copy(update={"sequential": None}), first) == set()


def test_a_plan_without_rounds_has_none_to_follow(night: Night) -> None:
    runs = [run.model_copy(update={"sequential": None}) for run in night.plan.runs]
    with pytest.raises(UserError, match="without rounds"):
        look_at_rounds(night.plan.model_copy(update={"runs": runs}), [], night.branch)


# --- the whole, for real ----------------------------------------------------------------------------------------------


def mldb(room: Path, *arguments: str, status: int = 0) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "ML_DEV_BENCH_CACHE": str(room / "cache")}
    env |= {"MLDB_SEED_SECRET": "s" * 40, "GITHUB_OUTPUT": str(room / "output")}
    done = subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        check=False, cwd=room, env=env, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.nightly
@pytest.mark.slow
def test_rounds_run_in_shards_and_end_after_the_last_look(tmp_path: Path) -> None:
    names = ["one", "two", "three"]
    for name in names:
        make_case(tmp_path / "cases", id=name)
    suite = {"id": "pair", "version": "2026.11", "title": "pair", "cases": names, "trials": 1}
    write_files(tmp_path / "cases" / "suites", {"pair.yaml": yaml.safe_dump(suite)})
    for folder, answer in (("old", RIGHT), ("new", WRONG)):
        make_agent(tmp_path / folder, f"open('answer.py', 'w').write({answer!r})", "mine")
    asked = ["name=ab", "suites=pair", "agents=./new/mine", "base=./old/mine", "until_decided=true", "trials=2"]
    cases, stored = ["--cases", "cases"], ["--results", "results.git"]
    matrix = ["--sandbox", "process", "--github-output", *cases]
    mldb(tmp_path, "plan", *asked, *matrix, "--out", "plan.json")
    plan = "plan.json"
    for number in (1, 2):
        outputs = dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())
        shards = [entry["shard"] for entry in json.loads(outputs["matrix"])["include"]]
        assert shards and len(read_plan_file(tmp_path / plan).runs[0].cells) == 12 // number
        artifacts = tmp_path / f"artifacts{number}"
        for shard in shards:
            mldb(tmp_path, "run-shard", plan, shard, "--sandbox", "process", "--out", str(artifacts), *cases)
        said = mldb(
            tmp_path, "results", "collect", str(artifacts), "--plan", plan, *stored, *cases, "--attempt", str(number)
        )
        assert "6 of" in said and "0 missing; 0 refused" in said
        said = mldb(tmp_path, "plan", "--next-round", "plan.json", *stored, *matrix, "--out", "next.json")
        assert f"ab: look {number}: -100.0 points over 3 cases" in said
        plan = "next.json"
    assert "nothing to run" in said
    outputs = dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())
    assert (outputs["decided"], outputs["shards"]) == ("true", "0")
    said = mldb(tmp_path, "compare", "run:ab", *stored, status=3)
    assert said.startswith("UNDECIDED")
    said = mldb(tmp_path, "plan", "--missing-from", "plan.json", *stored, *matrix, status=2)
    assert "say --next-round in place of --missing-from" in said
