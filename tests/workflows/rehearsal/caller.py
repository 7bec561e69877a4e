"""An agent's repository as `init` makes it, and its workflows under act, on a prepared environment."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from bench.cli.init import init
from tests.workflows.rehearsal.stage import HERE, LABEL, RUN_ID, Ended, git, tool

_DEAD_PROXY = "http://127.0.0.1:9"
_OURS = re.compile(r"(uses: ml-dev-bench/[^\n]+\n(?:        env:\n(?:          [^\n]+\n)+)?        with:\n)")
_CHECKOUT = re.compile(r"actions/checkout@([0-9a-f]{40})")


def make_caller(folder: Path) -> None:
    """An empty repository, `init`, and what a rehearsal needs: the environment is prepared, and the sandbox is told."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "remote", "add", "origin", "https://github.com/stranger/agent.git")
    done = CliRunner().invoke(init, [str(folder)])
    assert done.exit_code == 0, done.output
    variables = {"python-environment": "PYTHON_ENVIRONMENT", "sandbox": "SANDBOX"}
    told = "".join(f"          {name}: ${{{{ vars.{variable} }}}}\n" for name, variable in variables.items())
    for path in (folder / ".github" / "workflows").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        path.write_text(_OURS.sub(lambda match: match[1] + told, text), encoding="utf-8")
    commit(folder, "An agent")


def commit(folder: Path, message: str) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", f"--message={message}")
    return git(folder, "rev-parse", "HEAD")


def act(
    caller: Path, action: Path, folder: Path, workflow: str, event: str, facts: Mapping[str, Any], sandbox: str
) -> Ended:
    """What comes of the caller's `workflow` on `event`, without a network; facts: of the event."""
    folder.mkdir(parents=True)
    text = (caller / ".github" / "workflows" / workflow).read_text(encoding="utf-8")
    # act skips a job whose label it does not know, and calls that a success.
    assert {job["runs-on"] for job in yaml.safe_load(text)["jobs"].values()} == {LABEL}
    (folder / "event.json").write_text(json.dumps(facts), encoding="utf-8")
    (folder / "home").mkdir()
    command = [tool("act"), event, "--json", "--use-new-action-cache", "--no-cache-server", "--pull=false"]
    command += ["--workflows", f".github/workflows/{workflow}", "--eventpath", str(folder / "event.json")]
    command += ["--action-cache-path", str(folder / "cache"), "--platform", f"{LABEL}=-self-hosted"]
    command += ["--local-repository", f"ml-dev-bench/action@v1={action}"]
    for digest in set(_CHECKOUT.findall(text)):
        command += ["--local-repository", f"actions/checkout@{digest}={HERE / 'checkout'}"]
    offline = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), _DEAD_PROXY)
    inside = {**offline, "GITHUB_RUN_ID": RUN_ID, "ML_DEV_BENCH_CACHE": str(folder / "data")}
    for name, value in inside.items():
        command += ["--env", f"{name}={value}"]
    for name, value in {"PYTHON_ENVIRONMENT": sys.prefix, "SANDBOX": sandbox}.items():
        command += ["--var", f"{name}={value}"]
    base = {"PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(folder / "home")}
    done = subprocess.run(
        command,
        cwd=caller,
        env={**base, **offline, "TMPDIR": os.environ.get("TMPDIR", "/tmp")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    shutil.rmtree(folder / "cache", ignore_errors=True)
    log = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return Ended(done.returncode, log, done.stdout, folder)
