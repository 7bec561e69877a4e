"""An agent's repository as `init` makes it, and its workflows under act, on a prepared environment."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from bench.cli.init import init
from tests.workflows.rehearsal.stage import HERE, LABEL, RUN_ID, Ended, git, tool

_DEAD_PROXY = "http://127.0.0.1:9"
_OURS = re.compile(r"(uses: ml-dev-bench/([^\n@]+)@[^\n]+\n(?:        env:\n(?:          [^\n]+\n)+)?        with:\n)")
_USED = re.compile(r"uses: ((?:aws-)?actions/([a-z-]+)@[0-9a-f]{40})")
_SANDBOXED = ("action", "action/.github/actions/smoke", "action/.github/actions/plan", "action/.github/actions/compare")


@dataclass(frozen=True)
class Hub:
    """What stands in for GitHub: where its git and its REST API answer, and where artifacts and pages are kept."""

    server: str
    api: str
    token: str
    folder: Path
    labels: tuple[str, ...] = ()
    """Of runners that are there besides the hosted ones."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the repository."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Of every runner."""
    python_environment: str = sys.prefix


def make_caller(folder: Path, *options: str, files: Mapping[str, str] | None = None) -> None:
    """An empty repository with `files`, then `init`, and what a rehearsal needs: the environment is prepared."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "remote", "add", "origin", "https://github.com/stranger/agent.git")
    for name, text in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    done = CliRunner().invoke(init, [str(folder), *options])
    assert done.exit_code == 0, done.output
    for path in (folder / ".github" / "workflows").glob("*.yml"):
        path.write_text(prepared(path.read_text(encoding="utf-8")), encoding="utf-8")
    commit(folder, "An agent")


def prepared(workflow: str) -> str:
    """The workflow with, at each step of ours, what a rehearsal needs."""
    return _OURS.sub(_told, workflow)


def _told(match: re.Match[str]) -> str:
    """The inputs of a step of ours with those of a prepared machine."""
    sandbox = "          sandbox: ${{ vars.SANDBOX }}\n" if match[2] in _SANDBOXED else ""
    return f"{match[1]}          python-environment: ${{{{ vars.PYTHON_ENVIRONMENT }}}}\n{sandbox}"


def commit(folder: Path, message: str) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", f"--message={message}")
    return git(folder, "rev-parse", "HEAD")


def act(
    caller: Path,
    action: Path,
    folder: Path,
    workflow: str,
    event: str,
    facts: Mapping[str, Any],
    sandbox: str,
    *,
    run_id: str = RUN_ID,
    hub: Hub | None = None,
    secrets: Mapping[str, str] | None = None,
) -> Ended:
    """What comes of the caller's `workflow` on `event`, without a network; facts: of the event."""
    folder.mkdir(parents=True)
    text = (caller / ".github" / "workflows" / workflow).read_text(encoding="utf-8")
    # act skips a job whose label it does not know, and calls that a success.
    assert {job["runs-on"] for job in yaml.safe_load(text)["jobs"].values()} <= {LABEL, "${{ matrix.labels }}"}
    (folder / "event.json").write_text(json.dumps(facts), encoding="utf-8")
    (folder / "home").mkdir()
    command = [tool("act"), event, "--json", "--use-new-action-cache", "--no-cache-server", "--pull=false"]
    command += ["--workflows", f".github/workflows/{workflow}", "--eventpath", str(folder / "event.json")]
    command += ["--action-cache-path", str(folder / "cache")]
    for label in (LABEL, *(hub.labels if hub is not None else ())):
        command += ["--platform", f"{label}=-self-hosted"]
    command += ["--local-repository", f"ml-dev-bench/action@v1={action}"]
    for reference, name in set(_USED.findall(text)):
        command += ["--local-repository", f"{reference}={HERE / name}"]
    offline = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), _DEAD_PROXY)
    offline |= {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}
    inside = {**offline, "GITHUB_RUN_ID": run_id, "ML_DEV_BENCH_CACHE": str(folder / "data")}
    if hub is not None:
        inside |= {"GITHUB_SERVER_URL": hub.server, "GITHUB_API_URL": hub.api, "GITHUB_REPOSITORY": "stranger/agent"}
        inside |= {"ARTIFACTS": str(hub.folder / "artifacts"), "PAGES": str(hub.folder / "pages"), **hub.environment}
    given = {"GITHUB_TOKEN": hub.token if hub is not None else "no-token", **(secrets or {})}
    command += [part for name, value in inside.items() for part in ("--env", f"{name}={value}")]
    command += [part for name in given for part in ("--secret", name)]
    variables = {"SANDBOX": sandbox, "PYTHON_ENVIRONMENT": hub.python_environment if hub is not None else sys.prefix}
    variables |= hub.variables if hub is not None else {}
    command += [part for name, value in variables.items() for part in ("--var", f"{name}={value}")]
    base = {"PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(folder / "home")}
    done = subprocess.run(
        command, cwd=caller, env={**base, **offline, **given}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=1500, check=False,
    )  # fmt: skip
    shutil.rmtree(folder / "cache", ignore_errors=True)
    log = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return Ended(done.returncode, log, done.stdout, folder)


def jobs_of(ended: Ended) -> dict[str, str]:
    """The results of the jobs that really ran: act leaves out what it skips, and calls the whole a success."""
    return {str(entry["jobID"]): str(entry["jobResult"]) for entry in ended.log if "jobResult" in entry}
