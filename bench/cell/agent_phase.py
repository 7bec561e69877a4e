"""The agent phase: the agent's command in the sandbox, with its gateway and services, under its limits."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.base.errors import InfraError
from bench.base.files import write_atomic
from bench.cell.context import CellContext
from bench.cell.decoys import Decoys
from bench.cell.environment import agent_python
from bench.cell.services import running_services
from bench.cell.start_state import StartState
from bench.cell.workspace import make_harmless
from bench.formats.plan import Cell
from bench.formats.record import ModelUsage, Note, StopReason
from bench.gateway import CellLimits, Gateway, GatewaySpec, RunBudgetConfig, open_gateway
from bench.sandbox import Ended, Job, Mount, cell_environment, job_limits, run_job

CASE_PYTHON = Path(sys.executable)
"""The interpreter that has the libraries of the cases; it judges them, too."""
GAVE_UP = 4
"""Exit status by which an agent says that it gave up."""


@dataclass
class AgentPhase:
    """What the agent phase left besides the workspace."""

    ended: Ended
    stop_reason: StopReason
    usage: list[ModelUsage] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


@dataclass(frozen=True)
class Overlay:
    """An answer to lay over the workspace: the solution for the oracle, a wrong answer for the verifier."""

    folder: Path
    run: list[str]


def run_agent(
    cell: Cell, context: CellContext, start: StartState, scratch: Path, overlay: Overlay | None
) -> AgentPhase:
    """Run the agent to its end; raises `InfraError` for faults that are not its own."""
    trace = context.trace(cell)
    (trace / "out").mkdir(parents=True, exist_ok=True)
    folder = context.socket_folder(cell)
    python = agent_python(cell.agent, context.places.cache)
    # The agent compares with the time of day, which somebody may set; nobody sets the clock that the gateway goes by.
    deadline, ends = (now + cell.case.spec.limits.agent_s for now in (time.time(), time.monotonic()))
    services = running_services(
        cell.case.part("services.py"),
        sorted(cell.case.spec.services),
        start.hidden,
        scratch / "journals",
        folder,
        context.data_seed(cell),
    )
    tripwire = _decoys(cell, context, scratch)
    with services as sockets, tripwire as wire, _gateway(cell, context, folder / "gateway.sock", ends) as gateway:
        if gateway is not None:
            sockets = {**sockets, "gateway": folder / "gateway.sock"}
        env = _environment(cell, context, gateway, deadline)
        job = _job(cell, context, scratch, sockets, env, overlay, python)
        if wire is not None:
            job = replace(job, mounts=[*job.mounts, *wire.mounts])
        try:
            ended = run_job(context.sandbox, job, gateway.should_stop if gateway is not None else None)
        finally:
            make_harmless(trace / "out")
        peeked = wire.evidence() if wire is not None else ""
    _keep_log(trace / "agent.log", ended)
    notes = [Note(name="hidden_read_attempt", evidence=peeked)] if peeked else []
    if gateway is None:
        return AgentPhase(ended, _stop_reason(ended, None), notes=notes)
    # Read after the gateway has closed: only then are calls that were still open charged.
    calls = gateway.state()
    if calls.error:
        raise InfraError("cassette_miss" if calls.cassette_miss else "gateway_error", calls.error)
    if calls.lost_last and ended.reason == "exit" and ended.code not in (0, GAVE_UP):
        raise InfraError(
            "gateway_error", f"the agent ended with status {ended.code} after its last model call was lost"
        )
    return AgentPhase(ended, _stop_reason(ended, calls.limit_hit), calls.usage, [*calls.notes, *notes])


@contextlib.contextmanager
def _decoys(cell: Cell, context: CellContext, scratch: Path) -> Iterator[Decoys | None]:
    """Decoys for where hidden files would be; without isolation the real files lie there."""
    if not context.sandbox.isolated:
        yield None
        return
    with contextlib.closing(Decoys(scratch / "decoys", cell.case, context.folder)) as wire:
        yield wire


@contextlib.contextmanager
def _gateway(cell: Cell, context: CellContext, socket: Path, deadline: float) -> Iterator[Gateway | None]:
    if not cell.models:
        yield None
        return
    limits, run_limits = cell.case.spec.limits, context.run_limits
    cost = limits.cost_usd if context.cost_limited else None
    spec = GatewaySpec(
        socket=socket,
        ledger=context.trace(cell) / "calls.jsonl",
        models=cell.models,
        case=cell.case.id,
        cassettes=cell.agent.folder / "cassettes",
        limits=CellLimits(calls=limits.steps, cost_usd=cost, tokens=limits.tokens, deadline=deadline),
        run_budget=RunBudgetConfig(path=context.folder / "budget.json", limits=run_limits)
        if run_limits.any_set
        else None,
        hosted_tools=cell.case.spec.needs.network,
        own_prices=_named_path("MLDB_PRICES"),
        record=context.trace(cell) / "cassettes" if os.environ.get("MLDB_RECORD") else None,
    )
    with open_gateway(spec) as gateway:
        yield gateway


def _named_path(variable: str) -> Path | None:
    """The path in a variable of the runner's environment."""
    value = os.environ.get(variable)
    return Path(value) if value else None


