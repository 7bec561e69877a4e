"""A person solves a case: a workspace on this machine, a clock, and the same judge and record as for every agent.

Nothing isolates a person: the record says so. Services of a case live as long as the shell that `start_attempt` opens.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from bench.base.errors import InfraError, UserError
from bench.base.files import digest_folder, temporary_folder, write_atomic
from bench.base.install import DataFolders
from bench.base.model import Model, explain
from bench.base.text import counted
from bench.base.times import now
from bench.cell import (
    AgentPhase,
    CellContext,
    CellFolder,
    Clock,
    Evidence,
    Finished,
    judged,
    settle,
    unmet_needs,
    write_record,
)
from bench.formats.agent_lookup import find_agent
from bench.formats.amounts import Seconds
from bench.formats.case import load_cases
from bench.formats.names import Instant
from bench.formats.plan import Cell, RunPlan, make_run_plan
from bench.formats.record import Phase, Profile, Record
from bench.formats.run_folder import RunFolder, new_run_name, read_record
from bench.formats.suite import load_suite
from bench.guest.forwarding import forward, listen
from bench.guest.trees import remove_tree
from bench.plan import cells_of
from bench.runs.context import commits_of_agents, provenance_of
from bench.sandbox import Ended, ProcessSandbox, Sandbox, disk_mb, end_orphans

AGENT = "human"
_STATE = "human.json"


class Attempt(Model):
    """The content of human.json: what the record needs of the time before the submission."""

    schema_: Literal[1] = Field(1, alias="schema")
    prepare: Phase
    began: Seconds
    """Unix seconds at which the person got the workspace."""
    started: Instant
    """The same moment, for the record."""
    submitted: Seconds | None = None
    """Unix seconds of the first submission: judging it may take a second try, which costs the person no time."""


@dataclass(frozen=True)
class Desk:
    """One attempt of a person: its folder, cell and state."""

    folder: Path
    cell: Cell
    attempt: Attempt
    context: CellContext

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def elapsed_s(self) -> float:
        return max((self.attempt.submitted or time.time()) - self.attempt.began, 0.0)

    @property
    def left_s(self) -> float:
        return self.cell.case.spec.limits.agent_s - self.elapsed_s

    @property
    def record(self) -> Record | None:
        path = self.folder / "cells" / f"{self.cell.slug}.json"
        return read_record(path) if path.is_file() else None


def start_attempt(
    case_id: str, profile: Profile | None, trial: int, suite_id: str, out: Path, folders: DataFolders
) -> Desk:
    """Prepare a workspace and start the clock; raises `UserError`."""
    suite = load_suite(folders.cases, suite_id)
    case = load_cases(folders.cases, [case_id])[0]
    profile = profile or case.profiles[0]
    if profile not in case.spec.profiles:
        raise UserError(f"case {case.id} has no profile {profile!r}", remedy=f"it has {', '.join(case.spec.profiles)}")
    if unmet := unmet_needs(case.for_profile(profile).spec.needs):
        raise UserError(f"case {case.id} cannot run here: {unmet}", where="human start", remedy="choose another case")
    cell = Cell(find_agent(AGENT, folders.agents), {}, case, profile, trial)
    name = f"{AGENT}-{new_run_name()}"
    folder = out / name
    plan = make_run_plan(name, suite.id, suite.version, profile, ProcessSandbox.name, [cell])
    clock = Clock()
    with clock.phase("prepare"), _as_user_errors():
        CellFolder.prepare(cell, _context(folder, plan, folders), folder)
    RunFolder(folder).write_plan(plan)
    attempt = Attempt(prepare=clock.phases[0], began=time.time(), started=now())
    _write(folder, attempt)
    return open_desk(folder, folders)


def open_desk(folder: Path, folders: DataFolders) -> Desk:
    """The attempt in `folder`; raises `UserError` when there is none, or when its case has changed since."""
    run = RunFolder(folder)
    plan = run.read_plan()
    try:
        attempt = Attempt.model_validate_json((folder / _STATE).read_bytes())
    except OSError:
        raise UserError(f"no {_STATE}", where=folder, remedy="name a folder that `human start` made") from None
    except ValidationError as error:
        raise UserError(explain(error, Attempt), where=folder / _STATE, remedy="start again") from None
    cells = cells_of(plan, folders)
    if len(cells) != 1:
        raise UserError(
            f"plans {counted(len(cells), 'cell')}", where=folder, remedy="name a folder that `human start` made"
        )
    return Desk(folder, cells[0], attempt, _context(folder, plan, folders))


def find_desk(where: Path) -> Path:
    """The folder of the attempt that `where` lies in."""
    for folder in (where, *where.parents):
        if (folder / _STATE).is_file():
            return folder
    raise UserError("is not inside an attempt", where=where, remedy="cd into the workspace, or name the folder")


def submit_attempt(desk: Desk, sandbox: Sandbox) -> Record:
    """Judge a copy of the workspace and store the record; raises `UserError`. What is there stays as it is."""
    if desk.record is not None:
        raise UserError("is submitted already", where=desk.folder, remedy="`human start` begins another attempt")
    limits = desk.cell.case.spec.limits
    used, _ = disk_mb([desk.workspace])
    if used > limits.disk_mb:
        raise UserError(f"holds {used:.0f} MB; {limits.disk_mb} are the most", where=desk.workspace, remedy="tidy up")
    if desk.attempt.submitted is None:
        attempt = desk.attempt.model_copy(update={"submitted": time.time()})
        _write(desk.folder, attempt)
        desk = Desk(desk.folder, desk.cell, attempt, desk.context)
    with RunFolder(desk.folder).locked(end_orphans), _as_user_errors():
        return _judge(desk, sandbox)


def _judge(desk: Desk, sandbox: Sandbox) -> Record:
    cell, context, attempt = desk.cell, desk.context, desk.attempt
    scratch = desk.folder / "scratch"
    clock = Clock(started=attempt.prepare.start, phases=[attempt.prepare])
    clock.phases.append(Phase(name="agent", start=attempt.started, seconds=round(desk.elapsed_s, 4)))
    with context.gpu(cell) as gpu:
        folder = CellFolder.of(cell, replace(context, sandbox=sandbox), scratch, gpu)
        return _graded(folder, desk, clock)


def _graded(folder: CellFolder, desk: Desk, clock: Clock) -> Record:
    cell, context, scratch = folder.cell, desk.context, folder.path
    try:
        with clock.phase("snapshot"):
            scratch.mkdir()
            shutil.copytree(desk.workspace, folder.workspace, symlinks=True, copy_function=_copy_plain)
            shutil.copytree(desk.folder / "journals", folder.journals)
            snapshot = folder.take_snapshot()
            changed = digest_folder(snapshot.folder) != digest_folder(folder.start.workspace)
        with clock.phase("judge"):
            grading = settle(folder, folder.grade())
        ended = Ended("exit", 0, b"", b"", 0, desk.elapsed_s, 0.0, 0)
        phase = AgentPhase(ended, "finished" if desk.left_s >= 0 else "time_limit")
        evidence = Evidence(cell.case.spec, phase, snapshot, grading, changed, context.trace(cell) / "calls.jsonl")
        return write_record(cell, context, Finished(clock=clock, judged=judged(evidence)), [])
    finally:
        remove_tree(scratch)


def _copy_plain(source: str, target: str) -> str:
    """Copy regular files; sockets and pipes, which have no end to read to, are left out."""
    return str(shutil.copy2(source, target)) if Path(source).is_file() else target


@contextlib.contextmanager
def services_of(desk: Desk) -> Iterator[dict[str, str]]:
    """Run the case's services and yield the variables that lead to them, on this machine's loopback."""
    services = desk.cell.case.spec.services
    folder = CellFolder.of(desk.cell, desk.context, desk.folder)
    with temporary_folder("human") as sockets, _as_user_errors(), folder.running_services(sockets) as paths:
        variables = {}
        for name, path in paths.items():
            listener = listen()
            forward(listener, str(path))
            variables[services[name].env] = f"http://127.0.0.1:{listener.getsockname()[1]}"
        yield variables


def open_shell(desk: Desk) -> None:
    """A shell in the workspace, with the case's Python, variables and services; returns when it is left."""
    limits = desk.cell.case.spec.limits
    with services_of(desk) as variables:
        env = {
            **os.environ,
            **variables,
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '/usr/bin:/bin')}",
            "BENCH_TASK_FILE": str(desk.cell.case.task),
            "BENCH_WORKSPACE": str(desk.workspace),
            "BENCH_DEADLINE": str(int(desk.attempt.began + limits.agent_s)),
        }
        subprocess.run([os.environ.get("SHELL") or "/bin/sh"], cwd=desk.workspace, env=env, check=False)


def _write(folder: Path, attempt: Attempt) -> None:
    write_atomic(folder / _STATE, attempt.model_dump_json(by_alias=True, indent=1).encode() + b"\n")


def _context(folder: Path, plan: RunPlan, folders: DataFolders) -> CellContext:
    sandbox = ProcessSandbox()
    return CellContext(
        folder=folder.resolve(),
        sockets=RunFolder(folder).sockets,
        folders=folders,
        sandbox=sandbox,
        provenance=provenance_of(plan, sandbox),
        suite_version=plan.suite_version,
        agent_commits=commits_of_agents(plan),
        cost_limited=False,
    )


@contextlib.contextmanager
def _as_user_errors() -> Iterator[None]:
    """There is no second try by itself: the person reads what failed, and does it again."""
    try:
        yield
    except InfraError as error:
        raise UserError(str(error), where="human", remedy="fix it and do the same again; no time is lost") from None
