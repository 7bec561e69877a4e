"""Who has an experiment's secret, where it is kept, and the reveal of its derived seeds when it has ended.

A secret that was given is never written to a disk. One that was drawn lies beside the plan, for its owner alone, and
in no artifact: shards on other machines need one that is given, such as a secret of the repository.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.base.errors import UserError
from bench.base.files import write_atomic
from bench.base.model import seed_text
from bench.base.times import now
from bench.formats.plan import RunPlan, read_plan_file
from bench.formats.record import Record
from bench.formats.run_folder import SECRET, RunFolder
from bench.formats.seeds import REVEALED, RevealedSeed, RevealedSeeds, SeedSecret, commitment, data_seed
from bench.runs.rounds import needless_cells

VARIABLE = "MLDB_SEED_SECRET"
EXPERIMENT = "MLDB_EXPERIMENT"


def new_secret(asked: str | None = None, *, draw: bool = True) -> SeedSecret:
    """The secret of a new experiment; raises `UserError` for one that can be guessed.

    asked: the secret, empty for none; None: that of the environment, else one is drawn, if it can be kept (`draw`).
    """
    given = asked if asked is not None else os.environ.get(VARIABLE)
    recording = bool(os.environ.get("MLDB_RECORD"))
    if given and recording:
        fault = "cannot be combined with MLDB_RECORD: a cassette tells its seed"
        raise UserError(fault, where=VARIABLE, remedy="unset one of them")
    if given is None and draw and not recording:
        return SeedSecret(secrets.token_hex(32).encode(), drawn=True)
    return SeedSecret.of(given or "", _experiment(), VARIABLE)


def _experiment() -> str:
    """The experiment that a given secret is for: on GitHub all jobs of a workflow run, and its later attempts."""
    number = os.environ.get("GITHUB_RUN_ID", "")
    return os.environ.get(EXPERIMENT) or (f"gh-{number}" if number.isdigit() else "")


def secret_beside(plan_file: Path) -> Path:
    """Where the drawn secret of a plan.json is kept."""
    return plan_file.with_name(f".{plan_file.name}{SECRET}")


def keep_secret(secret: SeedSecret, plan_file: Path) -> None:
    """Keep a drawn secret beside its plan.json, readable for its owner alone."""
    if secret.drawn:
        write_atomic(secret_beside(plan_file), secret.secret + b"\n", 0o600)


def find_secret(plan: RunPlan, files: Sequence[Path], asked: str | None = None) -> SeedSecret:
    """The secret with which `plan` began, from the environment or a file; raises `UserError` where it is not there."""
    given = asked if asked is not None else os.environ.get(VARIABLE, "")
    found = [given, *filter(None, map(_read, files))]
    for text in filter(None, found):
        secret = replace(SeedSecret.of(text, plan.experiment, VARIABLE), drawn=not plan.seeds_shared)
        if plan.seed_secret and secret.fingerprint == plan.seed_secret:
            return secret
    if not plan.seed_secret and not given:
        return SeedSecret()
    if not plan.seed_secret:
        raise UserError("is set now, and was not", where=VARIABLE, remedy="resume without it")
    fault = "is not what the run began with" if any(found) else "is gone"
    raise UserError(fault, where=VARIABLE, remedy="resume with the secret that the run began with")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape").strip()
    except OSError:
        return ""


def require_open(folder: Path) -> None:
    """Raise `UserError` when the seeds of the run are revealed: what started now could know its data."""
    if (folder / REVEALED).exists():
        raise UserError("its seeds are revealed", where=folder, remedy="start a new run")


@dataclass(frozen=True)
class _Part:
    """A run folder of the experiment."""

    folder: Path
    plan: RunPlan
    records: Mapping[str, Record]

    @classmethod
    def of(cls, folder: Path) -> _Part:
        run = RunFolder(folder)
        return cls(folder, run.read_plan(), {record.cell: record for record in run.records()})

    @property
    def unfinished(self) -> list[str]:
        """Planned cells that no verdict has spared, without a record or with one that says that the run was stopped."""
        ended = {cell for cell, record in self.records.items() if record.outcome != "interrupted"}
        ended |= needless_cells(self.plan, list(self.records.values()))
        return [planned.cell for planned in self.plan.cells if planned.cell not in ended]


def reveal_seeds(folders: Sequence[Path], plan_file: Path | None = None, *, ended: bool = False) -> RevealedSeeds:
    """Write the derived seeds of an experiment that has ended into its run folders, which closes them.

    ended: the user says that no further run of a given secret follows. Raises `UserError` where anything is missing;
    then no seed is told.
    """
    parts = [_Part.of(folder) for folder in folders]
    plan = parts[0].plan
    _require_ended(parts, plan_file, ended=ended)
    files = [*(part.folder / SECRET for part in parts), *([secret_beside(plan_file)] if plan_file else [])]
    revealed = _derived(find_secret(plan, files), parts)
    records = [record for part in parts for record in part.records.values()]
    for cell, fault in revealed.faults(records):
        raise UserError(fault, where=cell, remedy="nothing is revealed: the records are not of this experiment")
    content = json.dumps(revealed.model_dump(mode="json", by_alias=True), indent=1).encode() + b"\n"
    for part in parts:
        write_atomic(part.folder / REVEALED, content)
    return revealed


def _require_ended(parts: Sequence[_Part], plan_file: Path | None, *, ended: bool) -> None:
    plan = parts[0].plan
    if not plan.seed_secret:
        raise UserError("ran without a secret", where=parts[0].folder, remedy="its seeds are public: nothing to reveal")
    for part in parts:
        if (part.plan.seed_secret, part.plan.experiment) != (plan.seed_secret, plan.experiment):
            raise UserError("is of another experiment", where=part.folder, remedy="reveal each experiment by itself")
        if part.unfinished:
            first = f"{len(part.unfinished)} cells have not ended, the first is {part.unfinished[0]}"
            raise UserError(first, where=part.folder, remedy="nothing is revealed before; go on with --resume")
    have = {(part.plan.run, planned.cell) for part in parts for planned in part.plan.cells}
    planned = max(_planned_cells(plan_file), *(part.plan.experiment_cells for part in parts))
    if len(have) < planned:
        raise UserError(
            f"{len(have)} of the experiment's {planned} cells are in these folders",
            where="reveal",
            remedy="name the folders of all shards and runs; nothing is revealed before",
        )
    if plan.seeds_shared and not ended:
        raise UserError(
            "was given, so other runs may still meet the same data",
            where=VARIABLE,
            remedy="when no look, run or shard of the experiment is to come, add --ended",
        )


def _planned_cells(plan_file: Path | None) -> int:
    return sum(len(run.cells) for run in read_plan_file(plan_file).runs) if plan_file is not None else 0


def _derived(secret: SeedSecret, parts: Sequence[_Part]) -> RevealedSeeds:
    trials = sorted({(part.plan.suite_version, it.case, it.trial) for part in parts for it in part.plan.cells})
    seeds = {trial: data_seed(secret.key, *trial) for trial in trials}
    return RevealedSeeds(
        experiment=secret.experiment,
        seed_secret=secret.fingerprint,
        revealed=now(),
        seeds=[
            RevealedSeed(
                suite_version=trial[0],
                case=trial[1],
                trial=trial[2],
                seed=seed_text(seed),
                commitment=commitment(seed, *trial),
            )
            for trial, seed in seeds.items()
        ],
    )


def close_drawn(folder: Path) -> None:
    """End the experiment of a run that nothing goes on with: reveal its seeds where it is whole, remove its secret."""
    kept = folder / SECRET
    if not kept.exists():
        return
    try:
        part = _Part.of(folder)
        if not part.unfinished and part.plan.experiment_cells == len(part.plan.cells):
            reveal_seeds([folder])
    finally:
        kept.unlink(missing_ok=True)