def _job(
    cell: Cell,
    context: CellContext,
    scratch: Path,
    sockets: dict[str, Path],
    env: dict[str, str],
    overlay: Overlay | None,
    python: Path,
) -> Job:
    inside = context.sandbox.guest_path
    workspace = Mount(scratch / "workspace", "/workspace", writable=True)
    agent = Mount(cell.agent.folder, "/agent")
    task = Mount(cell.case.task, "/task/task.md")
    out = Mount(context.trace(cell) / "out", "/out", writable=True)
    # A folder inside `/agent` would need a place to mount it in the agent's own folder, which is read-only.
    shared = [Mount(folder, f"/{name.removeprefix('../')}") for name, folder in cell.agent.shared.items()]
    mounts = [workspace, agent, *shared, task, out]
    if (cell.agent.folder / "cassettes").is_dir():
        # Replayed conversations show how a case is solved: an empty folder stands before them.
        empty = scratch / "empty"
        empty.mkdir(exist_ok=True)
        mounts.append(Mount(empty, "/agent/cassettes"))
    env |= {"BENCH_TASK_FILE": inside(task), "BENCH_WORKSPACE": inside(workspace), "BENCH_OUT_DIR": inside(out)}
    interpreter = context.sandbox.interpreter
    env |= {"BENCH_PYTHON": interpreter(CASE_PYTHON), "BENCH_AGENT_PYTHON": interpreter(python)}
    variables = cell.agent.spec.environment.variables
    env = {**{name: value.replace("{agent}", inside(agent)) for name, value in variables.items()}, **env}
    if overlay is not None:
        solution = Mount(overlay.folder, "/solution")
        mounts.append(solution)
        env |= {"BENCH_SOLUTION_DIR": inside(solution), "BENCH_SOLUTION_RUN": json.dumps(overlay.run)}
    limits = cell.case.spec.limits
    return Job(
        argv=_command(cell, inside(agent), python),
        mounts=mounts,
        cwd=workspace,
        limits=job_limits(limits, limits.agent_s),
        env=env,
        scratch=context.socket_folder(cell),
        sockets=sockets,
        # The agent's commands in the workspace need the case's libraries, so the case's interpreter is `python` there.
        python=CASE_PYTHON,
        interpreters=[] if python == CASE_PYTHON else [python],
        setting=cell_environment(cell.case, context.provenance.run, cell.id),
    )


def _command(cell: Cell, folder: str, python: Path) -> list[str]:
    """The agent's command: `python` and programs that its packages installed are those of its own environment."""
    program, *arguments = [part.replace("{agent}", folder) for part in cell.agent.spec.command]
    own = python.with_name(program)
    if python != CASE_PYTHON and "/" not in program and own.exists():
        program = str(own)
    return [program, *arguments]


def _environment(cell: Cell, context: CellContext, gateway: Gateway | None, deadline: float) -> dict[str, str]:
    """Everything of the agent's environment that names no path."""
    limits = cell.case.spec.limits
    env = {
        "BENCH_MAX_STEPS": str(limits.steps),
        "BENCH_DEADLINE": str(int(deadline)),
    }
    if context.cost_limited:
        env["BENCH_MAX_COST_USD"] = str(limits.cost_usd)
    for name, service in cell.case.spec.services.items():
        env[service.env] = f"http://127.0.0.1:{{port:{name}}}"
    if gateway is None:
        return env
    base = "http://127.0.0.1:{port:gateway}"
    env |= {
        "OPENAI_BASE_URL": f"{base}/v1",
        "OPENAI_API_KEY": gateway.key,
        "ANTHROPIC_BASE_URL": base,
        "ANTHROPIC_API_KEY": gateway.key,
    }
    for role in cell.models:
        name = "BENCH_MODEL" if role == "main" else f"BENCH_MODEL_{role.upper().replace('-', '_')}"
        env[name] = gateway.alias(role)
        env[name.replace("MODEL", "API_KEY", 1)] = gateway.role_key(role)
    return env


def _stop_reason(ended: Ended, limit_hit: StopReason | None) -> StopReason:
    if ended.reason == "stopped":
        return limit_hit or "crashed"
    if ended.reason != "exit":
        return ended.reason
    if ended.code == 0:
        return "finished"
    if limit_hit is not None:
        return limit_hit
    return "gave_up" if ended.code == GAVE_UP else "crashed"


def _keep_log(path: Path, ended: Ended) -> None:
    parts = [ended.stdout]
    if ended.stderr:
        parts += [b"\n--- standard error ---\n", ended.stderr]
    write_atomic(path, b"".join(parts))
