"""Answers that an author wrote to try a case, run and judged as an agent's are, meant to pass or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.authoring.answering import AnswersOf
from bench.authoring.proof_seeds import ProofSeed
from bench.authoring.staging import BrokenCodeError
from bench.base.errors import InfraError
from bench.base.text import printable_lines
from bench.cell import AgentPhase, Overlay
from bench.formats.verdict import LIMIT_MODES
from bench.judge import Verdict

_LINES_KEPT = 20


@dataclass(frozen=True)
class Attempt:
    """What became of one answer on one seed."""

    folder: Path
    seed: str
    fate: Literal["success", "failure", "lost"]
    """lost: it was not judged, for a reason that says nothing of it."""
    score: float | None
    """In [0, 1]; None where it was not judged."""
    verdicts: tuple[Verdict, ...]
    ended: str
    """How its command ended where not with status 0, such as a limit; empty otherwise."""
    output: tuple[str, ...]
    """The last lines that a command printed which did not end with status 0."""
    why_lost: str
    run_s: float
    """Wall time of its command, in seconds."""
    judge_cpu_s: float

    @property
    def failed(self) -> list[Verdict]:
        """The verdicts below 1, those first that success needs."""
        return sorted((it for it in self.verdicts if it.value < 1), key=lambda it: not (it.required or it.guard))


@dataclass(frozen=True)
class Attempts:
    """Judges folders of files as answers of one case."""

    answers: AnswersOf
    run: Sequence[str] | None = None
    """The command of each answer; None: the solution's."""

    def judge_all(self, folders: Sequence[Path], seeds: Sequence[ProofSeed], jobs: int) -> Iterator[Attempt]:
        """Each folder on each seed, as they come, `jobs` of them side by side; an interruption waits for none."""
        pool = ThreadPoolExecutor(jobs, thread_name_prefix="attempt")
        try:
            for done in as_completed([pool.submit(self.judge, it, seed) for it in folders for seed in seeds]):
                yield done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def judge(self, folder: Path, seed: ProofSeed) -> Attempt:
        """Lay one folder over a fresh workspace, run the command, and judge what is there then."""
        ran: list[AgentPhase] = []
        run = list(self.answers.case.spec.solution.run if self.run is None else self.run)
        try:
            answer = self.answers.answer(Overlay(folder.absolute(), run), seed, "attempt", ran.append)
        except (BrokenCodeError, InfraError) as fault:
            ended, output = _end(ran)
            return Attempt(folder, seed.text, "lost", None, (), ended, output, str(fault), 0.0, 0.0)
        grading = answer.grading
        return Attempt(
            folder,
            seed.text,
            "success" if grading.success else "failure",
            grading.score,
            grading.verdicts,
            *_end(ran),
            why_lost="",
            run_s=round(answer.run_s, 2),
            judge_cpu_s=round(grading.cpu_s, 2),
        )


def _end(ran: Sequence[AgentPhase]) -> tuple[str, tuple[str, ...]]:
    """How a command ended where not well, and its last lines then."""
    if not ran or ran[0].stop_reason == "finished":
        return "", ()
    phase = ran[0]
    said = (phase.ended.stdout + phase.ended.stderr).decode(errors="replace")
    ended = phase.stop_reason if phase.stop_reason in LIMIT_MODES else f"exit status {phase.ended.code}"
    return ended, tuple(printable_lines(said, longest=300)[-_LINES_KEPT:])
