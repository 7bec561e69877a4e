"""What the original's evaluator would have said of a submission, its faults included: for reading old logs.

A case may hold `original.py`, written from what is published of the original. No verdict comes of it, and no digest of
the case holds it. It runs in a sandbox, on a copy of the submission, with `evaluate(submission, answers, rng)`.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import Field, ValidationError

from bench.base.errors import UserError
from bench.base.files import temporary_folder
from bench.base.model import Model
from bench.base.text import printable
from bench.formats.case import Case
from bench.formats.case_digest import ORIGINAL
from bench.formats.case_metric import Scale
from bench.sandbox import Job, JobLimits, Mount, Sandbox, run_job

_WALL_S = 300.0
_LARGEST_ANSWER = 10_000
_RUNNER = """
import importlib.util, json, random, sys
from pathlib import Path
where, submission, answers, draw = sys.argv[1:]
spec = importlib.util.spec_from_file_location("original", where)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
said = {"baseline": module.BASELINE, "higher": module.HIGHER_IS_BETTER}
try:
    value = module.evaluate(Path(submission), Path(answers) if answers else None, random.Random(int(draw)))
    said["score"] = repr(float(value))
except Exception as error:
    said["fault"] = f"{type(error).__name__}: {error}"[:2000]
print(json.dumps(said))
"""


class _Said(Model):
    baseline: float | None
    higher: bool
    score: str = Field("", max_length=40)
    fault: str = ""


@dataclass(frozen=True)
class OriginalVerdict:
    """What the original would have written down."""

    score: float
    """-1 where its evaluator ended with an exception, as there."""
    fault: str
    """The exception, empty without one."""
    baseline: float | None
    """None: the mean of runs of the starter, which the original does not publish."""
    higher_is_better: bool

    @property
    def valid(self) -> bool:
        """A score that is zero, negative or not a number was taken for none."""
        return math.isfinite(self.score) and self.score > 0

    @property
    def relative(self) -> float | None:
        """Positive when better; None without a valid score or a baseline."""
        return self._scale.relative(self.score) if self.valid and self._scale else None

    def succeeds(self, bar: float) -> bool:
        """Whether the change is strictly more than `bar`."""
        return self.valid and self._scale is not None and self._scale.is_over(self.score, bar)

    @property
    def _scale(self) -> Scale | None:
        if self.baseline is None:
            return None
        direction = "higher" if self.higher_is_better else "lower"
        return Scale(name="score", direction=direction, baseline=self.baseline, target=self.baseline)


def original_verdict(
    case: Case,
    submission: Path,
    answers: Path | None,
    sandbox: Sandbox,
    draw: int = 0,
    baseline: float | None = None,
) -> OriginalVerdict:
    """Ask the case's `original.py`.

    answers: the folder with what was hidden from the agent; None where the original had none. draw: where the original
    drew at random, which draw. baseline: in place of the published one. Raises `UserError`.
    """
    module = case.part(ORIGINAL)
    if not module.is_file():
        raise UserError(f"has no {ORIGINAL}", where=f"case {case.id}", remedy="choose a case of MLAgentBench that has")
    if not submission.is_dir():
        raise UserError(
            "is not a folder", where=submission, remedy="name the folder with the files that were handed in"
        )
    with temporary_folder("original") as work:
        mounts = [Mount(_copied(module.parent, work / "module", [ORIGINAL]), "/original")]
        mounts.append(Mount(_copied(submission, work / "submission"), "/submission"))
        if answers is not None:
            mounts.append(Mount(_copied(answers, work / "answers"), "/answers"))
        (work / "empty").mkdir()
        cwd = Mount(work / "empty", "/empty", writable=True)
        seen = [sandbox.guest_path(mount) for mount in mounts]
        where = [f"{seen[0]}/{ORIGINAL}", seen[1], seen[2] if answers is not None else "", str(draw)]
        job = Job(
            argv=["python", "-I", "-c", _RUNNER, *where],
            mounts=[*mounts, cwd],
            cwd=cwd,
            limits=JobLimits(wall_s=_WALL_S, cpu_s=_WALL_S / 2),
            python=Path(sys.executable),
        )
        ended = run_job(sandbox, job)
    if ended.code != 0 or len(ended.stdout) > _LARGEST_ANSWER:
        last = (ended.stderr.decode("utf-8", "replace").strip().splitlines() or [ended.reason])[-1]
        raise UserError(
            f"did not answer: {printable(last)}", where=module, remedy="correct it; see docs/adding-a-case.md"
        )
    found = _read(ended.stdout, module)
    return found if baseline is None else replace(found, baseline=baseline)


def _copied(folder: Path, to: Path, names: list[str] | None = None) -> Path:
    """Regular files alone: a submission may hold links to what its owner should not read."""
    for path in sorted(folder.rglob("*")) if names is None else [folder / name for name in names]:
        if path.is_file() and not path.is_symlink():
            target = to / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    to.mkdir(exist_ok=True)
    return to


def _read(answer: bytes, module: Path) -> OriginalVerdict:
    try:
        said = _Said.model_validate(json.loads(answer))
        score = float(said.score) if said.score else -1.0
    except (ValueError, ValidationError):
        raise UserError("gave no answer that can be read", where=module, remedy="return a number") from None
    return OriginalVerdict(score, printable(said.fault), said.baseline, said.higher)
