"""The agent phase: the agent's command in the sandbox, with its gateway and services, under its limits."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from bench.base.errors import InfraError
from bench.base.files import sha256_file, write_atomic
from bench.base.model import seed_text
from bench.cell.agent_job import Overlay, agent_environment, agent_job
from bench.cell.ask import open_desk
from bench.cell.context import CellContext
from bench.cell.decoys import Decoys
from bench.cell.environment import agent_python
from bench.cell.shares import Work
from bench.cell.step_snapshots import snapshots_while
from bench.cell.watch import LedgerFollower
from bench.cell.workspace import CellFolder
from bench.formats.agent_files import CASSETTES
from bench.formats.help import HelpGiven
from bench.formats.model_usage import ModelUsage
from bench.formats.note import Note
from bench.formats.observed import NameQuery
from bench.formats.plan import Cell
from bench.formats.record import StopReason
from bench.formats.verdict import LIMIT_MODES, limits_of, passed_limits
from bench.gateway import (
    RATE_USED_UP,
    USED_UP,
    CellLimits,
    Gateway,
    GatewaySpec,
    RunBudgetConfig,
    State,
    broken_by_cell,
    open_gateway,
    usage_so_far,
)
from bench.sandbox import NAMES, Ended, NameQueries, run_job

GAVE_UP = 4
"""Exit status by which an agent says that it gave up."""


@dataclass
class AgentPhase:
    """What the agent phase left besides the workspace."""

    ended: Ended
    stop_reason: StopReason
    usage: list[ModelUsage] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    name_queries: list[NameQuery] = field(default_factory=list)
    help: HelpGiven | None = None
    """None: the agent could not ask."""


def run_agent(folder: CellFolder, overlay: Overlay | None, withheld: str = "") -> AgentPhase:
    """Run the agent to its end; raises `InfraError` for faults that are not its own.

    withheld: why its command is not started, and has failed; empty: it is.
    """
    cell, context = folder.cell, folder.context
    trace = context.trace(cell)
    for made in (trace, folder.out):
        made.mkdir(parents=True, exist_ok=True)
    python = agent_python(cell.agent, context)
    # The agent compares with the time of day, which an administrator may set; the gateway's clock cannot be set.
    deadline, ends = (now + cell.case.spec.limits.agent_s for now in (time.time(), time.monotonic()))
    socket = context.socket_folder(cell) / "gateway.sock"
    with (
        folder.running_services(socket.parent) as sockets,
        _decoys(folder) as decoys,
        _gateway(cell, context, socket, ends) as gateway,
        _names(folder, socket.with_name("names.sock")) as names,
        context.shares.working(cell) if context.shares is not None else nullcontext() as work,
        open_desk(context.helper, cell.id, ends, context.watch, trace, socket.parent) as (desk, asking),
    ):
        sockets = {**sockets, **asking, **({NAMES: names.path} if names is not None else {})}
        if gateway is not None:
            sockets = {**sockets, "gateway": socket}
        job = agent_job(folder, decoys, sockets, agent_environment(cell, context, gateway, deadline), overlay, python)
        if withheld:
            job = replace(job, argv=["sh", "-c", 'echo "$0" >&2; exit 1', withheld])
        follower = LedgerFollower(trace / "calls.jsonl", partial(context.watch.call, cell))
        try:
            with snapshots_while(folder, trace):
                ended = run_job(
                    context.sandbox,
                    job,
                    partial(_should_stop, gateway, follower, work) if gateway is not None else None,
                )
            if gateway is not None:
                # The agent is gone: whether its last calls met an outage is found out without it.
                gateway.settle(context.stopped.is_set)
        finally:
            left_out = folder.keep(folder.out, trace / "out")
        opened, unwatched = (decoys.evidence(), decoys.unwatched) if decoys is not None else ("", "")
    if work is not None and gateway is not None:
        work.usage = gateway.usage
    # Before anything is written: there may be no room for it.
    taken_out = folder.make_room(trace / "out") if ended.reason == "disk_limit" else ""
    follower.finish()
    _keep_log(trace / "agent.log", ended)
    about_files = {"workspace_too_large": taken_out, "notes_left_out": left_out}
    notes = _notes({"hidden_read_attempt": opened, "decoys_unwatched": unwatched, **about_files})
    phase = _with_calls(ended, gateway, notes, folder)
    phase.name_queries = _name_queries(cell, names, ended.network_attempts.names)
    phase.help = desk.given() if desk is not None else None
    if phase.stop_reason in LIMIT_MODES:
        context.watch.limit(cell, phase.stop_reason, f"after {ended.wall_s:.1f} s")
    return phase


def _notes(found: Mapping[str, str]) -> list[Note]:
    """Those of the named observations that there is evidence of."""
    return [Note(name=name, evidence=evidence) for name, evidence in found.items() if evidence]


def _with_calls(ended: Ended, gateway: Gateway | None, notes: list[Note], folder: CellFolder) -> AgentPhase:
    """How the agent ended, with its model calls; raises `InfraError` where the gateway has failed."""
    if gateway is None:
        return AgentPhase(ended, _stop_reason(ended), notes=notes)
    # Read after the gateway has closed: only then are calls that were still open charged.
    calls = gateway.state()
    usage = calls.usage
    fault = calls.error if ended.reason != "disk_limit" else None
    if fault and fault.startswith((USED_UP, RATE_USED_UP)):
        _require_own_use(folder, fault)
        notes = [*notes, Note(name="quota_used_up", evidence=fault)]
    elif fault:
        sockets = folder.context.socket_folder(folder.cell)
        if not calls.broken or not broken_by_cell(calls.exit_status, sockets):
            raise InfraError("gateway_error", fault)
        usage = usage_so_far(usage, folder.context.trace(folder.cell) / "calls.jsonl")
        notes = [*notes, Note(name="gateway_broken", evidence=f"{fault}; a fresh one answers")]
    _require_own_limit(folder, calls)
    limits = limits_of(folder.cell.case.spec.limits, cost_limited=folder.context.cost_limited)
    passed = [it.name for it in passed_limits(usage, limits)]
    return AgentPhase(ended, _stop_reason(ended, calls.limit_hit, passed), usage, [*calls.notes, *notes])


def _require_own_limit(folder: CellFolder, calls: State) -> None:
    """Raise `InfraError` where other agents have used up the run's limit that a call of this one ran into."""
    shares = folder.context.shares
    if shares is None or calls.limit_hit is None or calls.limit_of == "cell":
        return
    if others := shares.used_by_others(folder.cell, calls.limit_hit):
        raise InfraError("run_limit", f"the run's {calls.limit_hit} was reached, and by others: {others}")


