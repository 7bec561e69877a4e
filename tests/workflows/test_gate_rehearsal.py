"""The gate and the nights, rehearsed: callers' workflows on a real runner, a git remote, and a stand-in of GitHub."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.formats.record import Record
from bench.sandbox.choose import probe_bubblewrap
from bench.store.branch import ResultsBranch
from bench.store.bundle import Bundle
from tests.helpers.github_rest import TOKEN, Service, github_rest
from tests.helpers.records import GPT, SONNET, START, make_check, make_record
from tests.workflows.rehearsal.gate import (
    copy_benchmark,
    make_agent_repository,
    make_remote,
    rehearse_event,
    require_every_job,
)
from tests.workflows.rehearsal.githost import git_host
from tests.workflows.rehearsal.stage import Ended, git

pytestmark = [pytest.mark.act, pytest.mark.slow, pytest.mark.nightly]

NAME = "owner/agents"
RUN = 4711


@pytest.fixture(scope="module")
def benchmark_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_benchmark(tmp_path_factory.mktemp("gate") / "benchmark")


@pytest.fixture(scope="module")
def told() -> dict[str, str]:
    assert sys.prefix != sys.base_prefix, "the rehearsal copies the virtual environment of the tests: use one"
    sandbox = "auto" if probe_bubblewrap().works else "process"
    return {"PYTHON_ENVIRONMENT": sys.prefix, "SANDBOX": sandbox, "GITHUB_RUN_ID": str(RUN)}


def gated(
    which: str, benchmark_tree: Path, told: dict[str, str], folder: Path
) -> Iterator[tuple[Ended, Ended, Service]]:
    """The gate of a change, then the job that comments on it."""
    repository = folder / "agent"
    commits = make_agent_repository(repository)
    head = getattr(commits, which)
    remote = make_remote(repository, folder / "host" / NAME)
    git(repository, "checkout", "--quiet", "--detach", head)
    with github_rest(NAME, remote, page=2) as hub, git_host(folder / "host", TOKEN) as server:
        hub.hub.open_pull(head, commits.base, branch=which)
        urls = {"GITHUB_SERVER_URL": server, "GITHUB_API_URL": hub.api}
        pull = {"number": 1, "pull_request": {"number": 1, "base": {"sha": commits.base}, "head": {"sha": head}}}
        began = datetime.now(UTC)
        gate = rehearse_event(
            "mldb-gate.yml", ("pull_request", pull), repository, benchmark_tree, folder / "gate", {**told, **urls}
        )
        require_every_job(gate, "gate")
        run = hub.actions.make_run(RUN, head, branch=which)
        run |= {"run_started_at": f"{began:%Y-%m-%dT%H:%M:%SZ}", "conclusion": "failure" if gate.code else "success"}
        run["updated_at"] = f"{datetime.now(UTC) + timedelta(seconds=1):%Y-%m-%dT%H:%M:%SZ}"
        name = f"mldb-gate-{RUN}-1"
        hub.actions.upload(RUN, name, gate.evidence / "artifacts" / name)
        event = {"action": "completed", "workflow_run": run, "repository": {"full_name": NAME}}
        comment = rehearse_event(
            "mldb-comment.yml",
            ("workflow_run", event),
            repository,
            benchmark_tree,
            folder / "comment",
            {**told, **urls},
            TOKEN,
        )
        require_every_job(comment, "comment")
        yield gate, comment, hub


def test_a_planted_regression_is_red_and_comment_and_check_say_why(
    benchmark_tree: Path, told: dict[str, str], tmp_path: Path
) -> None:
    for gate, comment, hub in gated("broken", benchmark_tree, told, tmp_path):
        assert gate.code != 0, gate.text
        assert any("gate: regression" in str(entry["arg"]) for entry in gate.commands("error"))
        assert comment.code == 0, comment.text
        (check,) = hub.actions.checks
        assert (check["conclusion"], check["output"]["title"]) == ("failure", "regression")
        (said,) = hub.hub.comments_on(1)
        assert "ML-Dev-Bench gate: regression" in said and "| hello_0 | 2/2 | 0/2 |" in said
        assert TOKEN not in gate.text + comment.text


def test_a_harmless_change_is_green_and_quiet(benchmark_tree: Path, told: dict[str, str], tmp_path: Path) -> None:
    for gate, comment, hub in gated("harmless", benchmark_tree, told, tmp_path):
        assert gate.code == 0, gate.text
        assert not gate.commands("error")
        assert comment.code == 0, comment.text
        assert [it["conclusion"] for it in hub.actions.checks] == ["neutral"]
        assert hub.hub.comments == []


def one_night(rates: dict[str, float], number: int) -> list[Record]:
    """A night of `react`, of `aide` with another model, and of the pinned control."""
    return [
        make_record(
            agent=agent,
            model=GPT if agent == "aide" else SONNET,
            case=f"case_{case:02}",
            checks=None if case < rate * 20 else [make_check(value=0.0)],
            run=f"nightly-{number:03}",
            started=START + timedelta(days=number),
        )
        for agent, rate in rates.items()
        for case in range(20)
    ]


def store_nights(bare: Path, first: int, nights: Sequence[dict[str, float]], tags: bool) -> None:
    branch = ResultsBranch(bare)
    branch.ensure()
    for number, rates in enumerate(nights, start=first):
        branch.commit(Bundle(f"nightly-{number:03}", 1, one_night(rates, number), START + timedelta(days=number)))
        if tags:
            git(bare, "tag", f"night-{number - first + 1}", "refs/heads/mldb-results")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_ten_nights_with_a_drop_keep_one_issue(
    benchmark_tree: Path, told: dict[str, str], tmp_path: Path, shared: bool
) -> None:
    repository, bare = tmp_path / "agent", tmp_path / "results.git"
    make_agent_repository(repository)
    good = {"react": 0.95, "aide": 0.9, "pinned": 0.9}
    bad = {**good, "react": 0.1, "pinned": 0.1 if shared else 0.9}
    store_nights(bare, 0, [good] * 20, tags=False)
    store_nights(bare, 20, [bad] * 2 + [good] * 8, tags=True)
    with github_rest(NAME, page=2) as hub:
        urls = {"GITHUB_API_URL": hub.api, "RESULTS": str(bare)}
        ended = rehearse_event(
            "mldb-nights.yml",
            ("workflow_dispatch", {}),
            repository,
            benchmark_tree,
            tmp_path / "nights",
            {**told, **urls},
            TOKEN,
        )
        require_every_job(ended, "nights")
        assert ended.code == 0, ended.text
        about = [it for it in hub.hub.issues if it["title"].startswith("react")]
        assert [it["state"] for it in about] == ["closed"], "one issue, closed on recovery"
        done = [str(entry["arg"]) for entry in ended.commands("warning")]
        # Where the control fell too, it has an issue of its own.
        number = about[0]["number"]
        assert any(line.startswith(f"opened #{number}: react") for line in done), done
        assert any(line.startswith(f"updated #{number}: react") for line in done), done
        assert f"closed #{number}: recovered" in done, done
        blamed = about[0]["body"]
        assert ("not the agent" in blamed) is shared
        assert ("likely the agent" in blamed) is not shared
