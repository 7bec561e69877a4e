"""Rounds and looks: one look after each round, never a second one, and nothing runs after the verdict."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from bench.base.errors import UserError
from bench.cli.main import cli
from bench.formats.plan import Cell, RunPlan, make_run_plan
from bench.formats.record import Outcome, Record
from bench.formats.run_folder import RunFolder
from bench.runs.rounds import LEDGER, LookLedger, design_of, needless_cells, rounds_of, run_rounds
from bench.runs.seeds import reveal_seeds
from bench.stats import make_sequential
from tests.helpers.cells import RIGHT, ROOT, WRONG, make_agent, make_case, write_files
from tests.helpers.records import START, make_check, make_provenance, make_record

CASES, ROUNDS = 12, 3
DESIGN = make_sequential(CASES, ROUNDS)


class Experiment:
    """A run folder whose cells are not run: their records are written as `fate` says."""

    def __init__(self, folder: Path) -> None:
        self.folder = RunFolder(folder)
        agents = {arm: make_agent(folder / arm, arm, "mine") for arm in ("base", "head")}
        cases = [make_case(folder / "cases", id=f"case_{number:02}") for number in range(CASES)]
        self.cells = [
            Cell(agents[arm], {}, case, "mini", trial, arm)
            for trial in range(1, ROUNDS + 1)
            for case in cases
            for arm in ("base", "head")
        ]
        plan = make_run_plan("ab", "plain", "2026.11", "mini", "process", self.cells)
        self.plan = plan.model_copy(update={"sequential": DESIGN})
        self.folder.write_plan(self.plan)
        self.ran: list[str] = []
        self.told: list[str] = []
        self.dies_at = 0
        """Round in which the runner is killed; 0: none."""
        self.lost: set[str] = set()
        self.head = 0
        """Cases in which head fails, of each round."""

    def record(self, cell: Cell) -> Record:
        outcome: Outcome = "infra" if cell.id in self.lost else "graded"
        number = int(cell.case.id[-2:])
        return make_record(
            agent="mine",
            case=cell.case.id,
            trial=cell.trial,
            outcome=outcome,
            cell=cell.id,
            arm=cell.arm,
            checks=[make_check(value=float(cell.arm == "base" or number >= self.head))],
            started=START + timedelta(minutes=cell.trial),
            provenance=make_provenance("ab").model_copy(update={"sequential": DESIGN}),
        )

    def run_some(self, cells: Sequence[Cell]) -> list[Record]:
        for number, cell in enumerate(cells):
            if cell.trial == self.dies_at and number == len(cells) // 2:
                raise KeyboardInterrupt
            if self.folder.finished(cell) is None:
                self.ran.append(cell.id)
                self.folder.keep(cell.slug, self.record(cell).to_line().encode() + b"\n")
        wanted = {cell.id for cell in cells}
        return [record for record in self.folder.records() if record.cell in wanted]

    def go(self) -> list[Record]:
        return run_rounds(self.cells, DESIGN, self.folder, self.run_some, self.told.append)

    @property
    def ledger(self) -> Path:
        return self.folder.path / LEDGER


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return Experiment(tmp_path / "run")


def test_looks_end_an_experiment_as_soon_as_they_decide(experiment: Experiment) -> None:
    experiment.head = 9
    records = experiment.go()
    looks = LookLedger(experiment.folder.path).looks()
    assert [(look.round, look.decision) for look in looks] == [(1, "go on"), (2, "regression")]
    assert len(records) == len(experiment.ran) == 2 * 2 * CASES
    assert [line.partition(":")[0] for line in experiment.told] == ["look 1", "look 2"]
    assert needless_cells(experiment.plan, records) == {cell.id for cell in experiment.cells if cell.trial == 3}


def test_a_finished_experiment_runs_and_looks_at_nothing_again(experiment: Experiment) -> None:
    experiment.head = 9
    first = experiment.go()
    written = experiment.ledger.read_bytes()
    experiment.ran.clear()
    assert experiment.go() == first
    assert (experiment.ran, experiment.ledger.read_bytes()) == ([], written)


@pytest.mark.parametrize("round_", [1, 2, 3])
def test_a_killed_run_goes_on_with_the_same_looks(experiment: Experiment, tmp_path: Path, round_: int) -> None:
    whole = Experiment(tmp_path / "whole")
    experiment.head = whole.head = 3
    whole.go()
    experiment.dies_at = round_
    with pytest.raises(KeyboardInterrupt):
        experiment.go()
    before = experiment.ledger.read_bytes() if round_ > 1 else b""
    assert before.count(b"\n") == round_ - 1
    experiment.dies_at = 0
    experiment.go()
    assert experiment.ledger.read_bytes() == whole.ledger.read_bytes()
    assert experiment.ledger.read_bytes().startswith(before)
    assert len(experiment.ran) == len(set(experiment.ran)) == len(whole.ran)


def test_a_lost_cell_of_a_closed_round_is_not_run_again(experiment: Experiment) -> None:
    """A look that is made again on other data would be one look more than the boundaries are for."""
    experiment.head = 3
    experiment.lost = {experiment.cells[0].id}
    experiment.dies_at = 2
    with pytest.raises(KeyboardInterrupt):
        experiment.go()
    assert LookLedger(experiment.folder.path).looks()[0].cases == CASES - 1
    experiment.dies_at, experiment.lost = 0, set()
    experiment.go()
    assert experiment.ran.count(experiment.cells[0].id) == 1


def test_a_round_that_lost_too_much_is_run_again_before_it_is_looked_at(experiment: Experiment) -> None:
    experiment.lost = {cell.id for cell in experiment.cells[:8]}
    experiment.go()
    assert not experiment.ledger.exists()
    assert "no look: round 1 lost 4 of 12 cases" in experiment.told[0]
    experiment.lost = set()
    experiment.go()
    assert LookLedger(experiment.folder.path).looks()[0].cases == CASES


def test_records_that_changed_after_their_look_are_refused(experiment: Experiment) -> None:
    experiment.head = 3
    experiment.go()
    cell = experiment.cells[1]
    changed = experiment.record(cell).model_copy(update={"success": True, "score": 1.0})
    experiment.folder.keep(cell.slug, changed.to_line().encode() + b"\n")
    with pytest.raises(UserError, match="round 1 was looked at"):
        experiment.go()


@pytest.mark.parametrize("damage", ["edited", "cut", "gone", "doubled"])
def test_a_ledger_that_is_not_what_was_written_is_refused(experiment: Experiment, damage: str) -> None:
    experiment.head = 3
    experiment.go()
    data = experiment.ledger.read_bytes()
    first = data.partition(b"\n")[0] + b"\n"
    if damage == "gone":
        experiment.ledger.unlink()
    else:
        new = {"edited": data.replace(b"go on", b"no drop", 1), "cut": data[:-20], "doubled": first + data}
        experiment.ledger.write_bytes(new[damage])
    with pytest.raises(UserError, match=r"looks were made|does not match its checksum"):
        experiment.go()


def test_a_decided_experiment_has_ended_for_the_reveal_of_its_seeds(experiment: Experiment) -> None:
    experiment.head = 9
    experiment.go()
    plan = json.loads((experiment.folder.path / "run.json").read_text())
    assert plan["sequential"]["boundaries"] == DESIGN.boundaries
    with pytest.raises(UserError, match="ran without a secret"):
        reveal_seeds([experiment.folder.path])
    from bench.runs.seeds import _Part

    assert _Part.of(experiment.folder.path).unfinished == []


@pytest.mark.parametrize("trials", [1, 51])
def test_rounds_are_two_to_fifty(trials: int) -> None:
    with pytest.raises(UserError, match="2 to 50"):
        rounds_of(trials)
    assert (rounds_of(None), rounds_of(3)) == (5, 3)


def test_one_case_is_too_few_to_look_at(experiment: Experiment) -> None:
    with pytest.raises(UserError, match="1 case"):
        design_of([cell for cell in experiment.cells if cell.case.id == "case_00"])


def test_until_decided_needs_a_base() -> None:
    done = CliRunner().invoke(cli, ["run", "--agent", "nop", "--until-decided"])
    assert isinstance(done.exception, UserError)
    assert "needs two arms" in str(done.exception)


# --- the whole, for real ----------------------------------------------------------------------------------------------


def start(room: Path, *arguments: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "ML_DEV_BENCH_CACHE": str(room / "cache")}
    options = ["--sandbox", "process", "--cases", str(room / "cases"), "--jobs", "2"]
    return subprocess.Popen(
        [sys.executable, "-m", "bench", "run", *options, *arguments],
        cwd=room, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def invoke(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, arguments)
    return done.exit_code, done.output


def test_two_arms_run_in_turns_are_killed_between_looks_and_go_on(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_case(tmp_path / "cases", id=name)
    suite = {"id": "pair", "version": "2026.11", "title": "pair", "cases": ["one", "two"], "trials": 1}
    write_files(tmp_path / "cases" / "suites", {"pair.yaml": yaml.safe_dump(suite)})
    for folder, answer in (("old", RIGHT), ("new", WRONG)):
        make_agent(tmp_path / folder, f"open('answer.py', 'w').write({answer!r})", "mine")
    asked = ["--suite", "pair", "--agent", "./new/mine", "--base", "./old/mine", "--until-decided", "--trials", "2"]
    first = start(tmp_path, *asked, "--name", "ab")
    run = tmp_path / "runs" / "ab"
    until = time.monotonic() + 120
    while not (run / LEDGER).exists():
        assert first.poll() is None, first.communicate()[1].decode()
        assert time.monotonic() < until
        time.sleep(0.005)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    looked = (run / LEDGER).read_bytes()
    unfinished = invoke("compare", str(run))
    second = start(tmp_path, "--resume", "runs/ab")
    output, errors = second.communicate(timeout=200)
    assert second.returncode == 0, errors.decode()
    if looked.count(b"\n") == 1:
        assert unfinished[0] == 3
        assert "NO VERDICT" in unfinished[1]
        assert "round 2 of at most 2" in unfinished[1]
    assert (run / LEDGER).read_bytes().startswith(looked)

    records = RunFolder(run).records()
    assert {(it.arm, it.trial, it.case.id): it.success for it in records} == {
        (arm, trial, case): arm == "base" for arm in ("base", "head") for trial in (1, 2) for case in ("one", "two")
    }
    assert len({it.agent.digest for it in records}) == 2
    assert len({(it.arm, it.agent.digest) for it in records}) == 2
    for case in ("one", "two"):
        seeds = {(it.trial, it.seed_commitment) for it in records if it.case.id == case}
        assert len(seeds) == 2, "both arms meet the same data"
    plan = RunPlan.model_validate_json((run / "run.json").read_bytes())
    assert "".join(cell.arm[0] for cell in plan.cells) == "bhhb" + "hbbh"

    said = "undecided: neither a change nor the absence of a loss of 10 points was shown; 2 of at most 2 looks"
    assert said in output.decode()
    status, text = invoke("compare", str(run))
    assert (status, text.splitlines()[0]) == (3, "UNDECIDED")
    assert "look 2: -100.0 points over 2 cases" in text
    status, text = invoke("compare", f"{run}:base", f"{run}:head", "--json")
    assert (status, json.loads(text)["sequential"]["trials_saved"]) == (3, 0)
    status, text = invoke("compare", str(run), str(run))
    assert "holds two arms" in str(CliRunner().invoke(cli, ["compare", str(run), str(run)]).exception)
    status, text = invoke("results", "show", str(run))
    assert [line for line in text.splitlines() if line in ("base:", "head:")] == ["base:", "head:"]
    status, text = invoke("results", "show", str(run), "--arm", "base", "--cells")
    assert text.count("mine (base)") == 4
    assert "head" not in text
    status, text = invoke("summary", str(run))
    assert "mine (base)" in text
    assert "- look 1" in text