def _require_own_use(folder: CellFolder, error: str) -> None:
    """Raise `InfraError` where others have used up the account with the provider of which this cell has used, too."""
    shares = folder.context.shares
    by_rate = error.startswith(RATE_USED_UP)
    if shares is not None and (others := shares.account_used_by_others(folder.cell, by_rate=by_rate)):
        raise InfraError("quota_used_up", f"{error}; {others}")


def _should_stop(gateway: Gateway, follower: LedgerFollower, work: Work | None) -> bool:
    follower.look()
    stop = gateway.should_stop()
    if work is not None:
        work.usage = gateway.usage
    return stop


def _decoys(folder: CellFolder) -> AbstractContextManager[Decoys | None]:
    """Decoys for where hidden files would be; without isolation the real files lie there."""
    if not folder.context.sandbox.isolated:
        return nullcontext()
    return closing(Decoys(folder.path / "decoys", folder.cell.case, folder.context.folder))


def _names(folder: CellFolder, socket: Path) -> AbstractContextManager[NameQueries | None]:
    """What the agent asks name servers for; without isolation it asks those of this machine."""
    return NameQueries(socket) if folder.context.sandbox.isolated else nullcontext()


def _name_queries(cell: Cell, names: NameQueries | None, counted: int) -> list[NameQuery]:
    """The names asked for; where the sandbox cannot list them, the number of queries that the kernel has counted."""
    expected = cell.agent.spec.expected_names
    counts = names.counts() if names is not None else {}
    if not counts and counted:
        return [NameQuery(name="", queries=counted)]
    return [
        NameQuery(name=name, queries=count, expected=any(fnmatch(name, it) for it in expected))
        for name, count in counts.items()
    ]


def _gateway(cell: Cell, context: CellContext, socket: Path, deadline: float) -> AbstractContextManager[Gateway | None]:
    if not cell.models:
        return nullcontext()
    limits, run_limits = cell.case.spec.limits, context.run_limits
    cost = limits.cost_usd if context.cost_limited else None
    prices = os.environ.get("MLDB_PRICES")
    spec = GatewaySpec(
        socket=socket,
        ledger=context.trace(cell) / "calls.jsonl",
        models=cell.models,
        helpers=cell.agent.spec.helper_models,
        case=cell.case.id,
        cassettes=cell.agent.folder / CASSETTES,
        limits=CellLimits(calls=limits.steps, cost_usd=cost, tokens=limits.tokens, deadline=deadline),
        run_budget=RunBudgetConfig(path=context.folder / "budget.json", limits=run_limits)
        if run_limits.any_set
        else None,
        hosted_tools=cell.case.spec.needs.network,
        own_prices=Path(prices) if prices else None,
        record=context.trace(cell) / "cassettes" if os.environ.get("MLDB_RECORD") else None,
        answered=context.sockets / "answered",
        patience=context.patience,
        task_sha256=sha256_file(cell.case.task).removeprefix("sha256:"),
        seed=seed_text(context.data_seed(cell)) if os.environ.get("MLDB_RECORD") else None,
    )
    return open_gateway(spec)


def _stop_reason(ended: Ended, limit_hit: StopReason | None = None, passed: Sequence[StopReason] = ()) -> StopReason:
    """limit_hit: what a call was refused for. passed: of which more was used, whether anything was refused or not."""
    if ended.reason == "stopped":
        return limit_hit or (passed[0] if passed else "crashed")
    if ended.reason != "exit":
        # The agent phase waits for models: its time is wall time.
        assert ended.reason != "cpu_limit" and ended.reason != "starved"
        return ended.reason
    if passed:
        return passed[0]
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
