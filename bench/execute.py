"""One run from plan to stored bundle: what `run`, `demo` and the Action have in common."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from bench import __version__
from bench.cell import Cell, RunContext
from bench.diskspace import DiskSpace
from bench.environment import agent_python
from bench.errors import InfraError, UserError
from bench.gateway.purse import RunLimits
from bench.places import Places
from bench.plan.request import Plan, cells_of, commit_of
from bench.pool import Progress, run_cells
from bench.record import Provenance, Record
from bench.rundir import RunFolder, RunPlan, plan_of, writing
from bench.sandbox.job import Sandbox
from bench.seedsecret import fingerprint, require_same, seed_secret
from bench.store.branch import Committed, ResultsBranch
from bench.store.bundle import Bundle
from bench.store.keeping import Kept, inline_traces
from bench.store.place import is_remote

_PACKAGES = ("numpy", "torch", "pandas", "scikit-learn", "safetensors", "wandb", "pydantic", "litellm")


@dataclass(frozen=True)
class Options:
    """How a run is carried out."""

    jobs: int = 1
    keep_workspaces: bool = False
    cost_limited: bool = True
    run_limits: RunLimits = field(default_factory=RunLimits)


def begin(plan: Plan, folder: Path, run: str, sandbox: Sandbox) -> RunPlan:
    """Write down what is asked before anything runs; raises `UserError` when the folder holds a run already."""
    stored = plan_of(run, plan.suite.id, plan.suite.version, plan.profile, sandbox.name, plan.cells)
    stored = stored.model_copy(update={"seed_secret": fingerprint(seed_secret())})
    RunFolder(folder).write_plan(stored)
    return stored


def carry_out(
    stored: RunPlan,
    cells: Sequence[Cell] | None,
    folder: Path,
    places: Places,
    sandbox: Sandbox,
    options: Options,
    progress: Progress,
) -> list[Record]:
    """Run what is not finished yet; `cells` None: those of the stored plan. Returns all records."""
    if stored.sandbox != sandbox.name:
        raise UserError(
            f"the run began in the {stored.sandbox} sandbox, not in {sandbox.name}",
            where="--sandbox",
            remedy=f"resume with --sandbox {stored.sandbox}",
        )
    secret = seed_secret()
    require_same(secret, stored.seed_secret)
    run = RunFolder(folder)
    cells = cells if cells is not None else cells_of(stored, places)
    context = RunContext(
        folder=folder.resolve(),
        sockets=run.sockets,
        places=places,
        sandbox=sandbox,
        provenance=provenance_of(stored, sandbox),
        suite_version=stored.suite_version,
        agent_commits={cell.agent.id: commit_of(cell.agent.folder)[0] for cell in _one_each(cells)},
        keep_workspaces=options.keep_workspaces,
        cost_limited=options.cost_limited,
        run_limits=options.run_limits,
        space=DiskSpace((folder, run.sockets)),
        seed_secret=secret,
    )
    progress.total = len(cells)
    with run.locked():
        _prepare_environments(cells, places.cache)
        # Only now: packages that build themselves may leave files in an agent's folder.
        context.agent_digests.update({cell.agent.id: replace(cell.agent).digest for cell in _one_each(cells)})
        return run_cells(cells, context, run, options.jobs, progress)


def _prepare_environments(cells: Sequence[Cell], cache: Path) -> None:
    """Build what agents need before any clock runs; raises `UserError` when an interpreter is missing."""
    for cell in _one_each(cells):
        # What does not build is tried again, and recorded, by each of its cells.
        with contextlib.suppress(InfraError):
            agent_python(cell.agent, cache)


def _one_each(cells: Sequence[Cell]) -> list[Cell]:
    """One cell of every agent."""
    return list({cell.agent.id: cell for cell in cells}.values())


def store(
    stored: RunPlan, records: Sequence[Record], repository: str, branch: str, folder: Path | None = None
) -> Committed:
    """Commit the records of a run to the results branch; the same records twice are one commit.

    folder: the run's. Small traces go along where the repository is of this machine.
    """
    results = ResultsBranch(repository, branch)
    attempt = int(os.environ.get("GITHUB_RUN_ATTEMPT") or 1)
    started = datetime.fromisoformat(stored.created)
    kept = inline_traces(records, folder) if folder is not None and not is_remote(repository) else Kept([], {}, [])
    with writing(Path(repository)):
        results.ensure()
        return results.commit(Bundle(stored.run, attempt, list(records), started, kept.traces, kept.inline))


def provenance_of(stored: RunPlan, sandbox: Sandbox) -> Provenance:
    """Where the records of a run come from."""
    commit, dirty = commit_of(Path(__file__).resolve().parents[1])
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
        suite=stored.suite,
        suite_version=stored.suite_version,
        run=stored.run,
        run_url=url,
        workflow=env.get("GITHUB_WORKFLOW", ""),
        sandbox=sandbox.name,
        isolated=sandbox.isolated,
        image=sandbox.image,
        seed_secret=stored.seed_secret,
        packages=_packages(),
    )


def _packages() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
