"""A stranger's first use: the block of the README as printed, in a fresh repository, with a real installation."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.workflows.rehearsal.stage import LABEL, ROOT, RUN_ID, Ended, git, stand_ins, tool

_BLOCK = re.compile(r"```yaml\n(name: benchmark\n.*?)```", re.DOTALL)
_MACHINE = re.compile(r"(PIP_|SSL_CERT_|REQUESTS_CA_|CURL_CA_)")
"""How this machine reaches the package index."""


def readme_block() -> str:
    """The workflow in the README."""
    (block,) = _BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert isinstance(block, str) and f"runs-on: {LABEL}\n" in block
    return block


@dataclass(frozen=True)
class Newcomer:
    """A person with an empty repository; `tools` outlives their jobs, as a runner's tool cache does."""

    folder: Path
    action: Path
    tools: Path

    def push(self, workflow: str, files: dict[str, str], server: str, token: str) -> Ended:
        """Commit the workflow with these files, and run what a push starts; installs from the network."""
        repository, stage = self.folder / "agent", self.folder / "stage"
        for name, text in {**files, ".github/workflows/benchmark.yml": workflow}.items():
            (repository / name).parent.mkdir(parents=True, exist_ok=True)
            (repository / name).write_text(text, encoding="utf-8")
        git(repository, "init", "--quiet", "--initial-branch=main")
        git(repository, "remote", "add", "origin", "https://github.com/stranger/agent.git")
        git(repository, "add", "--all")
        git(repository, "commit", "--quiet", "--message=A first try")
        (stage / "home").mkdir(parents=True)
        machine = {name: value for name, value in os.environ.items() if _MACHINE.match(name)}
        inside = {**machine, "GITHUB_RUN_ID": RUN_ID, "GITHUB_SERVER_URL": server}
        inside |= {"ML_DEV_BENCH_CACHE": str(stage / "data"), "ARTIFACTS": str(stage / "artifacts")}
        command = [tool("act"), "push", "--json", "--use-new-action-cache", "--no-cache-server", "--pull=false"]
        # The runner's tool cache lies below.
        command += ["--action-cache-path", str(self.tools), "--platform", f"{LABEL}=-self-hosted"]
        command += ["--local-repository", f"ml-dev-bench/action@v1={self.action}", "--secret", "GITHUB_TOKEN"]
        command += stand_ins(workflow, (self.action / "action.yml").read_text(encoding="utf-8"))
        command += [part for name, value in inside.items() for part in ("--env", f"{name}={value}")]
        path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        env = {**machine, "PATH": path, "HOME": str(stage / "home"), "GITHUB_TOKEN": token}
        done = subprocess.run(
            command, cwd=repository, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=1500, check=False,
        )  # fmt: skip
        log = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return Ended(done.returncode, log, done.stdout, stage)
