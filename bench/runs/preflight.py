"""What must be there before the first cell: command, interpreter, key, price, provider, and a place for the records.

A run that lacks any of it would lose its cells one by one, after minutes; here it is told at once, all of it in one
line. What only a cell can tell, such as a case without its cassette, stays with the cell.
"""

from __future__ import annotations

import errno
import os
import posixpath
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from bench.base.errors import UserError
from bench.cell import find_interpreter, own_interpreter
from bench.formats.agent import Agent
from bench.formats.plan import Cell, RunLimits
from bench.formats.seeds import is_replayed
from bench.gateway import check_model
from bench.sandbox import Sandbox

_AGENT = "{agent}/"
_MOST = 8
"""Faults in one line."""


class NotReady(UserError):
    """What is missing for a run, all of it in one line; nothing was started."""

    def __init__(self, faults: Sequence[UserError]) -> None:
        texts = list(dict.fromkeys(str(fault) for fault in faults))
        more = f"; and {len(texts) - _MOST} more" if len(texts) > _MOST else ""
        super().__init__("; ".join(texts[:_MOST]) + more)
        self.variables = sorted({fault.variable for fault in faults if fault.variable})
        """The environment variables that must be set."""


def require_ready(
    cells: Sequence[Cell],
    sandbox: Sandbox | None,
    folder: Path | None,
    *,
    cost_limited: bool = True,
    run_limits: RunLimits | None = None,
    environment: Mapping[str, str] = os.environ,
    ask: bool = True,
) -> None:
    """Raise `NotReady` when something is missing for these cells; starts nothing and costs nothing.

    sandbox: None while it is not chosen. folder: of the run; None while it has none. ask: also ask the providers.
    """
    faults = []
    for check in _checks(cells, sandbox, folder, cost_limited, run_limits or RunLimits(), environment, ask):
        try:
            check()
        except UserError as error:
            faults.append(error)
    if faults:
        raise NotReady(faults)


def _checks(
    cells: Sequence[Cell], sandbox: Sandbox | None, folder: Path | None, cost_limited: bool, run_limits: RunLimits,
    environment: Mapping[str, str], ask: bool,
) -> Iterator[Callable[[], None]]:  # fmt: skip
    if folder is not None:
        yield partial(_require_writable, folder)
    for agent in {cell.agent.digest: cell.agent for cell in cells}.values():
        yield partial(_require_command, agent, sandbox)
        yield partial(_require_interpreter, agent)
    prices = environment.get("MLDB_PRICES")
    seen = set()
    for cell in cells:
        costs = [cell.case.spec.limits.cost_usd if cost_limited else None, run_limits.cost_usd]
        limit = min((it for it in costs if it is not None), default=None)
        for role, model in cell.models.items():
            # A price is missing for every limit alike.
            if is_replayed({role: model}) or (model, limit is None) in seen:
                continue
            seen.add((model, limit is None))
            yield partial(
                check_model, model, role, cell.case.id, cassettes=None, own_prices=Path(prices) if prices else None,
                max_cost_usd=limit, environment=environment, ask=ask,
            )  # fmt: skip


def require_files(cells: Sequence[Cell]) -> None:
    """Raise `NotReady` where an agent's command names a file that it does not have: all that a plan can know."""
    faults = []
    for agent in {cell.agent.digest: cell.agent for cell in cells}.values():
        try:
            _require_files(agent)
        except UserError as error:
            faults.append(error)
    if faults:
        raise NotReady(faults)


def _require_writable(folder: Path) -> None:
    existing = next(it for it in (folder, *folder.parents) if os.path.lexists(it))
    if not existing.is_dir():
        raise UserError("is not a folder", where=existing, remedy="name another folder for the run")
    if os.statvfs(existing).f_flag & os.ST_RDONLY:
        raise UserError(os.strerror(errno.EROFS), where=existing, remedy="make it writable, then start again")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UserError("cannot be written to", where=existing, remedy="name another folder for the run")


def _require_interpreter(agent: Agent) -> None:
    wanted = agent.spec.environment
    if wanted.python:
        find_interpreter(wanted.python, agent.file)
    elif wanted.requirements:
        own_interpreter(agent.file)


def _require_command(agent: Agent, sandbox: Sandbox | None) -> None:
    """Raise `UserError` for files of the command that the agent does not have, and for a program that is not here."""
    _require_files(agent)
    program = agent.spec.command[0]
    if "/" in program or "{" in program or program.startswith("python") or agent.spec.environment.requirements:
        return
    # An image has programs of its own.
    if (sandbox is None or sandbox.name != "docker") and shutil.which(program) is None:
        raise UserError(
            f"field `command`: the program {program!r} is not on this machine",
            where=agent.file,
            remedy="install it, or use --sandbox docker with an image that has it",
        )


def _require_files(agent: Agent) -> None:
    for number, part in enumerate(agent.spec.command):
        if part.startswith(_AGENT):
            _require_file(agent, posixpath.normpath(part.removeprefix(_AGENT)), is_program=number == 0)


def _require_file(agent: Agent, name: str, *, is_program: bool) -> None:
    names = agent.files.names
    if name == "." or name.startswith("../") or any(it == name or it.startswith(f"{name}/") for it in names):
        if not is_program or os.access(agent.folder / name, os.X_OK):
            return
        fault, remedy = "may not be executed", f"`chmod +x {name}`, and commit that"
    elif (agent.folder / name).exists():
        fault, remedy = "is not one of the agent's files, as git ignores it", "add it to git, or to `include`"
    else:
        fault, remedy = "does not exist in the agent's folder", "add the file, or correct the command"
    raise UserError(f"field `command`: {name!r} {fault}", where=agent.file, remedy=remedy)
