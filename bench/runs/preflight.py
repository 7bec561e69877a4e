"""What must be there before the first cell: command, interpreter, key, price, provider, and a place for the records.

A run that lacks any of it would lose its cells one by one, after minutes; here it is told at once, all of it in one
line. What only a cell can tell, such as a case without its cassette, stays with the cell.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path

from bench.base.errors import UserError
from bench.base.text import counted, meant
from bench.cell import SourceCache, find_interpreter, own_interpreter, wanted_sources
from bench.formats.agent import Agent
from bench.formats.agent_files import CASSETTES
from bench.formats.plan import Cell
from bench.formats.run_limits import RunLimits
from bench.formats.seeds import REPLAY_PREFIX, is_replayed
from bench.gateway import check_model
from bench.runs.agent_command import require_command, require_command_files
from bench.sandbox import Sandbox, find_engine, own_image, room_needed

_MOST = 8
"""Faults in one line."""
_LONGEST = 1300
"""Characters of them."""


class NotReady(UserError):
    """What is missing for a run, all of it in one line; nothing was started."""

    def __init__(self, faults: Sequence[UserError]) -> None:
        texts = list(dict.fromkeys(str(fault) for fault in faults))
        # Of several the first are told whole: a fault without its remedy would be of little use.
        whole = [text for at, text in enumerate(texts[:_MOST]) if sum(map(len, texts[: at + 1])) <= _LONGEST or not at]
        more = f"; and {left} more, told when these are gone" if (left := len(texts) - len(whole)) else ""
        super().__init__("; ".join(whole) + more)
        self.variables = sorted({fault.variable for fault in faults if fault.variable})
        """The environment variables that must be set."""


def require_ready(
    cells: Sequence[Cell],
    sandbox: Sandbox | None,
    folder: Path | None,
    *,
    cache: Path | None = None,
    cost_limited: bool = True,
    run_limits: RunLimits | None = None,
    environment: Mapping[str, str] = os.environ,
    ask: bool = True,
) -> None:
    """Raise `NotReady` when something is missing for these cells; starts nothing and costs nothing.

    sandbox: None while it is not chosen. folder: of the run; None while it has none. cache: where published data is
    kept; None: the cells run on another machine. ask: also ask the providers.
    """
    faults = []
    for check in _checks(cells, sandbox, folder, cost_limited, run_limits or RunLimits(), environment, ask):
        try:
            check()
        except UserError as error:
            faults.append(error)
    if cache is not None:
        faults += _missing_data(cells, cache)
    if faults:
        raise NotReady(faults)


def _missing_data(cells: Sequence[Cell], cache: Path) -> Iterator[UserError]:
    wanted = wanted_sources(cells)
    if not wanted:
        return
    try:
        looks = [*SourceCache.below(cache).require(wanted)]
    except UserError as error:
        yield error
        return
    for look in looks:
        try:
            look()
        except UserError as error:
            yield error


def _checks(
    cells: Sequence[Cell], sandbox: Sandbox | None, folder: Path | None, cost_limited: bool, run_limits: RunLimits,
    environment: Mapping[str, str], ask: bool,
) -> Iterator[Callable[[], None]]:  # fmt: skip
    if folder is not None:
        yield partial(_require_writable, folder)
        # Once a run has begun, what its agents leave is bounded, and no reason to refuse it.
        if not folder.exists():
            yield partial(_require_room, folder, cells)
    for agent in {cell.agent.digest: cell.agent for cell in cells}.values():
        yield partial(require_command, agent, sandbox, [cell.case for cell in cells if cell.agent is agent])
        yield partial(_require_interpreter, agent)
        if sandbox is not None and agent.spec.environment.image:
            yield partial(_require_image, agent, sandbox)
    yield partial(_require_cassettes, cells)
    prices = environment.get("MLDB_PRICES")
    seen = set()
    for cell in cells:
        costs = [cell.case.spec.limits.cost_usd if cost_limited else None, run_limits.cost_usd]
        limit = min((it for it in costs if it is not None), default=None)
        for role, model in cell.models.items():
            # A price is missing for every limit alike.
            if is_replayed({role: model}) or (key := (model, limit is None, cell.case.spec.needs.network)) in seen:
                continue
            seen.add(key)
            yield partial(
                check_model, model, role, cell.case.id, cassettes=None, own_prices=Path(prices) if prices else None,
                max_cost_usd=limit, environment=environment, network=cell.case.spec.needs.network, ask=ask,
            )  # fmt: skip


def require_files(cells: Sequence[Cell]) -> None:
    """Raise `NotReady` where an agent's command names a file that it does not have: all that a plan can know."""
    faults = []
    for agent in {cell.agent.digest: cell.agent for cell in cells}.values():
        try:
            require_command_files(agent, [cell.case for cell in cells if cell.agent is agent])
        except UserError as error:
            faults.append(error)
    if faults:
        raise NotReady(faults)


