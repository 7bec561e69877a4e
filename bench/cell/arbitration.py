"""When a check raises something that is not a verdict: is the check broken, or did it meet bytes that it cannot read?

The same check judges the untouched workspace and the reference solution. Where it raises on neither, what it raised is
the doing of the agent's files, and it is failed. Otherwise the case, or this machine, is broken.
"""

from __future__ import annotations

import secrets
from dataclasses import replace

from bench.base.errors import InfraError, UserError
from bench.cell.agent_job import Overlay
from bench.cell.agent_phase import run_agent
from bench.cell.workspace import CellFolder, discard
from bench.formats.agent_lookup import find_agent
from bench.formats.plan import Cell
from bench.formats.step_snapshots import SnapshotRule
from bench.judge import Grading

_REFERENCE_AGENT = "oracle"


def settle(folder: CellFolder, grading: Grading) -> Grading:
    """The grading with a verdict of every check; raises `InfraError` where the fault is the case's or the machine's."""
    if not grading.broken:
        return grading
    case = folder.cell.case
    fault = f"a check of case {case.id} is broken: {grading.broken}"
    if not grading.raised:
        raise InfraError("judge_error", fault)
    sound = folder.context.sound_checks.of(
        case.digest, folder.cell.profile, lambda: _sound_checks(folder, grading.seed)
    )
    if not grading.raised.keys() <= sound:
        raise InfraError("judge_error", fault)
    return replace(grading, broken="")


def _sound_checks(folder: CellFolder, seed: int) -> frozenset[str]:
    """Ids of the checks that give a verdict both of the untouched workspace and of the reference solution."""
    case = folder.cell.case
    solution = case.part("solution")
    overlays = [None, Overlay(solution, case.spec.solution.run)] if solution.is_dir() else [None]
    found = [_verdicts(folder, overlay, seed) for overlay in overlays]
    return frozenset.intersection(*found)


def _verdicts(folder: CellFolder, overlay: Overlay | None, seed: int) -> frozenset[str]:
    """Ids of the checks that give a verdict of an answer to the same trial, with the same inputs."""
    cell, context = folder.cell, folder.context
    try:
        agent = find_agent(_REFERENCE_AGENT, context.folders.agents)
    except UserError as error:
        raise InfraError("judge_error", f"a check raised, and the reference cannot be judged: {error}") from None
    # Its traces and sockets are not the cell's: that one is not finished yet.
    place = folder.path / f"reference-{secrets.token_hex(4)}"
    own = replace(context, folder=place / "run", sockets=context.socket_folder(cell) / "r")
    own = replace(own, snapshots=SnapshotRule(), helper=None)
    answer = CellFolder.prepare(Cell(agent, {}, cell.case, cell.profile, cell.trial), own, place / "cell", folder.gpu)
    try:
        if overlay is not None:
            run_agent(answer, overlay)
        answer.take_snapshot()
        grading = answer.grade(seed)
        return frozenset(verdict.id for verdict in grading.verdicts if verdict.id not in grading.raised)
    finally:
        discard([place])
