"""What `init` writes into an agent's repository, what it calls drift, and what it never overwrites."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from bench.base.errors import EXIT_USAGE, UserError
from bench.base.install import find_templates
from bench.cli.init import WORKFLOWS, secret_of
from bench.cli.init import init as command
from bench.formats.agent import load_agent
from bench.plan.experiment import load_experiment
from tests.workflows.rehearsal.stage import git

PIN = "0123456789abcdef0123456789abcdef01234567"
SMOKE = ".github/workflows/mldb-smoke.yml"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "agent"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=trunk")
    return folder


@dataclass(frozen=True)
class Ran:
    code: int
    text: str


def init(folder: Path, *options: str) -> Ran:
    done = CliRunner().invoke(command, [str(folder), *options])
    if isinstance(done.exception, UserError):
        return Ran(EXIT_USAGE, str(done.exception))
    return Ran(done.exit_code, done.output)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=All")


def test_an_empty_repository_gets_a_whole_set(repository: Path) -> None:
    done = init(repository, "--pin", PIN)
    assert done.code == 0, done.text
    assert "gh secret set OPENAI_API_KEY" in done.text
    for name in WORKFLOWS:
        text = (repository / f".github/workflows/mldb-{name}.yml").read_text()
        assert "{{" not in text.replace("${{", ""), "every place is filled"
        for line in text.splitlines():
            if "uses: ml-dev-bench/action" in line:
                assert line.endswith(f"@{PIN} # not a release")
    assert yaml.safe_load((repository / SMOKE).read_text())[True]["push"]["branches"] == ["trunk"]
    assert load_agent(repository / "mldb-agent.yml").spec.models == {"main": "openai/gpt-4o-mini"}
    gate, nightly = (load_experiment(repository / f".github/mldb/{name}.yaml", []) for name in ("gate", "nightly"))
    assert gate.agents == ["mldb-agent.yml"] and gate.suites == ["gate-cpu"]
    assert nightly.agents == ["mldb-agent.yml", "react"] and nightly.models == ["openai/gpt-4o-mini"]
    assert init(repository, "--pin", PIN, "--check").code == 0
    again = init(repository)
    assert again.code == 2 and "--upgrade" in again.text


def test_an_agent_that_is_there_is_kept_and_names_the_keys(repository: Path) -> None:
    models = {"main": "anthropic/claude-sonnet-4-5", "judge": "together_ai/x", "old": "replay/demo"}
    text = yaml.safe_dump({"id": "mine", "command": ["true"], "models": models})
    (repository / "agents").mkdir()
    (repository / "agents" / "mine.yaml").write_text(text)
    (repository / ".github" / "mldb").mkdir(parents=True)
    (repository / ".github" / "mldb" / "gate.yaml").write_text("mine: too\n")
    assert init(repository, "--agent", "./agents/mine.yaml").code == 0
    assert (repository / "agents" / "mine.yaml").read_text() == text
    assert (repository / ".github" / "mldb" / "gate.yaml").read_text() == "mine: too\n"
    assert not (repository / "mldb-agent.yml").exists()
    record = yaml.safe_load((repository / ".github/workflows/mldb-record.yml").read_text())
    assert record["jobs"]["record"]["steps"][1]["env"] == {
        "MLDB_RECORD": "1",
        "ANTHROPIC_API_KEY": "${{ secrets.ANTHROPIC_API_KEY }}",
        "TOGETHERAI_API_KEY": "${{ secrets.TOGETHERAI_API_KEY }}",
    }
    assert "path: agents/cassettes/smoke/" in (repository / ".github/workflows/mldb-record.yml").read_text()


def test_only_what_the_gateway_has_recorded_is_gathered(repository: Path, tmp_path: Path) -> None:
    """A smoke that replays what an agent has written beside its notes would prove what that agent likes."""
    init(repository)
    record = yaml.safe_load((repository / ".github/workflows/mldb-record.yml").read_text())
    (script,) = (step["run"] for step in record["jobs"]["record"]["steps"] if step.get("name", "").startswith("Gather"))
    for place in ("cell/cassettes", "cell/out/cassettes", "a_cell/out/cassettes", "cell/out/x/cassettes/cassettes"):
        folder = tmp_path / "records" / "traces" / place
        folder.mkdir(parents=True)
        for name in ("hello_world", *(["planted"] if "out" in place else [])):
            (folder / f"{name}.yaml").write_text(place)
    told = {"PATH": os.environ["PATH"], "RECORDS": str(tmp_path / "records")}
    subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], cwd=tmp_path, env=told, check=True)
    found = {path.name: path.read_text() for path in (tmp_path / "recorded").iterdir()}
    assert found == {"hello_world.yaml": "cell/cassettes"}


def test_drift_is_shown_and_repaired(repository: Path) -> None:
    init(repository)
    commit(repository)
    (repository / SMOKE).write_text(
        (repository / SMOKE).read_text().replace("timeout-minutes: 30", "timeout-minutes: 3")
    )
    (repository / ".github/workflows/mldb-pages.yml").unlink()
    checked = init(repository, "--check")
    assert checked.code == 1
    assert "-    timeout-minutes: 3\n+    timeout-minutes: 30\n" in checked.text
    assert "mldb-pages.yml: is missing" in checked.text
    refused = init(repository, "--upgrade")
    assert refused.code == 2 and "not committed" in refused.text
    assert "timeout-minutes: 3\n" in (repository / SMOKE).read_text(), "what git does not have is not overwritten"
    commit(repository)
    assert init(repository, "--upgrade").code == 0
    assert init(repository, "--check").code == 0
    assert git(repository, "diff", "--name-only", "HEAD").split() == [SMOKE], "pages was removed in a commit"
    assert (repository / ".github/workflows/mldb-pages.yml").is_file()


def test_a_setting_and_a_new_release_are_drift(repository: Path) -> None:
    init(repository, "--pin", PIN)
    commit(repository)
    settings = repository / ".github" / "mldb" / "init.yaml"
    settings.write_text(settings.read_text().replace("branch: trunk", "branch: main"))
    assert "+    branches: [main]" in init(repository, "--pin", PIN, "--check").text
    newer = PIN[::-1]
    upgraded = init(repository, "--pin", newer, "--upgrade")
    assert upgraded.code == 0, upgraded.text
    assert newer in (repository / SMOKE).read_text() and PIN not in (repository / SMOKE).read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--pin", "v1"], "is not a commit"),
        (["--agent", "absent.yaml"], "is not a file"),
        (["--branch", "a b"], "branch"),
        (["--check"], "init.yaml"),
        (["--check", "--branch", "main"], "is not for --check"),
    ],
)
def test_a_wrong_request_writes_nothing_and_is_one_line(repository: Path, options: list[str], said: str) -> None:
    done = init(repository, *options)
    assert done.code == 2 and said in done.text
    assert len(done.text.strip().splitlines()) == 1
    assert [path.name for path in repository.iterdir()] == [".git"]


def test_what_is_not_a_release_follows_v1(repository: Path) -> None:
    assert not (find_templates() / "release.json").exists(), "only release.yml writes it, into the wheel"
    assert init(repository).code == 0
    assert "smoke@v1 # not a release" in (repository / SMOKE).read_text()


def test_a_release_pins_the_commit_that_its_wheel_names(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheel's folder of templates, with the file that release.yml puts there."""
    wheel = tmp_path / "wheel"
    shutil.copytree(find_templates(), wheel)
    (wheel / "release.json").write_text(json.dumps({"version": "1.2.3", "commit": PIN}))
    monkeypatch.setattr("bench.base.install.find_templates", lambda: wheel)
    assert init(repository).code == 0
    assert f"smoke@{PIN} # v1.2.3\n" in (repository / SMOKE).read_text()
    (wheel / "release.json").write_text("{}")
    damaged = init(repository, "--check")
    assert damaged.code == 2 and "release.json" in damaged.text


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("openai/gpt-4o-mini", "OPENAI_API_KEY"),
        ("gemini/gemini-2.5-pro", "GEMINI_API_KEY"),
        ("openrouter/x/y", "OPENROUTER_API_KEY"),
        ("replay/demo", ""),
    ],
)
def test_the_secret_of_a_model(model: str, name: str) -> None:
    assert secret_of(model) == name


