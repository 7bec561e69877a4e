"""From `init` in an empty repository to a green smoke on a fork's pull request, under act."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.sandbox.choose import probe_bubblewrap
from tests.workflows.rehearsal.caller import act, commit, jobs_of, make_caller
from tests.workflows.rehearsal.stage import Ended, copy_work_tree

pytestmark = [pytest.mark.act, pytest.mark.slow]

# What GitHub says of a fork's pull request: no secret is there, and the token may read.
FORK = {
    "number": 7,
    "pull_request": {
        "number": 7,
        "base": {"ref": "main", "repo": {"full_name": "stranger/agent"}},
        "head": {"ref": "patch", "repo": {"full_name": "other/agent", "fork": True}},
    },
    "repository": {"full_name": "stranger/agent", "default_branch": "main"},
}


@pytest.fixture(scope="module")
def action(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_work_tree(tmp_path_factory.mktemp("action"))


def smoke(caller: Path, action: Path, folder: Path) -> Ended:
    sandbox = "bubblewrap" if probe_bubblewrap().works else "process"
    return act(caller, action, folder, "mldb-smoke.yml", "pull_request", FORK, sandbox)


@pytest.mark.nightly
def test_init_in_an_empty_repository_is_green_on_a_fork_and_says_what_is_open(action: Path, tmp_path: Path) -> None:
    caller = tmp_path / "agent"
    make_caller(caller)
    done = smoke(caller, action, tmp_path / "first")
    assert done.code == 0, done.text
    assert jobs_of(done) == {"smoke": "success"}
    assert "| start | proven |" in done.summary, "act skips what it does not know and calls that a success"
    for what in ("set-up", "task", "gateway", "exit", "limits"):
        assert f"| {what} | proven |" in done.summary
    assert "| work | not proven |" in done.summary
    assert not done.commands("error")
    assert len(done.commands("warning")) == 1 and "mldb-record" in str(done.commands("warning"))


@pytest.mark.nightly
def test_a_broken_agent_is_red_and_its_last_words_are_quoted(action: Path, tmp_path: Path) -> None:
    caller = tmp_path / "agent"
    make_caller(caller)
    main = caller / "mldb_agent.py"
    main.write_text(main.read_text().replace("def main():", "def main():\n    raise RuntimeError('planted')"))
    commit(caller, "A broken agent")
    broken = smoke(caller, action, tmp_path / "broken")
    assert broken.code != 0
    assert any("planted" in entry["arg"] for entry in broken.commands("error")), broken.text
