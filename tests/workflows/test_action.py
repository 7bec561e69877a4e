"""The action, rehearsed: a stranger's workflow on a real runner, from `uses: ml-dev-bench/action@v1` to the records."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench import __version__
from bench.sandbox.choose import probe_bubblewrap
from bench.store.branch import ResultsBranch
from tests.workflows.rehearsal.githost import git_host
from tests.workflows.rehearsal.stage import HERE, RUN_ID, copy_work_tree, git, make_stranger, rehearse

pytestmark = [pytest.mark.act, pytest.mark.slow]

TOKEN = "token-of-this-job-4711"
VERSION = f"{__version__}+rehearsal"


@pytest.fixture(scope="module")
def action(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This work tree under a version of its own: a record shows whether it is what ran."""
    folder = copy_work_tree(tmp_path_factory.mktemp("action"))
    module = folder / "bench" / "__init__.py"
    text = module.read_text(encoding="utf-8")
    assert f'"{__version__}"' in text
    module.write_text(text.replace(f'"{__version__}"', f'"{VERSION}"'), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def variables() -> dict[str, str]:
    """What the stranger's workflow is told of this machine."""
    assert sys.prefix != sys.base_prefix, "the rehearsal copies the virtual environment of the tests: use one"
    isolated = probe_bubblewrap().works
    return {"PYTHON_ENVIRONMENT": sys.prefix, "SANDBOX": "auto" if isolated else "process"}


def bare_repository(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    git(path.parent, "init", "--quiet", "--bare", "--initial-branch=main", path.name)
    git(path, "config", "http.receivepack", "true")
    git(path, "config", "uploadpack.allowFilter", "true")
    return path


def test_a_stranger_s_agent_ends_on_the_results_branch_and_on_a_site(
    action: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    remote = bare_repository(tmp_path / "host" / "stranger" / "agent")
    commit = make_stranger(tmp_path / "agent")
    with git_host(tmp_path / "host", TOKEN) as address:
        told = {**variables, "RESULTS_REPOSITORY": "", "REQUIRE_SUCCESS": "true"}
        ended = rehearse(tmp_path / "agent", action, tmp_path / "stage", told, server=address, token=TOKEN)
    assert ended.code == 0, ended.text

    stored = list(ResultsBranch(remote).records())
    assert len(stored) == 1, "act skips what it does not know and calls that a success"
    record = stored[0]
    assert (record.agent.id, record.case.id, record.success, record.score) == ("greeter", "hello_world", True, 1.0)
    assert record.agent.commit == commit
    assert record.provenance.run_url == f"{address}/stranger/agent/actions/runs/{RUN_ID}"
    assert record.provenance.run.startswith(f"gh-{RUN_ID}-")
    assert record.provenance.workflow == "benchmark"
    assert record.provenance.bench_version == VERSION
    assert record.provenance.isolated == (variables["SANDBOX"] == "auto")

    tip = git(remote, "rev-parse", "refs/heads/mldb-results")
    expected = {"run": record.provenance.run, "graded": "1", "succeeded": "1", "lost": "0", "commit": tip}
    assert {name: ended.outputs[name] for name in expected} == expected
    assert ended.outputs["records"].endswith(f"/ml-dev-bench/runs/{record.provenance.run}")
    assert ended.outputs["site"].endswith("/_site")

    pages = "".join(path.read_text(encoding="utf-8") for path in (ended.evidence / "site").rglob("*.html"))
    assert "greeter" in pages and "hello_world" in pages
    assert "greeter" in ended.summary and tip in ended.summary and "1 of 1" in ended.summary
    assert not ended.commands("error")
    assert TOKEN not in ended.text


def test_a_planted_failure_fails_the_workflow_and_its_words_reach_nobody(
    action: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    remote = bare_repository(tmp_path / "host" / "results.git")
    make_stranger(tmp_path / "agent", HERE / "liar.py")
    told = {**variables, "RESULTS_REPOSITORY": str(remote), "REQUIRE_SUCCESS": "true"}
    ended = rehearse(tmp_path / "agent", action, tmp_path / "stage", told)
    assert ended.code != 0, ended.text

    record = next(ResultsBranch(remote).records())
    assert record.success is False, "a failure is a result, and is stored like any other"
    assert record.outcome == "graded"
    obeyed = [entry["arg"] for entry in ended.commands("error")]
    assert obeyed == ["1 of 1 graded cells did not succeed: require-success"], ended.text
    assert ended.outputs["run"] == record.provenance.run
    assert ended.outputs["succeeded"] == "0"
    assert (ended.evidence / "site" / "index.html").is_file()

    assert "no success" in ended.summary
    assert "planted" in ended.summary, "the evidence of the failure is shown"
    for active in ("<script", "| planted", "](", "::"):
        assert active not in ended.summary.split("</summary>", 1)[1]
    assert not (tmp_path / "agent" / "_site").exists()
