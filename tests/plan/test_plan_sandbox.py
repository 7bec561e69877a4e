"""The sandbox of a plan: one for all shards, decided when it is made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.base.errors import UserError
from bench.cli import plan_sandbox
from bench.cli.main import cli
from bench.formats.agent import load_agent
from bench.formats.case import Case
from bench.formats.plan import Cell
from bench.sandbox import probe_bubblewrap, probe_docker
from tests.helpers.cells import make_agent, make_case
from tests.helpers.command import mldb

IMAGE = f"example.org/agent@sha256:{'a' * 64}"


def cells(root: Path, image: str = "") -> list[Cell]:
    case: Case = make_case(root / "cases")
    facts: dict[str, Any] = {"environment": {"image": image}} if image else {}
    agent = load_agent(make_agent(root, "pass", **facts).folder)
    return [Cell(agent, {}, case, "mini", 1)]


@pytest.mark.parametrize(("image", "name"), [("", "bubblewrap"), (IMAGE, "docker")])
def test_shards_on_other_machines_are_told_one_sandbox(tmp_path: Path, image: str, name: str) -> None:
    made = cells(tmp_path, image)
    assert plan_sandbox.decided_sandbox("auto", made, elsewhere=True) == name
    assert plan_sandbox.decided_sandbox("process", made, elsewhere=True) == "process"


def test_here_it_is_what_works_here(tmp_path: Path) -> None:
    found = plan_sandbox.decided_sandbox("auto", cells(tmp_path), elsewhere=False)
    works = {"docker": probe_docker().works, "bubblewrap": probe_bubblewrap().works}
    assert found == next((name for name, it in works.items() if it), "bubblewrap")


def test_where_nothing_works_the_shards_are_told_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> object:
        raise UserError(f"no {name}")

    monkeypatch.setattr("bench.sandbox.choose_sandbox", nothing)
    assert plan_sandbox.decided_sandbox("auto", cells(tmp_path), elsewhere=False) == "bubblewrap"


def test_a_plan_for_github_names_its_sandbox_and_a_shard_keeps_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "outputs"))
    plan = tmp_path / "plan.json"
    asked = ["plan", "agents=nop", "suites=smoke", "--no-seed-secret", "--github-output", "--out", str(plan)]
    done = CliRunner().invoke(cli, asked, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert {run["sandbox"] for run in json.loads(plan.read_text())["runs"]} == {"bubblewrap"}
    refused = mldb("run-shard", plan, "cpu-001", "--sandbox", "process", "--out", tmp_path / "runs")
    assert refused.returncode == 2 and "the plan's cells run in bubblewrap, not in process" in refused.stderr
    assert not (tmp_path / "runs").exists()
