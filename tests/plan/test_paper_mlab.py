"""The first experiments of MLAgentBench's paper as files, each with a successor of today."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.base.install import find_data_folders
from bench.plan.experiment import find_experiment, load_experiment
from bench.plan.selection import Request, make_plan
from tests.helpers.cells import make_case, write_files
from tests.helpers.command import mldb
from tests.helpers.provider import ScriptedUpstream
from tests.helpers.sampling import at_night

PLACES = find_data_folders()
FILES = sorted((PLACES.cases / "suites" / "paper").glob("mlab-*.yaml"))
PAIRS = {
    "mlab-cifar10-gpt-4": ("mlab-cifar10-gpt-5.5", "cifar10", ["on", "off"]),
    "mlab-house-price-gpt-3.5": ("mlab-house-price-gpt-5.4-nano", "house_price", ["off"]),
    "mlab-clrs-gpt-4": ("mlab-clrs-gpt-5.5", "clrs", ["off"]),
}
"""Each with its successor, its case, and whether the agent keeps its research log."""


def test_each_experiment_has_a_successor_that_differs_in_its_model_alone() -> None:
    assert [path.stem for path in FILES] == sorted([*PAIRS, *(it[0] for it in PAIRS.values())])
    for then, (now, case, logs) in PAIRS.items():
        old, new = (load_experiment(find_experiment(f"paper/{name}", PLACES.cases), []) for name in (then, now))
        assert (old.suites, old.cases, old.agents, old.trials) == (["mlagentbench"], [case], ["mlab_research"], 8)
        same = {"name", "models"}
        assert old.model_dump(exclude=same) == new.model_dump(exclude=same)
        assert old.settings == {"MLAB_LOG": logs}
        assert old.models != new.models and len(old.models) == len(new.models) == 1


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_experiment_is_one_run_of_its_case_with_and_without_the_log(path: Path, tmp_path: Path) -> None:
    """On stand-ins for the cases: what is planned does not depend on what a case holds."""
    experiment = load_experiment(path, [])
    (case,) = experiment.cases
    cases = tmp_path / "cases"
    make_case(cases, id=case)
    suite = f"schema: 1\nid: mlagentbench\nversion: '2026.11'\ntitle: x\ncases: [{case}]\n"
    write_files(cases / "suites", {"mlagentbench.yaml": suite, f"paper/{path.name}": path.read_text(encoding="utf-8")})
    made = make_plan(Request("", experiment=f"paper/{path.stem}", trials=2), "mine", replace(PLACES, cases=cases))
    assert f"ml-dev-bench run --experiment paper/{path.stem}\n" in path.read_text(encoding="utf-8")
    logs = [it.agent.spec.environment.variables["MLAB_LOG"] for it in made.cells]
    assert sorted(set(logs)) == sorted(experiment.settings["MLAB_LOG"]) and len(logs) == 2 * len(set(logs))
    assert {(it.case.id, it.agent.folder.name, it.models["main"]) for it in made.cells} == {
        (case, "mlab_research", experiment.models[0])
    }
    assert len({it.id for it in made.cells}) == len(made.cells)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlab-house-price-gpt-5.4-nano", at_night("mlab-house-price-gpt-3.5")])
def test_the_one_command_of_an_experiment_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """All that a run does before its first cell, with a provider that answers on this machine."""
    with ScriptedUpstream([]) as upstream:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-key")
        monkeypatch.setenv("OPENAI_BASE_URL", upstream.url)
        done = mldb(
            "run", "--experiment", f"paper/{name}", "--check", "--sandbox", "process", "--out", tmp_path / "runs"
        )
    assert done.stdout == "ready: nothing is missing for 8 cells\n", done.stderr