def test_a_night_with_machines_of_ec2_is_written_where_the_settings_say_so(repository: Path) -> None:
    assert init(repository, "--pin", PIN).code == 0
    night = repository / ".github/workflows/mldb-nightly.yml"
    plain = yaml.safe_load(night.read_text())
    settings = repository / ".github/mldb/init.yaml"
    told = {**yaml.safe_load(settings.read_text()), "engine": "ec2", "region": "eu-west-1", "budget_usd": 12.5}
    settings.write_text(yaml.safe_dump(told))
    commit(repository)
    assert init(repository, "--pin", PIN, "--upgrade").code == 0
    text = night.read_text()
    made = yaml.safe_load(text)
    assert set(made["jobs"]) == {*plain["jobs"], "sweep", "provision", "release"}
    assert made["jobs"]["run"]["strategy"]["matrix"] == "${{ fromJSON(needs.provision.outputs.matrix) }}"
    assert made["jobs"]["run"]["steps"] == plain["jobs"]["run"]["steps"]
    logged_in = {name for name, job in made["jobs"].items() if "aws-region" in json.dumps(job)}
    assert logged_in == {"sweep", "provision", "release"}
    assert all(made["jobs"][name]["permissions"] == {"contents": "read", "id-token": "write"} for name in logged_in)
    assert 'budget-usd: "12.5"' in text and text.count("aws-region: eu-west-1") == 3
    assert "{{" not in text.replace("${{", "") and "# {{" not in text
    assert init(repository, "--pin", PIN, "--check").code == 0
