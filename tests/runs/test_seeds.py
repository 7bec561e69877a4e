"""The secret of an experiment's seeds: drawn by default, kept apart, shared by arms and shards, never told."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from bench.base.errors import UserError
from bench.base.install import DataFolders, find_data_folders
from bench.cli.cases_data import build_data
from bench.cli.main import cli
from bench.formats.plan import Cell, RunPlan, read_plan_file
from bench.formats.record import Record
from bench.formats.run_folder import SECRET, RunFolder
from bench.formats.seeds import REVEALED, RevealedSeeds, SeedSecret
from bench.plan.selection import Request
from bench.runs.execute import Options, plan_and_run, run_plan
from bench.runs.observer import RunObserver
from bench.runs.seeds import EXPERIMENT, VARIABLE, close_drawn, reveal_seeds, secret_beside
from bench.sandbox.process import ProcessSandbox
from bench.store import ResultsBranch, publish
from tests.helpers.cells import make_agent, make_case, make_cell, make_context, write_files

GIVEN = "a secret that nobody can guess"
DATA = """
import time
def build(public, hidden, profile, seed):
    (public / "seed.txt").write_text(f"{seed:032x}")
    (hidden / "answers.txt").write_text(f"of {seed:032x}")
"""
# The agent says what it met in a way that only the test undoes, so that a search finds who else wrote the seed down.
AGENT = """
import os
open(os.environ["BENCH_OUT_DIR"] + "/met.txt", "w").write(open("seed.txt").read()[::-1])
"""


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataFolders:
    for name in (VARIABLE, EXPERIMENT, "MLDB_RECORD", "GITHUB_ACTIONS", "GITHUB_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ML_DEV_BENCH_CACHE", str(tmp_path / "cache"))
    make_case(tmp_path / "cases", {"data.py": DATA})
    suite = {"id": "one", "version": "2026.11", "title": "One", "cases": ["double_it"], "trials": 2}
    write_files(tmp_path / "cases" / "suites", {"one.yaml": yaml.safe_dump(suite)})
    for name in ("base", "head"):
        make_agent(tmp_path / "agents", AGENT, name)
    return find_data_folders(cases=tmp_path / "cases")


class Lab:
    """Runs both agents on both trials."""

    def __init__(self, places: DataFolders, folder: Path) -> None:
        self.places = places
        self.folder = folder

    def run(self, name: str, seed_secret: str | None = None) -> list[Record]:
        agents = [str(self.folder / "agents" / name) for name in ("base", "head")]
        _, records = plan_and_run(
            Request("one", agents),
            self.folder / name,
            self.places,
            ProcessSandbox,
            Options(seed_secret=seed_secret),
            RunObserver(),
        )
        return records

    def resume(self, name: str) -> list[Record]:
        folder = self.folder / name
        plan = RunFolder(folder).read_plan()
        return run_plan(plan, None, folder, self.places, ProcessSandbox(), Options(), RunObserver())

    def met(self, name: str) -> dict[str, str]:
        """The seed that each cell met."""
        traces = (self.folder / name / "traces").glob("*/out/met.txt")
        return {path.parents[1].name.split(".")[0]: path.read_text()[::-1] for path in traces}

    def lose(self, name: str) -> None:
        """Take a record away, as if the run had been killed before it."""
        sorted((self.folder / name / "cells").glob("*.json"))[0].unlink()


@pytest.fixture
def lab(places: DataFolders, tmp_path: Path) -> Lab:
    return Lab(places, tmp_path)


def everything_in(folder: Path, *, without: tuple[str, ...] = (SECRET,)) -> str:
    """Every file's name and content."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in without]
    return "\n".join(f"{path}\n{path.read_bytes().decode('utf-8', 'replace')}" for path in files)


def by_trial(met: dict[str, str]) -> dict[str, set[str]]:
    """The seeds met at each trial, whatever the agent."""
    trials: dict[str, set[str]] = {}
    for slug, seed in met.items():
        trials.setdefault(slug[-1], set()).add(seed)
    return trials


# --- drawn by default ------------------------------------------------------------------------------------------------


