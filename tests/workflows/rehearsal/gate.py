"""The stage of a gate: an agent with a change that breaks it and one that does not, and a small benchmark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.workflows.rehearsal.stage import HERE, LABEL, ROOT, Ended, git, tool

CASES = [f"hello_{number}" for number in range(5)]
RULES = """\
name: gate
suites: [gate]
agents: [mldb-agent.yml]
trials: 2
"""
SUITE = f"""\
schema: 1
id: gate
version: "2026.11"
title: Quick cases
cases: [{", ".join(CASES)}]
"""
GREETER = (HERE / "stranger" / "greeter.py").read_text(encoding="utf-8")
BROKEN = GREETER.replace("line.group(1)", "line.group(1).lower()")


@dataclass(frozen=True)
class Commits:
    """Of an agent's repository."""

    base: str
    broken: str
    """Its agent prints the greeting without capitals."""
    harmless: str
    """A remark was added."""
    sneaky: str
    """As `broken`, and the gate's rules and a workflow are changed as well."""
    docs: str
    """Nothing of the agent has changed."""


def copy_benchmark(target: Path) -> Path:
    """The work tree with a few quick cases in place of all the others: what a gate of a minute takes."""
    target.mkdir(parents=True)
    for name in ("bench", "agents", "site", ".github"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", "action.yml"):
        shutil.copy2(ROOT / name, target / name)
    for case in CASES:
        folder = target / "cases" / "basics" / case
        shutil.copytree(ROOT / "cases" / "basics" / "hello_world", folder)
        facts = folder / "case.yaml"
        facts.write_text(facts.read_text(encoding="utf-8").replace("id: hello_world", f"id: {case}", 1))
    (target / "cases" / "suites").mkdir()
    (target / "cases" / "suites" / "gate.yaml").write_text(SUITE, encoding="utf-8")
    return target


def make_agent_repository(folder: Path) -> Commits:
    """An agent in a folder of its repository, the rules of its gate, and a branch for each change."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "remote", "add", "origin", "https://github.com/owner/agents.git")
    _write(folder, "bot/greeter.py", GREETER)
    spec = (HERE / "stranger" / "agent.yaml").read_text(encoding="utf-8")
    _write(folder, "bot/mldb-agent.yml", spec)
    _write(folder, "README.md", "An agent.\n")
    _write(folder, ".github/workflows/other.yml", "on: push\njobs: {}\n")
    _write(folder, ".github/mldb/gate.yaml", RULES.replace("mldb-agent.yml", "bot/mldb-agent.yml"))
    base = _commit(folder, "An agent")

    def branch(name: str, **files: str) -> str:
        git(folder, "checkout", "--quiet", "-B", name, base)
        for path, text in files.items():
            _write(folder, path, text)
        return _commit(folder, name)

    commits = Commits(
        base=base,
        broken=branch("broken", **{"bot/greeter.py": BROKEN}),
        harmless=branch("harmless", **{"bot/greeter.py": f"{GREETER}# A remark.\n"}),
        sneaky=branch(
            "sneaky",
            **{
                "bot/greeter.py": BROKEN,
                ".github/mldb/gate.yaml": "suites: [gate]\nagents: [bot/mldb-agent.yml]\ncases: [hello_0, hello_1]\n",
                ".github/workflows/other.yml": "on: pull_request\njobs: {}\n",
            },
        ),
        docs=branch("docs", **{"README.md": "The same agent.\n"}),
    )
    git(folder, "checkout", "--quiet", "main")
    return commits


def make_remote(repository: Path, bare: Path) -> Path:
    """A bare copy, as a git host has it: any commit that it holds can be asked for."""
    bare.parent.mkdir(parents=True, exist_ok=True)
    git(repository, "clone", "--quiet", "--bare", str(repository), str(bare))
    for setting in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant", "http.receivepack"):
        git(bare, "config", setting, "true")
    return bare


def run_verb(benchmark: Path, verb: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A step of the Action as its job runs it, outputs in `folder`/outputs."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "MLDB_"))}
    env = {
        **kept,
        "PYTHONPATH": str(benchmark),
        "RUNNER_TEMP": str(folder),
        "GITHUB_OUTPUT": str(folder / "outputs"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "ML_DEV_BENCH_CACHE": str(folder / "cache"),
        **variables,
    }
    command = [sys.executable, "-m", "bench", "action", verb]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=900, check=False)


def outputs_of(folder: Path) -> dict[str, str]:
    lines = (folder / "outputs").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines)


def _write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def _commit(folder: Path, message: str) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", f"--message={message}")
    return git(folder, "rev-parse", "HEAD")


def rehearse_event(
    workflow: str,
    event: tuple[str, object],
    repository: Path,
    benchmark: Path,
    folder: Path,
    told: dict[str, str],
    token: str = "no-token",
) -> Ended:
    """Run a caller's workflow on an event (its name and content), with `benchmark` as ml-dev-bench/action@v1.

    told: the repository's variables; names that begin with GITHUB_ go to the environment of every step.
    """
    evidence, home = folder / "evidence", folder / "home"
    evidence.mkdir(parents=True)
    home.mkdir()
    path = HERE / "caller" / workflow
    # act skips a job whose label it does not know, and calls that a success.
    assert f"runs-on: {LABEL}\n" in path.read_text(encoding="utf-8")
    (folder / "event.json").write_text(json.dumps(event[1]), encoding="utf-8")
    command = [tool("act"), event[0], "--json", "--use-new-action-cache", "--no-cache-server", "--pull=false"]
    command += ["--workflows", str(path), "--eventpath", str(folder / "event.json")]
    command += ["--action-cache-path", str(folder / "cache"), "--platform", f"{LABEL}=-self-hosted"]
    stand_ins = {"actions/checkout@v7": HERE / "checkout", "actions/upload-artifact@v7": HERE / "upload"}
    for name, place in {"ml-dev-bench/action@v1": benchmark, **stand_ins}.items():
        command += ["--local-repository", f"{name}={place}"]
    inside = {"EVIDENCE": str(evidence), "ML_DEV_BENCH_CACHE": str(folder / "data"), "GITHUB_RUN_ATTEMPT": "1"}
    inside |= {name: value for name, value in told.items() if name.startswith("GITHUB_")}
    for name, value in inside.items():
        command += ["--env", f"{name}={value}"]
    for name, value in told.items():
        command += [] if name.startswith("GITHUB_") else ["--var", f"{name}={value}"]
    command += ["--secret", "GITHUB_TOKEN"]
    env = {"PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin", "HOME": str(home)}
    done = subprocess.run(
        command,
        cwd=repository,
        env={**env, "GITHUB_TOKEN": token},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1500,
        check=False,
    )
    shutil.rmtree(folder / "cache", ignore_errors=True)
    log = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return Ended(done.returncode, log, done.stdout, evidence)


def require_every_job(ended: Ended, *jobs: str) -> None:
    """No job was silently skipped: each of `jobs` has told its result."""
    told = {str(entry.get("jobID")) for entry in ended.log if entry.get("jobResult")}
    assert told == set(jobs), f"{told}: {ended.text}"
