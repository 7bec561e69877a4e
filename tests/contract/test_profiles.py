"""A case whose profile `full` has other limits, needs, outputs and metric: verified, planned, run and told of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.authoring import Proof, open_verifier
from bench.base.errors import UserError
from bench.base.install import DataFolders
from bench.cell import run_cell
from bench.cli.main import cli
from bench.formats.agent_lookup import find_agent
from bench.formats.case import Case, load_case
from bench.formats.plan import Cell
from bench.plan import Experiment, History, PlannedJob, packed_shards
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import ROOT, make_case, make_context, write_files

METRIC = {"name": "gain", "direction": "higher", "baseline": 1.0, "target": 2.0}
FULL: dict[str, Any] = {
    "limits": {"agent_s": 40},
    "outputs": {"files": [{"path": "answer.py"}, {"path": "notes.txt"}], "weight": 1},
    "metric": {"baseline": 1.5},
}


def two_profiles(root: Path, **needs: Any) -> Case:
    full = {**FULL, **({"needs": needs} if needs else {})}
    files = {
        "task.md": "Complete `double(x)` in `answer.py`; with the profile full write notes.txt, too.\n",
        "solution/notes.txt": "done\n",
    }
    case = make_case(root / "cases", files, profiles={"mini": {}, "full": full}, metric=METRIC)
    # The writer of tests sorts; the first profile is the default.
    path = case.folder / "case.yaml"
    path.write_text(
        path.read_text().replace("profiles:\n", "profiles:\n  mini: {}\n").replace("  mini: {}\nschema", "schema")
    )
    return load_case(case.folder)


def places(root: Path) -> DataFolders:
    return DataFolders(cases=root / "cases", agents=ROOT / "agents", site=ROOT / "site", cache=root / "cache")


def proofs_of(root: Path, case: Case) -> list[Proof]:
    with open_verifier(places(root), ProcessSandbox()) as verifier:
        return list(verifier.verify(case))


def test_a_profile_changes_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    case = two_profiles(tmp_path)
    mini, full = case.for_profile("mini").spec, case.for_profile("full").spec
    assert (case.profiles, mini.limits, mini.metric) == (["mini", "full"], case.spec.limits, case.spec.metric)
    assert (full.limits.agent_s, full.limits.grade_s, full.limits.memory_mb) == (40, 30, 400)
    assert full.metric is not None and (full.metric.baseline, full.metric.target) == (1.5, 2.0)
    assert ([it.path for it in full.outputs.files], full.outputs.weight) == (["answer.py", "notes.txt"], 1)
    assert case.for_profile("full").for_profile("mini").spec == case.spec
    assert case.for_profile("full").digest == case.digest


@pytest.mark.parametrize(
    ("profiles", "said"),
    [
        ({"full": {"metric": {"baseline": 1}}}, "`profiles.full.metric`: the case does not have a metric"),
        ({"full": {"limit": {}}}, "`profiles.full.limit`: unknown field; did you mean `limits`"),
        ({"fast": {}}, "`profiles.fast"),
        ({}, "`profiles`"),
    ],
)
def test_a_profile_that_is_not_one_is_named_with_its_field(tmp_path: Path, profiles: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        make_case(tmp_path, profiles=profiles)


@pytest.mark.slow
def test_verify_proves_each_profile_that_this_machine_can(tmp_path: Path) -> None:
    proofs = proofs_of(tmp_path, two_profiles(tmp_path))
    assert [proof.detail for proof in proofs if not proof.ok] == []
    names = {profile: [it.name for it in proofs if it.profile == profile] for profile in ("mini", "full")}
    assert names["mini"] == names["full"] and "solution" in names["mini"]


def test_what_a_profile_lacks_is_skipped_with_a_reason_and_never_failed(tmp_path: Path) -> None:
    two_profiles(tmp_path, gpu=True, python=["no_such_library"])
    words = ["cases", "verify", "double_it", "--cases", str(tmp_path / "cases"), "--sandbox", "process"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    assert "ok   double_it: mini: solution (" in done.output
    assert "skip double_it: full: needs (0.0 s): modules are missing: no_such_library" in done.output
    assert "full: solution" not in done.output and "0 failed, 1 skipped" in done.output


def test_a_cell_runs_under_the_limits_and_outputs_of_its_profile(tmp_path: Path) -> None:
    case = two_profiles(tmp_path)
    context = make_context(tmp_path, ProcessSandbox())
    oracle = find_agent("oracle", ROOT / "agents")
    record = run_cell(Cell(oracle, {}, case, "full", 1), context)
    assert (record.success, record.limits.agent_s, record.checks[0].weight) == (True, 40, 1)
    assert run_cell(Cell(oracle, {}, case, "mini", 1), context).limits.agent_s == 120


def test_what_a_machine_lacks_is_a_skipped_record(tmp_path: Path) -> None:
    case = two_profiles(tmp_path, python=["no_such_library"])
    record = run_cell(
        Cell(find_agent("oracle", ROOT / "agents"), {}, case, "full", 1), make_context(tmp_path, ProcessSandbox())
    )
    assert (record.outcome, record.cause) == ("skipped", "needs_missing") and "no_such_library" in record.error


SUITE = {"schema": 1, "id": "both", "version": "2026.11", "title": "Both", "cases": ["double_it"]}


def test_a_plan_leaves_out_what_no_machine_of_it_can_run_and_says_so(tmp_path: Path) -> None:
    two_profiles(tmp_path, gpu=True)
    write_files(tmp_path / "cases", {"suites/both.yaml": json.dumps(SUITE)})
    plan = ["plan", "suites=both", "agents=oracle", "profiles=mini,full", "--cases", str(tmp_path / "cases")]
    done = CliRunner().invoke(cli, plan)
    assert done.exit_code == 0, done.output
    assert "1 cell in 1 shard" in done.output
    assert "skipped   oracle/none/double_it/full/1: needs a GPU, which no machine of the plan has" in done.output
    as_json = json.loads(CliRunner().invoke(cli, [*plan, "--json"]).stdout)
    assert [it["cell"] for it in as_json["skipped"]] == ["oracle/none/double_it/full/1"]
    file = write_files(tmp_path, {"with.yaml": "schema: 1\nmachines: [{name: large, gpus: 1}]\n"}) / "with.yaml"
    with_gpu = CliRunner().invoke(cli, ["plan", str(file), *plan[1:], "--json"])
    assert json.loads(with_gpu.stdout)["skipped"] == []


def test_a_plan_of_nothing_but_what_is_skipped_is_not_a_failure(tmp_path: Path) -> None:
    two_profiles(tmp_path, gpu=True)
    write_files(tmp_path / "cases", {"suites/both.yaml": json.dumps(SUITE)})
    plan = ["plan", "suites=both", "agents=oracle", "profiles=full", "--cases", str(tmp_path / "cases")]
    done = CliRunner().invoke(cli, plan)
    assert done.exit_code == 0 and "nothing to run" in done.output and "needs a GPU" in done.output


def test_estimates_and_machines_follow_the_profile(tmp_path: Path) -> None:
    case = two_profiles(tmp_path)
    full = {**FULL, "limits": {"agent_s": 400, "memory_mb": 9000}}
    case = make_case(tmp_path / "cases", profiles={"mini": {}, "full": full}, metric=METRIC)
    oracle = find_agent("oracle", ROOT / "agents")
    cells = [Cell(oracle, {}, case, "mini", 1), Cell(oracle, {}, case, "full", 1)]
    small, large = (History().estimate(cell).seconds for cell in cells)
    assert (small, large) == (75, 215)
    experiment = Experiment.model_validate(
        {"machines": [{"name": "s", "memory_mb": 1000}, {"name": "l", "usd_per_hour": 1}]}
    )
    jobs = [PlannedJob("r", at, cell, History().estimate(cell)) for at, cell in enumerate(cells)]
    assert {it.machine.name: it.jobs[0].cell.profile for it in packed_shards(jobs, experiment)} == {
        "s": "mini",
        "l": "full",
    }


def test_the_commands_tell_what_holds_in_each_profile(tmp_path: Path) -> None:
    two_profiles(tmp_path, gpu=True, python=["no_such_library"])
    folder = ["--cases", str(tmp_path / "cases")]
    shown = CliRunner().invoke(cli, ["cases", "show", "double_it", *folder]).output
    assert "profiles   mini, full" in shown
    assert "limits     mini: agent 120 s" in shown and "limits     full: agent 40 s" in shown
    assert "outputs    full: answer.py, notes.txt" in shown
    assert "needs      full: no_such_library, a GPU" in shown
    listed = CliRunner().invoke(cli, ["cases", "list", *folder]).output
    assert "mini,full" in listed