def test_a_run_draws_a_secret_and_tells_only_its_fingerprint(lab: Lab, tmp_path: Path) -> None:
    records = lab.run("drawn")
    kept = tmp_path / "drawn" / SECRET
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    secret = kept.read_text().strip()
    assert len(bytes.fromhex(secret)) * 8 >= 128
    plan = RunFolder(tmp_path / "drawn").read_plan()
    assert plan.seed_secret == SeedSecret(secret.encode()).fingerprint != ""
    assert {record.provenance.seed_secret for record in records} == {plan.seed_secret}
    assert {record.seed_source for record in records} == {"secret"}
    met = lab.met("drawn")
    assert {len(seeds) for seeds in by_trial(met).values()} == {1}, "arms of one experiment meet the same data"
    assert len(set(met.values())) == 2
    text = everything_in(tmp_path / "drawn") + everything_in(tmp_path / "cache")
    told = [word for word in (secret, *met.values(), *(str(int(seed, 16)) for seed in met.values())) if word in text]
    assert told == [], "neither the secret nor a derived seed is in any other file"
    assert not (tmp_path / "drawn" / "scratch").exists(), "hidden data that derive from a secret do not stay"
    lab.run("other")
    assert not set(lab.met("other").values()) & set(met.values())


def test_what_is_published_holds_neither_secret_nor_seed(lab: Lab, tmp_path: Path) -> None:
    records = lab.run("drawn")
    secret = (tmp_path / "drawn" / SECRET).read_text().strip()
    plan = RunFolder(tmp_path / "drawn").read_plan()
    publish(plan, records, str(tmp_path / "results"), "mldb-results", tmp_path / "drawn")
    stored = list(ResultsBranch(tmp_path / "results").records())
    commitments = {record.cell: record.seed_commitment for record in records}
    assert {record.cell: record.seed_commitment for record in stored} == commitments
    lines = "".join(record.to_line() for record in stored)
    assert not [word for word in (secret, *lab.met("drawn").values()) if word in lines]


def test_a_continued_run_meets_the_same_data(lab: Lab, tmp_path: Path) -> None:
    lab.run("drawn")
    before = lab.met("drawn")
    lab.lose("drawn")
    lab.resume("drawn")
    assert lab.met("drawn") == before
    lab.lose("drawn")
    (tmp_path / "drawn" / SECRET).unlink()
    with pytest.raises(UserError, match="is gone"):
        lab.resume("drawn")


def test_a_run_that_exists_keeps_its_secret(lab: Lab, tmp_path: Path) -> None:
    lab.run("drawn")
    before = (tmp_path / "drawn" / SECRET).read_bytes()
    with pytest.raises(UserError, match="holds a run already"):
        lab.run("drawn")
    assert (tmp_path / "drawn" / SECRET).read_bytes() == before


