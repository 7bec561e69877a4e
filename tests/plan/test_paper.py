"""What ships of the papers: their suites, configurations as experiment files with successors of today, and `full`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.base.errors import UserError
from bench.base.install import DataFolders, find_data_folders
from bench.formats.case import case_folders, load_cases
from bench.formats.plan import PlanFile
from bench.formats.suite import load_suite
from bench.plan.experiment import find_experiment, load_experiment
from bench.plan.selection import Request, RunCells, make_plan
from tests.helpers.cells import make_case, write_files
from tests.helpers.command import mldb
from tests.helpers.paper import BESIDE, PAPER
from tests.helpers.provider import ScriptedUpstream
from tests.helpers.sampling import on_push

PLACES = find_data_folders()
FILES = sorted(path for path in (PLACES.cases / "suites" / "paper").glob("*.yaml") if not path.stem.startswith("mlab-"))
PAIRS = {
    "react-sonnet-3.5": "react-sonnet-5.5",
    "openhands-sonnet-3.5": "openhands-sonnet-5.5",
    "openhands-gemini-2.0-flash": "openhands-gemini-3.8-flash",
    "aide-gpt-4o": "aide-gpt-5.5",
    "react-gpt-4o": "react-gpt-5.5",
}
"""The paper's configurations, each with its successor."""
READY_ON_PUSH = ("react-sonnet-3.5", "openhands-gemini-3.8-flash", "aide-gpt-5.5", "openhands-sonnet-5.5")
"""Every agent and every provider, a model with a price and one without."""


def there(ids: list[str]) -> list[str]:
    folders = case_folders(PLACES.cases)
    return [name for name in ids if name in folders]


def test_the_paper_s_suites_have_every_case_that_is_there() -> None:
    assert len(PAPER) == 30
    paper, extended, cpu = (load_suite(PLACES.cases, f"ml-dev-bench{end}") for end in ("", "-extended", "-cpu"))
    assert paper.cases == there(PAPER)
    assert extended.cases == there([*PAPER, *BESIDE])
    assert set(cpu.cases) <= set(extended.cases) and cpu.profile == "mini"
    recreated = [case.id for case in load_cases(PLACES.cases) if case.spec.source.benchmark == "ml-dev-bench"]
    assert sorted(recreated) == sorted(extended.cases)


def test_the_suite_says_what_of_it_is_a_guess() -> None:
    suite = load_suite(PLACES.cases, "ml-dev-bench")
    assert len(suite.guessed) == 3 and set(suite.guessed) <= set(suite.cases)
    assert all(name in suite.explained() for name in suite.guessed)
    assert not set(load_suite(PLACES.cases, "ml-dev-bench-extended").guessed)


def test_full_has_every_case_of_that_profile() -> None:
    suite = load_suite(PLACES.cases, "full")
    assert suite.profile == "full"
    assert sorted(suite.cases) == [case.id for case in sorted(load_cases(PLACES.cases), key=lambda it: it.id)
                                   if "full" in case.profiles]  # fmt: skip


def test_each_configuration_of_the_paper_has_a_successor() -> None:
    assert [path.stem for path in FILES] == sorted([*PAIRS, *PAIRS.values()])
    for then, now in PAIRS.items():
        old, new = (load_experiment(find_experiment(f"paper/{name}", PLACES.cases), []) for name in (then, now))
        assert old.suites == new.suites == ["ml-dev-bench"]
        assert (old.agents, old.settings) == (new.agents, new.settings)
        assert old.models != new.models and len(old.models) == len(new.models) == 1


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_experiment_of_the_paper_is_one_run(path: Path) -> None:
    name = f"paper/{path.stem}"
    made = planned(PLACES, name, cases=["parse_logs"], trials=2)
    experiment = load_experiment(path, [])
    assert f"ml-dev-bench run --experiment {name}\n" in path.read_text(encoding="utf-8")
    assert (made.run, made.suite.id, made.profile) == ("mine", "ml-dev-bench", "mini")
    assert [(cell.case.id, cell.trial, cell.models["main"]) for cell in made.cells] == [
        ("parse_logs", trial, experiment.models[0]) for trial in (1, 2)
    ]
    assert made.cells[0].agent.folder.name == experiment.agents[0]
    variables = made.cells[0].agent.spec.environment.variables
    assert {key: variables[key] for key in experiment.settings} == {k: v[0] for k, v in experiment.settings.items()}


def planned(places: DataFolders, experiment: str, **asked: Any) -> RunCells:
    return make_plan(Request("", experiment=experiment, **asked), "mine", places)


def test_all_cases_of_the_suite_are_in_it() -> None:
    assert [cell.case.id for cell in planned(PLACES, "paper/react-gpt-4o").cells] == there(PAPER)