def _require_writable(folder: Path) -> None:
    if os.fsencode(folder).decode("utf-8", "replace") != str(folder):
        raise UserError("its name is not UTF-8", where=folder, remedy="name another folder for the run")
    existing = _existing(folder)
    if not existing.is_dir():
        raise UserError("is not a folder", where=existing, remedy="name another folder for the run")
    if os.statvfs(existing).f_flag & os.ST_RDONLY:
        raise UserError(os.strerror(errno.EROFS), where=existing, remedy="make it writable, then start again")
    try:
        # Only trying tells: root may do everything by its rights, and not on every file system.
        os.rmdir(tempfile.mkdtemp(prefix=".mldb-", dir=existing))
    except OSError as error:
        fault = f"cannot be written to: {error.strerror}"
        raise UserError(fault, where=existing, remedy="name another folder for the run") from None


def _require_room(folder: Path, cells: Sequence[Cell]) -> None:
    """Raise `UserError` for a disk on which an agent meets a limit of the machine's before its case's."""
    greatest = max((cell.case for cell in cells), key=lambda it: it.spec.limits.disk_mb)
    limit, existing = greatest.spec.limits.disk_mb, _existing(folder)
    info = os.statvfs(existing)
    if (free := info.f_bavail * info.f_frsize) < (needed := room_needed(limit)):
        raise UserError(
            f"{greatest.id} allows an agent {limit} MB of disk, for which {-(-needed >> 20)} MB must be free;"
            f" {free >> 20} MB are",
            where=existing,
            remedy="free disk space, or name a folder on a larger disk for the run",
        )


def too_little_memory(cells: Sequence[Cell], jobs: int, memory_mb: int) -> str:
    """What to say of `jobs` cells side by side that may use more memory than there is; empty where they may not."""
    limits = sorted((cell.case.spec.limits.memory_mb for cell in cells), reverse=True)[:jobs]
    # A machine that is sold with 16 GiB has a little less: its kernel keeps some.
    there = -(-memory_mb // 1024) * 1024
    fitting = sum(total <= there for total in accumulate(limits))
    if fitting == len(limits):
        return ""
    beside, remedy = counted(len(limits), "cell"), f"--jobs {fitting}" if fitting else "a larger machine"
    return (
        f"{beside} may use {sum(limits)} MB of memory at a time, and this machine has {memory_mb} MB: one may fail for"
        f" want of it; {remedy} is safe"
    )


def _existing(folder: Path) -> Path:
    """The nearest path at or above `folder` that exists."""
    # Absolute, so that something exists above it; the current folder itself may have been removed.
    absolute = Path(os.path.abspath(folder))
    return next(it for it in (absolute, *absolute.parents) if os.path.lexists(it))


def _require_image(agent: Agent, sandbox: Sandbox) -> None:
    """Raise `UserError` for an image of the agent's own that its jobs could not be started in."""
    if sandbox.name != "docker":
        fault = f"field `environment.image`: the sandbox {sandbox.name} starts no images"
        raise UserError(fault, where=agent.file, remedy="use --sandbox docker, or an agent without an image")
    try:
        own_image(find_engine(), agent.spec.environment.image)
    except UserError as error:
        raise UserError(f"field `environment.image`: {error}", where=agent.file) from None


def _require_interpreter(agent: Agent) -> None:
    wanted = agent.spec.environment
    if wanted.python:
        find_interpreter(wanted.python, agent.file)
    elif wanted.requirements:
        own_interpreter(agent.file)


def _require_cassettes(cells: Sequence[Cell]) -> None:
    """Raise `UserError` for a set of cassettes that an agent does not have, or has for none of its cases."""
    wanted: dict[tuple[Path, str], list[str]] = defaultdict(list)
    for cell in cells:
        for role, model in cell.models.items():
            # What begins with @ is a script, and needs no recording.
            if role == "main" and model.startswith(REPLAY_PREFIX) and not model.startswith(f"{REPLAY_PREFIX}@"):
                wanted[cell.agent.folder / CASSETTES, model.removeprefix(REPLAY_PREFIX)].append(cell.case.id)
    for (folder, name), cases in wanted.items():
        own = folder / name
        if not own.is_dir():
            sets = [it.name for it in folder.iterdir() if it.is_dir()] if folder.is_dir() else []
            remedy = meant(name, sets, REPLAY_PREFIX) if sets else "choose a model that is not replayed"
            raise UserError(f"no cassettes {name!r} of model {REPLAY_PREFIX}{name}", where=folder, remedy=remedy)
        if not any((own / f"{case}.yaml").is_file() for case in cases):
            known = sorted(it.stem for it in own.glob("*.yaml"))
            remedy = f"it has {', '.join(known[:_MOST])}{' and more' if len(known) > _MOST else ''}"
            asked = ", ".join(sorted(set(cases))[:_MOST])
            raise UserError(
                f"no cassette for {asked}", where=own, remedy=f"{remedy}; choose among these, or record one"
            )