def test_without_a_secret_it_must_be_asked_for_and_is_marked(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = ["--agent", str(tmp_path / "agents" / "base")]
    told = mldb(
        "run", "--suite", "one", *agents, "--cases", str(tmp_path / "cases"), "--out", str(tmp_path), "--name", "open",
        "--sandbox", "process", "--no-seed-secret",
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    assert "marked: 2 of 2 cells met public data" in told.output
    records = RunFolder(tmp_path / "open").records()
    assert {record.seed_source for record in records} == {"public"}
    assert {record.seed_commitment for record in records} == {""}
    assert not (tmp_path / "open" / SECRET).exists()
    assert "**2 cells on public seeds**" in mldb("summary", str(tmp_path / "open")).output
    monkeypatch.setenv(VARIABLE, "")
    assert {record.seed_source for record in lab.run("empty")} == {"public"}
    assert set(lab.met("open").values()) == set(lab.met("empty").values())
    monkeypatch.setenv(VARIABLE, GIVEN)
    lab.lose("empty")
    with pytest.raises(UserError, match="is set now, and was not"):
        lab.resume("empty")


# --- given -----------------------------------------------------------------------------------------------------------


def test_a_given_secret_is_never_written_and_pairs_runs_of_one_experiment(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, GIVEN)
    met = {}
    for name, experiment in (("one", ""), ("two", ""), ("three", "night-1"), ("four", "night-1"), ("five", "night-2")):
        monkeypatch.setenv(EXPERIMENT, experiment)
        records = lab.run(name)
        met[name] = lab.met(name)
        assert GIVEN not in everything_in(tmp_path / name, without=())
        assert {record.seed_source for record in records} == {"secret"}
    assert met["one"] == met["two"] and met["three"] == met["four"]
    assert len({frozenset(seeds.values()) for seeds in met.values()}) == 3
    monkeypatch.delenv(EXPERIMENT)
    lab.lose("three")
    lab.resume("three")
    assert lab.met("three") == met["three"], "the plan remembers its experiment"
    lab.lose("three")
    for wrong, fault in (("", "is gone"), ("another secret, as long as that", "is not what the run began with")):
        monkeypatch.setenv(VARIABLE, wrong)
        with pytest.raises(UserError, match=fault):
            lab.resume("three")
    monkeypatch.setenv(VARIABLE, "short")
    with pytest.raises(UserError, match="the fewest"):
        lab.run("six")


def test_a_recording_has_public_seeds_and_takes_no_secret(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLDB_RECORD", "1")
    assert {record.seed_source for record in lab.run("recording")} == {"public"}
    monkeypatch.setenv(VARIABLE, GIVEN)
    with pytest.raises(UserError, match="a cassette tells its seed"):
        lab.run("both")


# --- replays ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heading", "seed"),
    [
        ("", None),
        (f"seed: '{'0' * 31}5'\n", 5),
        (f"seed: {'ab' * 16}\n", int("ab" * 16, 16)),
        ("seed: nonsense\n", None),
    ],
)
def test_a_replay_meets_the_data_of_its_recording_whatever_the_secret(
    tmp_path: Path, heading: str, seed: int | None
) -> None:
    agent = make_agent(tmp_path / "agents", AGENT, models={"main": "replay/demo"})
    write_files(agent.folder / "cassettes" / "demo", {"double_it.yaml": f"schema: 2\nmodel: some/model\n{heading}"})
    case = make_case(tmp_path / "cases", {"data.py": DATA})
    cell = Cell(agent, {"main": "replay/demo"}, case, "mini", 1)
    for key in (b"", b"k" * 32):
        context = make_context(tmp_path, ProcessSandbox(), seed_key=key)
        assert context.seed_source(cell) == "recorded"
        assert context.data_seed(cell) == (context.seed(cell) if seed is None else seed)
        assert context.seed_commitment(cell) == ""
        live = make_cell(make_agent(tmp_path / "agents", AGENT, "live"), case)
        assert context.data_seed(live) != context.data_seed(cell)


# --- shards ----------------------------------------------------------------------------------------------------------


def mldb(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words), catch_exceptions=True)


def planned(tmp_path: Path, *words: str) -> Path:
    out, file = tmp_path / "plan.json", tmp_path / "night.yaml"
    machine = {"name": "cpu", "cpus": 1, "memory_mb": 4000, "setup_s": 0}
    agents = [str(tmp_path / "agents" / name) for name in ("base", "head")]
    file.write_text(
        json.dumps({"schema": 1, "name": "night", "suites": ["one"], "agents": agents, "machines": [machine]})
    )
    words = ("shard_minutes=0.1", "--cases", str(tmp_path / "cases"), "--out", str(out), "--sandbox", "process", *words)
    told = mldb("plan", str(file), *words)
    assert told.exit_code == 0, (told.output, told.exception)
    return out


def run_shards(plan: Path, tmp_path: Path, count: int | None = None) -> list[Path]:
    """Run the first `count` shards; returns the folders."""
    shards = read_plan_file(plan).shards
    assert len(shards) > 1
    for shard in shards[:count]:
        told = mldb(
            "run-shard", str(plan), shard.id, "--out", str(tmp_path / "shards"), "--sandbox", "process",
            "--cases", str(tmp_path / "cases"),
        )  # fmt: skip
        assert told.exit_code == 0, (told.output, told.exception)
    return sorted((tmp_path / "shards").iterdir())


def test_a_plan_keeps_its_secret_beside_itself_and_shards_share_it(lab: Lab, tmp_path: Path) -> None:
    plan = planned(tmp_path)
    kept = secret_beside(plan)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 and kept.name.startswith(".")
    secret = kept.read_text().strip()
    assert secret not in plan.read_text()
    folders = run_shards(plan, tmp_path, 1)
    with pytest.raises(UserError, match="of the experiment's 4 cells are in these folders"):
        reveal_seeds(folders, plan)
    folders = run_shards(plan, tmp_path)
    assert secret not in "".join(everything_in(folder, without=()) for folder in folders)
    met = {slug: seed for folder in folders for slug, seed in lab.met(f"shards/{folder.name}").items()}
    assert {len(seeds) for seeds in by_trial(met).values()} == {1}
    with pytest.raises(UserError, match="cells are in these folders"):
        reveal_seeds(folders[1:], plan)
    with pytest.raises(UserError, match="is gone"):
        reveal_seeds(folders)
    revealed = reveal_seeds(folders, plan)
    assert {item.seed for item in revealed.seeds} == set(met.values())
    assert secret not in "".join(everything_in(folder, without=()) for folder in folders)


@pytest.mark.parametrize("where", ["GITHUB_ACTIONS", "--github-output"])
def test_a_plan_for_other_machines_draws_nothing_and_says_so(
    places: DataFolders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "outputs"))
    if where == "GITHUB_ACTIONS":
        monkeypatch.setenv(where, "true")
    words = [where] if where.startswith("--") else []
    plan = planned(tmp_path, *words)
    assert {run.seed_secret for run in read_plan_file(plan).runs} == {""}
    assert not secret_beside(plan).exists()
    monkeypatch.setenv(VARIABLE, GIVEN)
    monkeypatch.setenv("GITHUB_RUN_ID", "4711")
    plan = planned(tmp_path, *words)
    (run,) = read_plan_file(plan).runs
    assert (run.experiment, run.seeds_shared, run.experiment_cells) == ("gh-4711", True, 4)
    assert run.seed_secret == SeedSecret(GIVEN.encode(), "gh-4711").fingerprint
    assert not secret_beside(plan).exists()
    written = [path for path in tmp_path.iterdir() if path.is_file()]
    assert not [path for path in written if GIVEN in path.read_text()]
    # A shard elsewhere, without the secret, does not start with other data.
    monkeypatch.delenv(VARIABLE)
    told = mldb("run-shard", str(plan), read_plan_file(plan).shards[0].id, "--out", str(tmp_path / "s"),
                "--sandbox", "process", "--cases", str(tmp_path / "cases"))  # fmt: skip
    assert isinstance(told.exception, UserError | SystemExit) and told.exit_code != 0
    assert not list((tmp_path / "s").rglob("cells/*.json"))


