"""Mutants of a case's solution, each run and judged as a wrong answer is: which of them the checks let through."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.authoring.answering import AnswersOf, open_answers_of
from bench.authoring.mutation import Mutant, mutants_of
from bench.authoring.proof_seeds import ProofSeed
from bench.authoring.staging import BrokenCodeError
from bench.base.errors import InfraError, UserError
from bench.base.files import temporary_folder
from bench.base.install import DataFolders
from bench.base.text import counted
from bench.cell import AgentPhase, Overlay
from bench.formats.case import Case
from bench.formats.verdict import LIMIT_MODES
from bench.formats.wrong_answers import Tree, base_of
from bench.judge import Grading
from bench.sandbox import Sandbox


@dataclass(frozen=True)
class MutantOutcome:
    """What became of a mutant."""

    mutant: Mutant
    fate: Literal["caught", "alive", "lost"]
    """Without success on a seed; with success on all of them; not judged on some, for a reason of ours."""
    detail: str
    score: float | None
    """The lowest of all seeds; None where it was not judged."""
    failed: tuple[str, ...]
    """Checks that did not pass, of the seed with the lowest score."""
    seconds: float


class _OverLimitError(Exception):
    """The command of a mutant was ended by a limit."""


def solution_mutants(case: Case) -> list[Mutant]:
    """All mutants of a case's solution; raises `UserError` where there is nothing to change."""
    found = mutants_of(Tree.read(case.part("solution")).files, base_of(case, "starter").files)
    if not found:
        raise UserError(
            "holds no Python that could be changed",
            where=case.part("solution"),
            remedy="mutants are made of its .py files alone",
        )
    return found


def lay_out_mutant(case: Case, mutant: Mutant, folder: Path) -> None:
    """Write starter and changed solution into the new `folder`, of which `save_answer` makes a wrong answer."""
    tree = base_of(case, "solution")
    Tree({**tree.files, mutant.path: mutant.after}, tree.executable).write(folder)


@contextmanager
def open_hunt(case: Case, folders: DataFolders, sandbox: Sandbox, seeds: Sequence[ProofSeed]) -> Iterator[MutantHunt]:
    """What judges mutants of `case` on `seeds`, in the first profile for which this machine has what it needs."""
    with open_answers_of(case, folders, sandbox) as answers:
        yield MutantHunt(answers, seeds)


@dataclass(frozen=True)
class MutantHunt:
    """Judges mutants of one case, several at a time if asked."""

    answers: AnswersOf
    seeds: Sequence[ProofSeed]

    def require_solution(self) -> None:
        """Raise `UserError` unless the solution itself succeeds on all seeds: without that, no mutant says anything."""
        case = self.answers.case
        overlay = Overlay(case.part("solution"), case.spec.solution.run)
        for seed in self.seeds:
            try:
                grading = self.answers.answer(overlay, seed, "mutants: solution").grading
                fault = "" if grading.success else _failures(grading)
            except (BrokenCodeError, InfraError) as error:
                fault = str(error)
            if fault:
                raise UserError(
                    f"the solution itself does not succeed on seed {seed.text}: {fault}",
                    where=f"case {case.id}",
                    remedy=f"`ml-dev-bench cases verify {case.id}` has to hold first",
                )

    def judge_all(self, mutants: Sequence[Mutant], jobs: int) -> Iterator[MutantOutcome]:
        """The outcome of each mutant as it comes, `jobs` of them side by side; an interruption waits for none."""
        pool = ThreadPoolExecutor(jobs, thread_name_prefix="mutant")
        try:
            for done in as_completed([pool.submit(self.judge, mutant) for mutant in mutants]):
                yield done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def judge(self, mutant: Mutant) -> MutantOutcome:
        """Run and judge one mutant, on one seed after the other until it is caught."""
        began = time.monotonic()
        lost, gradings = "", list[Grading]()

        def outcome(fate: Literal["caught", "alive", "lost"], detail: str) -> MutantOutcome:
            lowest = min(gradings, key=lambda it: it.score, default=None)
            score, failed = (lowest.score, tuple(lowest.failed)) if lowest else (None, ())
            return MutantOutcome(mutant, fate, detail, score, failed, round(time.monotonic() - began, 2))

        for seed in self.seeds:
            try:
                gradings.append(self._graded(mutant, seed))
            except _OverLimitError as fault:
                return outcome("caught", str(fault))
            except Exception as fault:
                # Whatever went wrong here, no check has seen the mutant, and the next one may be judged.
                lost = lost or f"on seed {seed.text}: {type(fault).__name__}: {fault}"
                continue
            if not gradings[-1].success:
                return outcome("caught", _failures(gradings[-1]))
        if lost:
            return outcome("lost", lost)
        score = min(it.score for it in gradings)
        passed = "" if score == 1 else f"; fails only what success does not need: {', '.join(gradings[-1].failed)}"
        return outcome("alive", f"succeeds on {counted(len(gradings), 'seed')} with score {score:g}{passed}")

    def _graded(self, mutant: Mutant, seed: ProofSeed) -> Grading:
        with temporary_folder("mutant") as laid:
            case = self.answers.case
            tree = Tree.read(case.part("solution"))
            Tree({**tree.files, mutant.path: mutant.after}, tree.executable).write(laid / "answer")
            overlay = Overlay(laid / "answer", case.spec.solution.run)
            return self.answers.answer(overlay, seed, f"mutant {mutant.name}", _require_within_limits).grading


def _require_within_limits(phase: AgentPhase) -> None:
    if phase.stop_reason in LIMIT_MODES:
        raise _OverLimitError(f"{phase.stop_reason}: the solution's command was ended by it")


def _failures(grading: Grading) -> str:
    """The checks that success needs and that failed, with what the first of them says."""
    failed = [it for it in grading.verdicts if (it.required or it.guard) and it.value < 1]
    more = f"; also {', '.join(it.id for it in failed[1:])}" if len(failed) > 1 else ""
    first = f"{failed[0].id} ({failed[0].value:g}): {failed[0].message}" if failed else "no check is required"
    return f"score {grading.score:g}, {first}{more}"
