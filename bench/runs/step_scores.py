"""Judging what was copied while agents worked: derived data beside a run, never part of a record.

The same judge, with the inputs that the record's own verdict had, judges each snapshot in a sandbox. Each verdict is
stored when it is there, so that a second call goes on where a first one was ended.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.base.errors import InfraError, UserError
from bench.base.files import sha256_bytes, sha256_file, write_atomic
from bench.base.install import DataFolders
from bench.base.model import parse_json, read_json
from bench.base.times import now
from bench.cell import CellContext, CellFolder, settle
from bench.formats.judge_version import JUDGE
from bench.formats.plan import Cell
from bench.formats.record import Record
from bench.formats.run_folder import SECRET, RunFolder
from bench.formats.step_snapshots import (
    INDEX,
    JOURNAL,
    SCORES,
    STORE,
    CellStepScores,
    StepScore,
    StepSnapshot,
    StepSnapshots,
    Tree,
)
from bench.guest.trees import remove_tree
from bench.judge import Grading
from bench.plan import cells_of
from bench.runs.context import context_of
from bench.runs.seeds import find_secret
from bench.sandbox import Gpu, Sandbox, end_orphans

_CHUNK = 1 << 20
_DAMAGED = "the run folder is damaged; the snapshots of this cell cannot be judged"

Progress = Callable[[str], None]


@dataclass(frozen=True)
class _Taken:
    """A cell with its snapshots."""

    cell: Cell
    record: Record
    index: StepSnapshots
    digest: str

    @property
    def metric(self) -> str:
        return self.cell.case.spec.metric.name if self.cell.case.spec.metric else ""


def score_steps(
    folder: Path,
    cell: str,
    folders: DataFolders,
    open_sandbox: Callable[[str], Sandbox],
    progress: Progress = lambda line: None,
) -> list[CellStepScores]:
    """Judge the snapshots of the graded cells of a run that have no verdict yet; returns the scores of all.

    cell: only this one; empty: all. Raises `UserError` where there are no snapshots, or not those of the record.
    """
    run = RunFolder(folder)
    plan = run.read_plan()
    taken = _taken(run, cells_of(plan, folders), cell)
    if not taken:
        remedy = "run with --snapshots every=5 or --snapshots milestones"
        raise UserError("has no snapshots of a graded cell", where=cell or folder, remedy=remedy)
    known = {it.cell.id: _known(folder, it) for it in taken}
    if not any(_open(it, known[it.cell.id]) for it in taken):
        return [_scores(it, known[it.cell.id]) for it in taken]
    sandbox = open_sandbox(plan.sandbox)
    secret = find_secret(plan, [folder / SECRET])
    context = context_of(plan, [it.cell for it in taken], folder, folders, sandbox, secret.key)
    with run.locked(end_orphans):
        return [_score_cell(it, known[it.cell.id], context, progress) for it in taken]


def _taken(run: RunFolder, cells: Sequence[Cell], wanted: str) -> list[_Taken]:
    if wanted and wanted not in {cell.id for cell in cells}:
        known = ", ".join(cell.id for cell in cells[:5])
        raise UserError("is not a cell of this run", where=wanted, remedy=f"name one of its cells: {known}")
    found = []
    for cell in cells:
        path = run.path / "traces" / cell.slug / INDEX
        record = run.finished(cell) if wanted in ("", cell.id) else None
        if record is None or not path.is_file():
            continue
        digest = sha256_file(path)
        if digest not in {item.digest for item in record.artifacts if item.name == INDEX}:
            raise UserError("is not the file that the record names", where=path, remedy=_DAMAGED)
        index = read_json(path, StepSnapshots, remedy=_DAMAGED)
        if index.snapshots:
            found.append(_Taken(cell, record, index, digest))
    return found


def _place(folder: Path, taken: _Taken) -> Path:
    return folder / SCORES / f"{taken.cell.slug}.json"


def _known(folder: Path, taken: _Taken) -> dict[tuple[str, float], StepScore]:
    """Verdicts of an earlier call, by tree and time; those of other snapshots or another judge do not count."""
    path = _place(folder, taken)
    if not path.is_file():
        return {}
    stored = read_json(path, CellStepScores, remedy="delete it, and judge again")
    if (stored.index, stored.judge, stored.cell) != (taken.digest, JUDGE, taken.cell.id):
        return {}
    return {(it.tree, it.seconds): it for it in stored.scores if it.success is not None}


def _open(taken: _Taken, known: dict[tuple[str, float], StepScore]) -> bool:
    return any((it.tree, it.seconds) not in known for it in taken.index.snapshots)


def _scores(taken: _Taken, known: dict[tuple[str, float], StepScore]) -> CellStepScores:
    """What is known so far: snapshots without a verdict are left out, the end is the record's."""
    record = taken.record
    scores = [known[key] for it in taken.index.snapshots if (key := (it.tree, it.seconds)) in known]
    end = StepScore(
        kind="end",
        step=record.steps,
        seconds=next(phase.seconds for phase in record.phases if phase.name == "agent"),
        usd=record.cost_usd if record.cost_status != "unknown" else None,
        score=record.score,
        success=record.success,
        metric=next((it.value for it in record.metrics if it.name == taken.metric), None),
    )
    return CellStepScores(
        cell=taken.cell.id,
        agent=taken.cell.agent.id,
        judge=JUDGE,
        index=taken.digest,
        metric=taken.metric,
        judged=now(),
        scores=[*scores, end],
    )