def test_missing_cells_keep_the_secret_of_their_experiment(places: DataFolders, tmp_path: Path) -> None:
    plan = planned(tmp_path)
    run_shards(plan, tmp_path, 1)
    secret, (before,) = secret_beside(plan).read_bytes(), read_plan_file(plan).runs
    later = tmp_path / "later.json"
    folders = [word for folder in (tmp_path / "shards").iterdir() for word in ("--runs", str(folder))]
    told = mldb("plan", "--missing-from", str(plan), *folders, "--cases", str(tmp_path / "cases"), "--out", str(later))
    assert told.exit_code == 0, (told.output, told.exception)
    (run,) = read_plan_file(later).runs
    assert (run.seed_facts, secret_beside(later).read_bytes()) == (before.seed_facts, secret)


# --- reveal ----------------------------------------------------------------------------------------------------------


def test_derived_seeds_are_revealed_after_the_end_and_make_the_data_again(lab: Lab, tmp_path: Path) -> None:
    records = lab.run("drawn")
    secret = (tmp_path / "drawn" / SECRET).read_text().strip()
    told = mldb("results", "reveal", str(tmp_path / "drawn"))
    assert told.exit_code == 0, (told.output, told.exception)
    content = (tmp_path / "drawn" / REVEALED).read_text()
    document = RevealedSeeds.model_validate_json(content)
    assert secret not in content and secret not in told.output
    assert {item.seed for item in document.seeds} == set(lab.met("drawn").values())
    assert {item.commitment for item in document.seeds} == {record.seed_commitment for record in records}
    item = document.seeds[0]
    arguments = [item.case, "--seed", item.seed, "--out", str(tmp_path / "again"), "--cases", str(tmp_path / "cases")]
    assert CliRunner().invoke(build_data, arguments).exit_code == 0
    assert (tmp_path / "again" / "public" / "seed.txt").read_text() == item.seed
    assert (tmp_path / "again" / "hidden" / "answers.txt").read_text() == f"of {item.seed}"
    lab.lose("drawn")
    with pytest.raises(UserError, match="its seeds are revealed"):
        lab.resume("drawn")


