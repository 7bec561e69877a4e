"""The stage of the rehearsal: a stranger's repository, this work tree as the action, and act in the place of GitHub."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
LABEL = "ubuntu-24.04"
RUN_ID = "4711"
_DEAD_PROXY = "http://127.0.0.1:9"
"""Port 9 answers nobody: whatever asks the network fails."""


_USED = re.compile(r"uses: (actions/[a-z-]+)(?:/[a-z-]+)?@([0-9a-f]{40})")


@dataclass(frozen=True)
class Ended:
    """What came of a workflow run."""

    code: int
    log: list[dict[str, Any]]
    """act's own entries."""
    text: str
    evidence: Path

    def commands(self, name: str) -> list[dict[str, Any]]:
        """The workflow commands of that name which the runner obeyed."""
        return [entry for entry in self.log if entry.get("command") == name]

    @property
    def summary(self) -> str:
        return "".join(str(entry["content"]) for entry in self.commands("summary"))

    @property
    def outputs(self) -> dict[str, str]:
        found = json.loads((self.evidence / "outputs.json").read_text(encoding="utf-8"))
        assert isinstance(found, dict)
        return found


def tool(name: str) -> str:
    """The program from the environment of the tests."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert found, f"{name} is not installed: pip install 'ml-dev-bench[dev]'"
    return found


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=stranger", "-c", "user.email=s@stranger.invalid", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def copy_work_tree(target: Path) -> Path:
    """Everything that a commit of the work tree would hold, uncommitted changes included."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
    return target


def stand_ins(*texts: str) -> list[str]:
    """Options of act by which folders beside this file take the place of the actions of others that `texts` use.

    act fetches even those whose step is not run.
    """
    used = sorted({found for text in texts for found in _USED.findall(text)})
    named = [f"{action}@{commit}={HERE / action.removeprefix('actions/')}" for action, commit in used]
    return [option for it in named for option in ("--local-repository", it)]


def make_stranger(folder: Path, agent: Path | None = None) -> str:
    """The stranger's repository in `folder`, with `agent` in place of the good one; its commit."""
    shutil.copytree(HERE / "stranger", folder)
    if agent is not None:
        shutil.copyfile(agent, folder / "greeter.py")
    for name in ("bench", "pip", "venv"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"raise SystemExit('the stranger has a package {name} too')\n")
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "remote", "add", "origin", "https://github.com/stranger/agent.git")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=An agent")
    return git(folder, "rev-parse", "HEAD")


def rehearse(
    stranger: Path, action: Path, folder: Path, variables: dict[str, str], server: str = "", token: str = "no-token"
) -> Ended:
    """Run the stranger's workflow on `push`, without a network, with `action` as ml-dev-bench/action@v1."""
    evidence = folder / "evidence"
    evidence.mkdir(parents=True)
    home = folder / "home"
    home.mkdir()
    # act skips a job whose label it does not know, and calls that a success.
    assert f"runs-on: {LABEL}\n" in (stranger / ".github" / "workflows" / "bench.yml").read_text(encoding="utf-8")
    command = [tool("act"), "push", "--json", "--use-new-action-cache", "--no-cache-server", "--pull=false"]
    command += ["--action-cache-path", str(folder / "cache"), "--platform", f"{LABEL}=-self-hosted"]
    command += ["--local-repository", f"ml-dev-bench/action@v1={action}"]
    command += ["--local-repository", f"actions/checkout@v7={HERE / 'checkout'}"]
    command += stand_ins((action / "action.yml").read_text(encoding="utf-8"))
    base = {"PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(home)}
    offline = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), _DEAD_PROXY)
    offline |= {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}
    inside = {**offline, "GITHUB_RUN_ID": RUN_ID, "ML_DEV_BENCH_CACHE": str(folder / "data")}
    if server:
        inside["GITHUB_SERVER_URL"] = server
    for name, value in inside.items():
        command += ["--env", f"{name}={value}"]
    for name, value in {"EVIDENCE": str(evidence), **variables}.items():
        command += ["--var", f"{name}={value}"]
    command += ["--secret", "GITHUB_TOKEN"]
    done = subprocess.run(
        command,
        cwd=stranger,
        env={**base, **offline, "GITHUB_TOKEN": token},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    shutil.rmtree(folder / "cache", ignore_errors=True)
    log = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return Ended(done.returncode, log, done.stdout, evidence)
