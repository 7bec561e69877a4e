"""What all cells of a run share, made from its stored plan, and where its records come from."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
from collections.abc import Sequence
from pathlib import Path

from bench import __version__
from bench.base.foreign_git import commit_of
from bench.base.install import DataFolders
from bench.cell import CellContext, DiskSpace
from bench.formats.judge_version import JUDGE
from bench.formats.plan import Cell, RunPlan
from bench.formats.provenance import Provenance
from bench.formats.run_folder import RunFolder
from bench.sandbox import Sandbox

_PACKAGES = ("numpy", "torch", "pandas", "scikit-learn", "safetensors", "wandb", "pydantic", "litellm")


def context_of(
    stored: RunPlan,
    cells: Sequence[Cell],
    folder: Path,
    folders: DataFolders,
    sandbox: Sandbox,
    seed_key: bytes,
) -> CellContext:
    """The context of the cells of a stored run in `folder`; how they are carried out is added by the caller."""
    sockets = RunFolder(folder).sockets
    return CellContext(
        folder=folder.resolve(),
        sockets=sockets,
        folders=folders,
        sandbox=sandbox,
        provenance=provenance_of(stored, sandbox),
        suite_version=stored.suite_version,
        agent_commits=commits_of_agents(stored, cells),
        space=DiskSpace((folder, sockets)),
        seed_key=seed_key,
    )


def commits_of_agents(stored: RunPlan, cells: Sequence[Cell] = ()) -> dict[str, str]:
    """As planned, so that all machines of a run say the same; in a plan that did not say, as it is here."""
    planned = {it.agent_digest: it.agent_commit for it in stored.cells if it.agent_commit is not None}
    unsaid = {cell.agent.digest: cell.agent.folder for cell in cells if cell.agent.digest not in planned}
    return planned | {digest: commit_of(folder)[0] for digest, folder in unsaid.items()}


def provenance_of(stored: RunPlan, sandbox: Sandbox) -> Provenance:
    """Where the records of a run come from."""
    commit, dirty = commit_of(Path(__file__).resolve().parents[2])
    env = os.environ
    url = (
        f"{env['GITHUB_SERVER_URL']}/{env['GITHUB_REPOSITORY']}/actions/runs/{env['GITHUB_RUN_ID']}"
        if all(env.get(name) for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID"))
        else ""
    )
    return Provenance(
        bench_version=__version__,
        bench_commit=commit,
        dirty=dirty,
        judge=JUDGE,
        suite=stored.suite,
        suite_version=stored.suite_version,
        run=stored.run,
        run_url=url,
        workflow=env.get("GITHUB_WORKFLOW", ""),
        sandbox=sandbox.name,
        isolated=sandbox.isolated,
        image=sandbox.image,
        seed_secret=stored.seed_secret,
        sequential=stored.sequential,
        packages=_packages(),
    )


def _packages() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
