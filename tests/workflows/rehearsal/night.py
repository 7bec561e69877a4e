"""A night on the stage: the reusable workflows of this work tree, called by a stranger's repository, under act."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.workflows.rehearsal.stage import HERE, copy_work_tree, git, tool

LABELS = ("ubuntu-24.04", "agent-box")
SECRET = "a secret of the repository of the rehearsal"
_DEAD_PROXY = "http://127.0.0.1:9"
_STAND_INS = ("checkout", "upload-artifact", "download-artifact", "upload-pages-artifact", "deploy-pages")


@dataclass(frozen=True)
class Night:
    """What came of a workflow run."""

    code: int
    text: str
    log: list[dict[str, Any]]
    """act's own entries."""

    @property
    def jobs(self) -> dict[str, set[str]]:
        """The results of the jobs that really ran, by the name of the job without its place in a matrix."""
        found: dict[str, set[str]] = defaultdict(set)
        for entry in self.log:
            if "jobResult" in entry:
                found[str(entry["jobID"])].add(str(entry["jobResult"]))
        return dict(found)

    def legs(self, job: str) -> dict[str, str]:
        """Whether a step failed in a leg of a matrix, by the leg: act's own result of one is that of all."""
        entries = [entry for entry in self.log if entry.get("jobID") == job]
        failed = {entry["job"] for entry in entries if entry.get("stepResult") == "failure"}
        return {
            str(entry["job"]): "failure" if entry["job"] in failed else "success"
            for entry in entries
            if "jobResult" in entry
        }

    @property
    def errors(self) -> list[str]:
        return [str(entry["arg"]) for entry in self.log if entry.get("command") == "error"]


@dataclass
class Stage:
    """A stranger's repository with its results, its artifacts and its site, which all its nights share."""

    folder: Path
    address: str
    """Of the git host; the repository there is stranger/agent."""
    token: str
    python_environment: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.action = copy_work_tree(self.folder / "action")
        self.stranger = self.folder / "agent"
        shutil.copytree(HERE / "stranger", self.stranger)
        shutil.rmtree(self.stranger / ".github")
        shutil.copytree(HERE / "nightly" / ".github", self.stranger / ".github")
        git(self.stranger, "init", "--quiet", "--initial-branch=main")
        git(self.stranger, "remote", "add", "origin", f"{self.address}/stranger/agent")
        git(self.stranger, "add", "--all")
        git(self.stranger, "commit", "--quiet", "--message=An agent")
        _require_known_labels(self.action, self.stranger)

    @property
    def cache(self) -> Path:
        """Of act, which puts the temporary folders of the runners there, too."""
        return self.folder / "cache"

    @property
    def artifacts(self) -> Path:
        return self.folder / "artifacts"

    @property
    def pages(self) -> Path:
        return self.folder / "pages"

    def night(self, number: int, kill_shard: str = "", attempt: str = "1", **variables: str) -> Night:
        """One workflow run; kill_shard: its runner is killed when it has stored the first of several records."""
        command = self._command(number, attempt, variables)
        home = self.folder / f"home-{number}"
        home.mkdir()
        env = {"PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(home), **_offline()}
        log = self.folder / f"night-{number}.log"
        with log.open("wb") as out:
            running = subprocess.Popen(
                command,
                cwd=self.stranger,
                env={**env, "GITHUB_TOKEN": self.token, "MLDB_SEED_SECRET": SECRET},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
            while running.poll() is None:
                if kill_shard and kill_shard_midway(self.cache, kill_shard):
                    kill_shard = ""
                time.sleep(0.02)
        assert not kill_shard, f"nothing was killed: {log}"
        text = log.read_text(encoding="utf-8", errors="replace")
        entries = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return Night(running.returncode, text, entries)

    def _command(self, number: int, attempt: str, variables: Mapping[str, str]) -> list[str]:
        command = [tool("act"), "push", "--json", "--use-new-action-cache", "--no-cache-server", "--pull=false"]
        command += ["--action-cache-path", str(self.cache)]
        for label in LABELS:
            command += ["--platform", f"{label}=-self-hosted"]
        command += ["--local-repository", f"ml-dev-bench/action@v1={self.action}"]
        for name, ref in _pins(self.action).items():
            command += ["--local-repository", f"actions/{name}@{ref}={HERE / name}"]
        inside = {
            **_offline(),
            "GITHUB_RUN_ID": str(number),
            "GITHUB_RUN_ATTEMPT": attempt,
            "GITHUB_SERVER_URL": self.address,
            "GITHUB_REPOSITORY": "stranger/agent",
            "ML_DEV_BENCH_CACHE": str(self.folder / "data"),
            "ARTIFACTS": str(self.artifacts),
            "PAGES": str(self.pages),
        }
        for name, value in inside.items():
            command += ["--env", f"{name}={value}"]
        told = {"PYTHON_ENVIRONMENT": str(self.python_environment), **self.variables, **variables}
        for name, value in told.items():
            command += ["--var", f"{name}={value}"]
        return [*command, "--secret", "GITHUB_TOKEN", "--secret", "MLDB_SEED_SECRET"]


def slim_environment(folder: Path) -> Path:
    """A virtual environment that borrows the packages of this one, so that a copy of it costs nothing."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    own = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    (packages / "borrowed.pth").write_text(f"{own}\n", encoding="utf-8")
    return folder


def kill_shard_midway(runners: Path, shard: str) -> bool:
    """Kill the runner of a shard that has stored a record and has more to do; whether that was done."""
    for plan in runners.glob(f"*/tmp/ml-dev-bench/shards/*-{shard}/*/run.json"):
        planned = len(json.loads(plan.read_bytes())["cells"])
        if 0 < len(list((plan.parent / "cells").glob("*.json"))) < planned:
            for process in Path("/proc").iterdir():
                if process.name.isdigit() and _runs(process, plan.parents[4], shard):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(process.name), signal.SIGKILL)
                        return True
    return False


def _runs(process: Path, temporary: Path, shard: str) -> bool:
    """Is it the process of this stage's step that runs the shard?"""
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
        env = (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"run-shard" in words and {f"MLDB_SHARD={shard}".encode(), f"RUNNER_TEMP={temporary}".encode()} <= {*env}


def _offline() -> dict[str, str]:
    """Whatever asks the network fails: port 9 answers no request."""
    found = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), _DEAD_PROXY)
    return {**found, "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}


def _pins(action: Path) -> dict[str, str]:
    """The commit at which the workflows name each action that has a stand-in."""
    found = {}
    for path in sorted((action / ".github" / "workflows").glob("*.yml")):
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
            for step in job.get("steps", []):
                name, _, ref = step.get("uses", "").removeprefix("actions/").partition("@")
                if name in _STAND_INS:
                    found[name] = ref
    return found


def _require_known_labels(action: Path, stranger: Path) -> None:
    """act skips a job whose label it does not know, and calls that a success: no label may be unknown to it."""
    asked = {
        str(job["runs-on"])
        for name in ("matrix.yml", "round.yml", "leaderboard.yml")
        for job in yaml.safe_load((action / ".github" / "workflows" / name).read_text(encoding="utf-8"))[
            "jobs"
        ].values()
        if "uses" not in job
    }
    experiment = yaml.safe_load((stranger / ".github" / "mldb" / "nightly.yaml").read_text(encoding="utf-8"))
    asked |= {label for machine in experiment["machines"] for label in machine["labels"]}
    assert asked - {"${{ matrix.labels }}"} <= set(LABELS), asked
