"""From `init` to a rendered site: a night and the pages of an agent's repository, as `init` writes them, under act."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest
import yaml

from bench.sandbox.choose import probe_bubblewrap
from bench.store.branch import ResultsBranch
from tests.helpers.github_rest import TOKEN, github_rest
from tests.workflows.rehearsal.caller import Hub, act, jobs_of, make_caller
from tests.workflows.rehearsal.githost import git_host
from tests.workflows.rehearsal.stage import HERE, copy_work_tree, git

pytestmark = [pytest.mark.act, pytest.mark.nightly, pytest.mark.timeout(3600)]

SECRETS = {"MLDB_SEED_SECRET": "a secret of the repository of this rehearsal"}
NIGHT = {
    "schema": 1,
    "name": "nightly",
    "suites": ["smoke"],
    "cases": ["hello_world", "parse_logs"],
    "agents": ["mldb-agent.yml", "nop"],
    "trials": 1,
    "shard_minutes": 1,
    "machines": [{"name": "cpu", "labels": ["ubuntu-24.04"], "count": 2}],
}


def test_from_init_to_a_rendered_site(tmp_path: Path) -> None:
    remote = tmp_path / "host" / "stranger" / "agent"
    remote.parent.mkdir(parents=True)
    git(remote.parent, "init", "--quiet", "--bare", "--initial-branch=main", "agent")
    git(remote, "config", "http.receivepack", "true")
    git(remote, "config", "uploadpack.allowFilter", "true")
    stranger = HERE / "stranger"
    files = {
        "mldb-agent.yml": (stranger / "agent.yaml").read_text(encoding="utf-8"),
        "greeter.py": (stranger / "greeter.py").read_text(encoding="utf-8"),
        ".github/mldb/nightly.yaml": yaml.safe_dump(NIGHT),
    }
    caller = tmp_path / "agent"
    make_caller(caller, files=files)
    action = copy_work_tree(tmp_path / "action")
    sandbox = "bubblewrap" if probe_bubblewrap().works else "process"
    with github_rest("stranger/agent", remote) as api, git_host(tmp_path / "host", TOKEN) as server:
        hub = Hub(server, api.api, TOKEN, tmp_path)
        night = act(
            caller, action, tmp_path / "night", "mldb-nightly.yml", "workflow_dispatch", {}, sandbox,
            hub=hub, run_id="501", secrets=SECRETS,
        )  # fmt: skip
        assert night.code == 0, night.text
        assert jobs_of(night) == dict.fromkeys(("plan", "run", "collect", "issues"), "success")
        records = list(ResultsBranch(remote).records())
        assert {(it.agent.id, it.case.id) for it in records} >= {("greeter", "hello_world"), ("nop", "parse_logs")}
        assert all(it.provenance.run.startswith("gh-501-1-nightly") for it in records), records[0].provenance.run
        attested = (tmp_path / "artifacts" / "attested").read_text(encoding="utf-8").split()
        tip = "refs/heads/mldb-results"
        assert sorted(attested[1::2]) == git(remote, "ls-tree", "-r", "--name-only", tip, "runs/").split()
        for digest, path in zip(attested[::2], attested[1::2], strict=True):
            content = subprocess.run(["git", "-C", remote, "show", f"{tip}:{path}"], check=True, capture_output=True)
            assert hashlib.sha256(content.stdout).hexdigest() == digest, path
        pages = act(
            caller, action, tmp_path / "pages-run", "mldb-pages.yml", "workflow_dispatch", {}, sandbox,
            hub=hub, run_id="502",
        )  # fmt: skip
    assert pages.code == 0, pages.text
    assert jobs_of(pages) == {"site": "success"}
    front = (tmp_path / "pages" / "index.html").read_text(encoding="utf-8")
    assert "greeter" in front
    assert git(remote, "rev-parse", "refs/heads/mldb-results")[:12] in front, "the footer names the tip"