@pytest.mark.parametrize(
    ("facts", "asked", "said"),
    [
        ({}, {"agents": ["nop"]}, "says which agents and models run"),
        ({}, {"models": ["openai/x"]}, "says which agents and models run"),
        ({"base": "nop"}, {}, "two arms, a mode or a budget"),
        ({"mode": "changed"}, {}, "two arms, a mode or a budget"),
        ({"budget": {"usd": 3}}, {}, "two arms, a mode or a budget"),
        ({"suites": ["smoke", "demo"]}, {}, "means 2 runs"),
    ],
)
def test_what_one_run_does_not_carry_out_is_refused(
    tmp_path: Path, facts: dict[str, Any], asked: dict[str, Any], said: str
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"schema": 1, "suites": ["smoke"], "agents": ["oracle"], **facts}))
    with pytest.raises(UserError, match=said):
        planned(PLACES, str(file), **asked)


def test_an_experiment_is_found_by_path_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, {"paper/react-gpt-4o": "mine"})
    assert find_experiment("paper/react-gpt-4o", PLACES.cases) == Path("paper/react-gpt-4o")
    assert find_experiment("paper/react-gpt-5.5", PLACES.cases).parent.name == "paper"
    assert find_experiment("smoke", PLACES.cases) == Path("smoke")


@pytest.mark.slow
@pytest.mark.parametrize("name", on_push([*PAIRS, *PAIRS.values()], READY_ON_PUSH))
def test_the_one_command_of_an_experiment_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """All that a run does before its first cell, with a provider that answers on this machine."""
    with ScriptedUpstream([]) as upstream:
        for provider in ("OPENAI", "ANTHROPIC", "GEMINI"):
            monkeypatch.setenv(f"{provider}_API_KEY", "sk-not-a-key")
            monkeypatch.setenv(f"{provider}_BASE_URL", upstream.url)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", upstream.url)
        command: list[str | Path] = [
            "run",
            "--experiment",
            f"paper/{name}",
            "--check",
            "--sandbox",
            "process",
            "--out",
            tmp_path / "runs",
        ]
        done = mldb(*command)
        if name.endswith(("sonnet-3.5", "2.0-flash")):
            # Models that their provider has withdrawn, and that the table of prices no longer has.
            assert done.returncode == 2 and "price" in done.stderr, done.stderr
            done = mldb(*command, "--no-cost-limit")
        assert done.stdout == f"ready: nothing is missing for {len(there(PAPER))} cells\n", done.stderr


# --- the profile full -------------------------------------------------------------------------------------------------

CPU = {"name": "cpu", "cpus": 4, "memory_mb": 16_000}
GPU = {"name": "gpu", "cpus": 8, "memory_mb": 64_000, "gpus": 1, "usd_per_hour": 1.5, "labels": ["self-hosted", "gpu"]}


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """The suite `full` of a user's own cases, of which one needs a GPU in that profile alone."""
    changes: dict[str, Any] = {"mini": {}, "full": {"needs": {"gpu": True}, "limits": {"cpus": 4, "memory_mb": 30_000}}}
    make_case(tmp_path / "cases", id="drawn", profiles=changes)
    make_case(tmp_path / "cases", id="plain", profiles={"full": {"limits": {"agent_s": 60}}})
    content = {"id": "full", "version": "2026.11", "title": "Full", "profile": "full", "cases": ["drawn", "plain"]}
    write_files(tmp_path / "cases" / "suites", {"full.yaml": yaml.safe_dump(content)})
    return tmp_path


def plan_of(root: Path, *machines: dict[str, Any]) -> PlanFile:
    words = {"schema": 1, "suites": ["full"], "agents": ["oracle"], "machines": list(machines)}
    (root / "experiment.yaml").write_text(yaml.safe_dump(words))
    out = root / "plan.json"
    done = mldb("plan", root / "experiment.yaml", "--cases", root / "cases", "--no-seed-secret", "--out", out)
    assert done.returncode == 0, done.stderr
    return PlanFile.model_validate_json(out.read_text())


def test_the_full_profile_is_planned_onto_machines_with_a_gpu(full: Path) -> None:
    plan = plan_of(full, CPU, GPU)
    runs = {run.run: run.cells for run in plan.runs}
    found = {
        runs[part.run][number].case: (shard.machine, shard.labels)
        for shard in plan.shards
        for part in shard.parts
        for number in part.cells
    }
    assert found == {"drawn": ("gpu", ["self-hosted", "gpu"]), "plain": ("cpu", ["ubuntu-24.04"])}
    assert plan.skipped == []


def test_without_a_gpu_the_plan_skips_with_the_reason(full: Path) -> None:
    plan = plan_of(full, CPU)
    assert [(it.cell.split("/")[2], "needs a GPU" in it.cause) for it in plan.skipped] == [("drawn", True)]


@pytest.mark.slow
def test_without_a_gpu_the_record_is_skipped_with_the_reason(full: Path) -> None:
    command = ["run", "--suite", "full", "--agent", "oracle", "--sandbox", "process", "--json"]
    done = mldb(*command, "--cases", full / "cases", "--out", full / "runs")
    records = {it["case"]["id"]: it for it in json.loads(done.stdout)}
    assert (records["plain"]["outcome"], records["plain"]["success"]) == ("graded", True)
    assert (records["drawn"]["outcome"], records["drawn"]["cause"]) == ("skipped", "needs_missing")
    assert "a GPU is missing" in records["drawn"]["error"] and done.returncode == 1