def interrupt(folder: Path) -> None:
    """Turn a record into that of a stopped cell."""
    path = sorted((folder / "cells").glob("*.json"))[0]
    plain = json.loads(path.read_text())
    plain |= {"outcome": "interrupted", "cause": "interrupted", "score": None, "success": None, "stop_reason": None}
    path.write_text(json.dumps(plain))


@pytest.mark.parametrize("partial", ["lost", "interrupted"])
def test_an_experiment_that_has_not_ended_reveals_nothing(lab: Lab, tmp_path: Path, partial: str) -> None:
    lab.run("drawn")
    lab.lose("drawn") if partial == "lost" else interrupt(tmp_path / "drawn")
    with pytest.raises(UserError, match="1 cells have not ended"):
        reveal_seeds([tmp_path / "drawn"])
    assert not (tmp_path / "drawn" / REVEALED).exists()
    assert not [seed for seed in lab.met("drawn").values() if seed in everything_in(tmp_path / "drawn")]


def test_seeds_of_a_given_secret_need_the_word_that_all_has_ended(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, GIVEN)
    lab.run("one")
    with pytest.raises(UserError, match="--ended"):
        reveal_seeds([tmp_path / "one"])
    monkeypatch.setenv(VARIABLE, "another secret, as long as that")
    lab.run("two")
    with pytest.raises(UserError, match="another experiment"):
        reveal_seeds([tmp_path / "one", tmp_path / "two"], ended=True)
    with pytest.raises(UserError, match="is not what the run began with"):
        reveal_seeds([tmp_path / "one"], ended=True)
    assert not list(tmp_path.rglob(REVEALED))
    revealed = reveal_seeds([tmp_path / "two"], ended=True)
    assert {item.seed for item in revealed.seeds} == set(lab.met("two").values())
    lab.run("open", seed_secret="")
    with pytest.raises(UserError, match="nothing to reveal"):
        reveal_seeds([tmp_path / "open"])


def test_records_that_were_committed_to_other_seeds_stop_the_reveal(lab: Lab, tmp_path: Path) -> None:
    lab.run("drawn")
    path = sorted((tmp_path / "drawn" / "cells").glob("*.json"))[0]
    path.write_text(re.sub(r'"seed_commitment":"sha256:.', '"seed_commitment":"sha256:f', path.read_text()))
    record = Record.model_validate_json(path.read_text())
    if record.seed_commitment in {it.seed_commitment for it in RunFolder(tmp_path / "drawn").records()[1:]}:
        path.write_text(re.sub(r'"seed_commitment":"sha256:.', '"seed_commitment":"sha256:0', path.read_text()))
    with pytest.raises(UserError, match="its commitment is not to the revealed seed"):
        reveal_seeds([tmp_path / "drawn"])
    assert not (tmp_path / "drawn" / REVEALED).exists()


def test_anyone_can_check_revealed_seeds_against_the_branch(lab: Lab, tmp_path: Path) -> None:
    records = lab.run("drawn")
    plan: RunPlan = RunFolder(tmp_path / "drawn").read_plan()
    publish(plan, records, str(tmp_path / "results"), "mldb-results")
    reveal_seeds([tmp_path / "drawn"])
    seeds = tmp_path / "drawn" / REVEALED
    told = mldb("results", "verify", str(tmp_path / "results"), "--seeds", str(seeds))
    assert told.exit_code == 0, told.output
    plain = json.loads(seeds.read_text())
    plain["seeds"][0]["seed"] = "0" * 32
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(plain))
    told = mldb("results", "verify", str(tmp_path / "results"), "--seeds", str(forged))
    assert told.exit_code == 1 and "does not match its own commitment" in told.output


def test_the_action_leaves_no_secret_behind(lab: Lab, tmp_path: Path) -> None:
    lab.run("whole")
    lab.run("stopped")
    interrupt(tmp_path / "stopped")
    for name in ("whole", "stopped"):
        close_drawn(tmp_path / name)
        assert not (tmp_path / name / SECRET).exists()
    assert (tmp_path / "whole" / REVEALED).exists() and not (tmp_path / "stopped" / REVEALED).exists()
    close_drawn(tmp_path / "whole")
    assert os.listdir(tmp_path / "whole").count(SECRET) == 0
