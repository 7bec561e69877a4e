"""What the agent's job is made of: its command, what it sees, and its environment."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.base.errors import InfraError
from bench.cell.ask import ADDRESS, SOCKET
from bench.cell.context import CellContext
from bench.cell.decoys import Decoys
from bench.cell.workspace import CellFolder
from bench.formats.plan import Cell
from bench.gateway import Gateway
from bench.sandbox import Job, Mount, cell_environment, job_limits

CASE_PYTHON = Path(sys.executable)
"""The interpreter that has the libraries of the cases; it judges them, too."""


@dataclass(frozen=True)
class Overlay:
    """An answer to lay over the workspace: the solution for the oracle, a wrong answer for the verifier."""

    folder: Path
    run: list[str]
    removed: Sequence[str] = ()
    """Files of the workspace to remove before the command."""
    last: Path | None = None
    """A folder to lay over what the command has left."""


def agent_job(
    folder: CellFolder,
    decoys: Decoys | None,
    sockets: dict[str, Path],
    env: dict[str, str],
    overlay: Overlay | None,
    python: Path,
) -> Job:
    cell, context = folder.cell, folder.context
    guest_path = context.sandbox.guest_path
    workspace = Mount(folder.workspace, "/workspace", writable=True)
    staged = context.staged(cell.agent)
    agent = Mount(cell.agent.staged(staged), "/agent")
    task = Mount(cell.case.task, "/task/task.md")
    out = Mount(folder.out, "/out", writable=True)
    mounts = [workspace, agent, *_shared(cell, staged), task, out]
    interpreter, image = context.sandbox.interpreter, _image(cell, context)
    variables = cell.agent.spec.environment.variables
    # Ours come last: no variable of an agent.yaml takes the place of one of the benchmark's.
    env = {
        **{name: value.replace("{agent}", guest_path(agent)) for name, value in variables.items()},
        **env,
        "BENCH_TASK_FILE": guest_path(task),
        "BENCH_WORKSPACE": guest_path(workspace),
        "BENCH_OUT_DIR": guest_path(out),
    }
    if not image:
        env |= {"BENCH_PYTHON": interpreter(CASE_PYTHON), "BENCH_AGENT_PYTHON": interpreter(python)}
    if overlay is not None:
        seen, told = _answer(overlay, guest_path)
        mounts += seen
        env |= told
    if decoys is not None:
        mounts += decoys.mounts
    limits = cell.case.spec.limits
    return Job(
        argv=_command(cell, guest_path(agent), python),
        mounts=mounts,
        cwd=workspace,
        limits=job_limits(limits, limits.agent_s),
        env=env,
        scratch=context.socket_folder(cell),
        sockets=sockets,
        # The agent's commands in the workspace need the case's libraries, so the case's interpreter is `python` there.
        python=CASE_PYTHON,
        interpreters=[] if python == CASE_PYTHON else [python],
        cell_environment=cell_environment(cell.case, context.provenance.run, cell.id, folder.gpu),
        image=image,
    )


def _shared(cell: Cell, staged: Path) -> list[Mount]:
    """The folders that the agent shares with others."""
    # Not below `/agent`: a mount needs an empty folder there, and the agent's own folder is read-only.
    return [Mount(source, f"/{name.removeprefix('../')}") for name, source in cell.agent.staged_shared(staged).items()]


def _answer(overlay: Overlay, guest_path: Callable[[Mount], str]) -> tuple[list[Mount], dict[str, str]]:
    """What of an answer is seen in the sandbox, and the variables that say where it is."""
    solution = Mount(overlay.folder, "/solution")
    mounts = [solution]
    env = {"BENCH_SOLUTION_DIR": guest_path(solution), "BENCH_SOLUTION_RUN": json.dumps(overlay.run)}
    if overlay.removed:
        env["BENCH_SOLUTION_REMOVED"] = json.dumps(list(overlay.removed))
    if overlay.last is not None:
        last = Mount(overlay.last, "/solution_last")
        mounts.append(last)
        env["BENCH_SOLUTION_LAST"] = guest_path(last)
    return mounts, env


def _image(cell: Cell, context: CellContext) -> str:
    """The agent's own image, in which neither of our interpreters is; empty: it has none."""
    image = cell.agent.spec.environment.image
    if image and context.sandbox.name != "docker":
        fault = f"the sandbox {context.sandbox.name} starts no images, and agent {cell.agent.id} has its own"
        raise InfraError("needs_missing", f"{fault}: use --sandbox docker")
    return image


def _command(cell: Cell, folder: str, python: Path) -> list[str]:
    """The agent's command: `python` and programs that its packages installed are those of its own environment."""
    program, *arguments = [part.replace("{agent}", folder) for part in cell.agent.spec.command]
    own = python.parent / program
    if python != CASE_PYTHON and "/" not in program and own.is_file():
        program = str(own)
    return [program, *arguments]


def agent_environment(cell: Cell, context: CellContext, gateway: Gateway | None, deadline: float) -> dict[str, str]:
    """Everything of the agent's environment but paths."""
    limits = cell.case.spec.limits
    env = {
        "BENCH_MAX_STEPS": str(limits.steps),
        "BENCH_DEADLINE": str(int(deadline)),
    }
    if context.cost_limited:
        env["BENCH_MAX_COST_USD"] = str(limits.cost_usd)
    if context.helper is not None:
        env[ADDRESS] = f"http://127.0.0.1:{{port:{SOCKET}}}"
    for name, service in cell.case.spec.services.items():
        if "agent" in service.during:
            env[service.env] = f"http://127.0.0.1:{{port:{name}}}"
    if gateway is None:
        return env
    base = "http://127.0.0.1:{port:gateway}"
    env |= {
        "OPENAI_BASE_URL": f"{base}/v1",
        "OPENAI_API_KEY": gateway.key,
        "ANTHROPIC_BASE_URL": base,
        "ANTHROPIC_API_KEY": gateway.key,
        "GOOGLE_GEMINI_BASE_URL": base,
        "GEMINI_API_KEY": gateway.key,
        "GOOGLE_API_KEY": gateway.key,
    }
    for role in cell.models:
        name = "BENCH_MODEL" if role == "main" else f"BENCH_MODEL_{role.upper().replace('-', '_')}"
        env[name] = gateway.real_name(role) if cell.agent.spec.model_name == "real" else gateway.alias(role)
        env[name.replace("MODEL", "API_KEY", 1)] = gateway.role_key(role)
    return env