def _score_cell(
    taken: _Taken, known: dict[tuple[str, float], StepScore], context: CellContext, progress: Progress
) -> CellStepScores:
    by_tree = {tree: score for (tree, _), score in known.items()}
    count = len(taken.index.snapshots)
    with context.gpu(taken.cell) as gpu:
        for number, snapshot in enumerate(taken.index.snapshots, 1):
            key = snapshot.tree, snapshot.seconds
            if key in known:
                continue
            progress(f"{taken.cell.id}: snapshot {number} of {count}")
            # The same files and the same inputs have the same verdict, unless a service wrote down something new.
            same = None if taken.cell.case.spec.services else by_tree.get(snapshot.tree)
            known[key] = _moved(same, snapshot) if same else _judged(taken, snapshot, context, gpu)
            if known[key].success is not None:
                by_tree[snapshot.tree] = known[key]
            _write(context.folder, taken, known)
    return _scores(taken, known)


def _write(folder: Path, taken: _Taken, known: dict[tuple[str, float], StepScore]) -> None:
    data = _scores(taken, known).model_dump_json(by_alias=True, indent=1).encode() + b"\n"
    write_atomic(_place(folder, taken), data)


def _facts(snapshot: StepSnapshot) -> dict[str, object]:
    return {name: getattr(snapshot, name) for name in ("kind", "name", "step", "seconds", "usd", "tree")}


def _moved(score: StepScore, snapshot: StepSnapshot) -> StepScore:
    return score.model_copy(update=_facts(snapshot))


def _judged(taken: _Taken, snapshot: StepSnapshot, context: CellContext, gpu: Gpu | None) -> StepScore:
    place = context.folder / "scratch" / "steps" / taken.cell.slug
    remove_tree(place)
    try:
        folder = CellFolder.prepare(taken.cell, context, place, gpu)
        _restore(taken, snapshot, context, folder)
        folder.take_snapshot()
        seed = taken.record.judge_seed
        grading = settle(folder, folder.grade(None if seed is None else int(seed, 16)))
    except (InfraError, OSError) as error:
        # A tree that cannot be laid out is no reason to leave the other snapshots and cells without a verdict.
        return StepScore.model_validate({**_facts(snapshot), "error": str(error)[:500]})
    finally:
        remove_tree(place)
        remove_tree(context.socket_folder(taken.cell))
    return StepScore.model_validate({**_facts(snapshot), **_verdict(grading, taken.metric)})


def _verdict(grading: Grading, metric: str) -> dict[str, object]:
    value = next((it["value"] for it in grading.metrics if it["name"] == metric), None)
    return {"score": round(grading.score, 6), "success": grading.success, "metric": value}


def _restore(taken: _Taken, snapshot: StepSnapshot, context: CellContext, folder: CellFolder) -> None:
    """Lay out a snapshot in the place of the start; raises `UserError` for a store that is damaged."""
    store = context.trace(taken.cell) / STORE
    name = snapshot.tree.removeprefix("sha256:")
    tree = parse_json(_object(store / name, name), Tree, where=store / name, remedy=_DAMAGED)
    remove_tree(folder.workspace)
    folder.workspace.mkdir()
    for path in tree.folders:
        (folder.workspace / path).mkdir(parents=True, exist_ok=True)
    for path, (digest, _, executable) in tree.files.items():
        target = folder.workspace / path
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(store / digest, digest, target)
        target.chmod(0o755 if executable else 0o644)
    for service, size in snapshot.journals.items():
        place = store / f"{service}{JOURNAL}"
        data = place.read_bytes() if place.is_file() else b""
        if sha256_bytes(data) != taken.index.journals.get(service):
            raise UserError("is not what was stored", where=place, remedy=_DAMAGED)
        # A service may have been in the middle of a line.
        begun = data[:size]
        (folder.journals / f"{service}.jsonl").write_bytes(begun[: begun.rfind(b"\n") + 1])


def _object(path: Path, digest: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=path, remedy=_DAMAGED) from None
    if hashlib.sha256(data).hexdigest() != digest:
        raise UserError("is not what was stored", where=path, remedy=_DAMAGED)
    return data


def _copy(path: Path, digest: str, target: Path) -> None:
    found = hashlib.sha256()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=path, remedy=_DAMAGED) from None
    with os.fdopen(descriptor, "rb") as source, target.open("xb") as file:
        while data := source.read(_CHUNK):
            found.update(data)
            file.write(data)
    if found.hexdigest() != digest:
        raise UserError("is not what was stored", where=path, remedy=_DAMAGED)
