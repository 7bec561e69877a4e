"""A case proves itself: the untouched workspace fails, the solution succeeds, every wrong answer is caught."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from bench.authoring.answering import Answering, open_answering
from bench.authoring.lint import lint, same_files, unreadable_code
from bench.authoring.proof_seeds import ProofSeed, Rounds
from bench.authoring.staging import NOT_STARTED, BrokenCodeError, in_one_line, staged
from bench.authoring.wrong_answers import caught
from bench.base.errors import InfraError, UserError
from bench.base.files import digest_folder, lay_over, temporary_folder
from bench.base.install import DataFolders
from bench.base.text import counted
from bench.cell import AgentPhase, Overlay, build_data
from bench.formats.case import Case, missing_modules
from bench.formats.wrong_answers import materialise
from bench.judge import grade_submission
from bench.sandbox import Sandbox

_SHARE_OF_LIMIT = 0.5
_QUICK_S, _QUICK_WALL_S = 2.0, 6.0
"""CPU and wall time of a try of a wrong answer after which there is a second one on another seed, unasked."""
_SECOND_TRIES_S = 8.0
"""CPU seconds of such second tries of a case; the wrong answers that come later have one, except at night."""


@dataclass(frozen=True)
class Proof:
    """One thing that a case had to show, and whether it did."""

    case: str
    name: str
    ok: bool
    detail: str
    seconds: float
    profile: str = ""
    """Of a case that has several."""
    skipped: bool = False
    """It was not tried here, for the reason in `detail`: neither shown nor refuted."""
    seed: str = ""
    """With which it can be repeated; empty where nothing in it is drawn."""


@contextmanager
def open_verifier(
    folders: DataFolders,
    sandbox: Sandbox,
    rounds: Rounds | None = None,
    spent: Callable[[], float] = time.monotonic,
) -> Iterator[Verifier]:
    """A verifier with a place of its own, which is removed afterwards.

    spent: CPU seconds that its work has taken so far, where the caller can tell.
    """
    with open_answering(folders, sandbox) as answering:
        yield Verifier(answering, rounds or Rounds(), spent)


class Verifier:
    """Verifies cases in one sandbox, one after the other."""

    def __init__(self, answering: Answering, rounds: Rounds, spent: Callable[[], float]) -> None:
        self._answering = answering
        self._rounds = rounds
        self._spent = spent
        self._left_s = _SECOND_TRIES_S

    def verify(self, case: Case) -> Iterator[Proof]:
        """Every proof of `case`, as it comes, in each profile for which this machine has what it needs."""
        faults = lint(case)
        yield Proof(case.id, "folder", not faults, "; ".join(faults) or "complete", 0.0)
        if any(unreadable_code(case)):
            return
        without_answers = staged(case, self._answering.cases)
        for profile in case.profiles:
            resolved, named = case.for_profile(profile), profile if len(case.profiles) > 1 else ""
            if unmet := self._answering.unmet(resolved, profile):
                # A library can be installed wherever proofs count; a GPU cannot.
                missing = self._rounds.complete and missing_modules(resolved.spec.needs.python)
                yield Proof(case.id, "needs", not missing, unmet, 0.0, named, skipped=not missing)
                continue
            for proof in self._prove(resolved, without_answers.for_profile(profile)):
                yield replace(proof, profile=named)

    def _prove(self, case: Case, judged: Case) -> Iterator[Proof]:
        """Every proof of a case in one profile; judged: its copy without the answers."""
        often, self._left_s = self._rounds.repeat, _SECOND_TRIES_S
        steps: list[tuple[str, Callable[[ProofSeed], str], int | None]] = [
            ("data", lambda seed: self._data(judged, seed), 1),
            ("untouched", lambda seed: self._untouched(judged, seed), 1),
            ("solution", lambda seed: self._solution(case, judged, seed, 1), often or 1),
            ("solution, other seed", lambda seed: self._solution(case, judged, seed, 2), 1),
            *((f"wrong: {name}", self._wrong_step(case, judged, name), often) for name in case.spec.wrong),
            ("hostile answers", lambda seed: self._hostile(judged, seed), 1),
        ]
        for name, step, tries in steps:
            began = time.monotonic()
            ok, detail, seed, more = self._tried(judged, step, tries)
            # The author's own folder, and not the copy of it, is what a message names.
            for copy, folder in zip(judged.folders, case.folders, strict=True):
                detail = detail.replace(str(copy), str(folder))
            yield Proof(case.id, name, ok, detail, round(time.monotonic() - began, 2), seed=seed.text)
            if not more:
                return

    def _tried(
        self, case: Case, step: Callable[[ProofSeed], str], tries: int | None
    ) -> tuple[bool, str, ProofSeed, bool]:
        """Whether a step holds on all its seeds, what it says, a seed that shows it, and whether to go on.

        tries: None for one, and for another where that takes little.
        """
        held: list[str] = []
        failed: list[tuple[str, ProofSeed]] = []
        used, began = self._spent(), time.monotonic()
        number = 0
        while number < (tries or 1) or (tries is None and number == 1 and not failed and self._again(used, began)):
            seed = self._rounds.seed.later(number)
            number += 1
            try:
                held.append(step(seed))
            except BrokenCodeError as fault:
                return False, str(fault), seed, False
            except (AssertionError, InfraError, UserError) as fault:
                if isinstance(fault, InfraError) and NOT_STARTED in str(fault):
                    return False, f"services {NOT_STARTED}: {in_one_line(case, str(fault))}", seed, False
                failed.append((str(fault), seed))
        count = f"{len(held)}/{counted(number, 'seed')}" if number > 1 else ""
        if failed:
            detail, seed = failed[0]
            return False, f"{detail} (holds on {count})" if count else detail, seed, True
        return True, f"{held[0]}; on {count}" if count else held[0], self._rounds.seed, True

    def _again(self, used: float, began: float) -> bool:
        """Whether there is a second try, which is taken to last as long as the first."""
        took = self._spent() - used
        again = took < min(_QUICK_S, self._left_s) and time.monotonic() - began < _QUICK_WALL_S
        if again:
            self._left_s -= took
        return again

    def _data(self, case: Case, seed: ProofSeed) -> str:
        if not case.part("data.py").is_file():
            return "the case makes none"
        profile = case.profile or case.profiles[0]
        starts = [self._answering.start(case, profile, seed.data(case.id, trial)) for trial in (1, 2)]
        with temporary_folder("data") as folder:
            parts = public, hidden, workspace = [folder / name for name in ("public", "hidden", "workspace")]
            for part in parts:
                part.mkdir()
            build_data(
                case,
                profile,
                seed.data(case.id, 1),
                public,
                hidden,
                self._answering.starts,
                self._answering.folders.cache,
            )
            for laid in (case.part("workspace"), public):
                lay_over(laid, workspace)
            again = (digest_folder(workspace), digest_folder(hidden))
        digests = [(digest_folder(seen), digest_folder(unseen)) for seen, unseen in starts]
        assert digests[0] == again, (
            "data.py gives other data for the same seed; draw only from the seed, write no times"
        )
        assert digests[0] != digests[1], "data.py gives the same data for another seed; use all 128 bits of the seed"
        leaked = same_files(*reversed(starts[0]))
        assert not leaked, f"data.py gives hidden files to the agent: {', '.join(leaked)}"
        return "the same for the same seed, other for another"

    def _untouched(self, case: Case, seed: ProofSeed) -> str:
        grading = self._answering.answer(case, None, seed, 1, "untouched").grading
        assert not grading.success, "the untouched workspace succeeds"
        passing = [it.id for it in grading.verdicts if it.value > 0 and it.weight > 0]
        assert grading.score == 0, f"the untouched workspace earns credit at {', '.join(passing)}; make these guards"
        guards = [it.id for it in grading.verdicts if it.guard and it.value < 1]
        assert not guards, f"the untouched workspace fails the guards {', '.join(guards)}; make them ordinary checks"
        return f"score 0, fails {counted(len(grading.failed), 'check')}"

    def _solution(self, case: Case, judged: Case, seed: ProofSeed, trial: int) -> str:
        overlay = Overlay(case.part("solution"), case.spec.solution.run)
        answer = self._answering.answer(judged, overlay, seed, trial, f"solution {trial}", _require_exit)
        grading = answer.grading
        failures = [f"{it.id} ({it.value:g}): {it.message}" for it in grading.verdicts if it.value < 1]
        assert not failures, "the solution does not pass " + "; ".join(failures)
        assert grading.success and grading.score == 1.0, f"the solution scores {grading.score:g}"
        assert not answer.snapshot.tampered, f"the solution changes protected files: {answer.snapshot.tampered}"
        over = [claim["name"] for claim in grading.claims if claim["overclaim"]]
        assert not over, f"the solution overclaims {', '.join(over)}"
        limits = case.spec.limits
        for what, seconds, limit in (
            ("runs", answer.run_s, limits.agent_s),
            ("is judged in", grading.cpu_s, limits.grade_s * max(limits.cpus, 1)),
        ):
            assert seconds <= _SHARE_OF_LIMIT * limit, f"the solution {what} {seconds:.1f} s, over half of {limit:g} s"
        measured = "".join(f", {it['name']} {it['value']:g}" for it in grading.metrics)
        return f"score 1, {answer.run_s:.1f} s to run, {answer.judge_s:.1f} s to judge{measured}"

    def _wrong_step(self, case: Case, judged: Case, name: str) -> Callable[[ProofSeed], str]:
        return lambda seed: self._wrong(case, judged, name, seed)

    def _wrong(self, case: Case, judged: Case, name: str, seed: ProofSeed) -> str:
        with temporary_folder("wrong") as laid, self._answering.prepared(judged, seed, 1) as folder:
            self._answering.warm.run(folder, Overlay(*materialise(case, name, laid)))
            folder.take_snapshot()
            with self._answering.submitted(folder, seed.judging(case.id, f"wrong {name}")) as submission:
                return caught(judged, case.spec.wrong[name], submission)

    def _hostile(self, case: Case, seed: ProofSeed) -> str:
        with self._answering.prepared(case, seed, 1) as folder:
            submission = replace(folder.submission(hostile=True), seed=seed.judging(case.id, "hostile"))
            grading = grade_submission(case, submission)
        assert not grading.broken, f"an agent can break a check: {grading.broken}"
        return "no answer breaks a check"


def _require_exit(phase: AgentPhase) -> None:
    text = phase.ended.stderr.decode("utf-8", "replace").strip()[-800:]
    assert phase.ended.code == 0, (
        f"the solution's command ends with status {phase.ended.code} ({phase.stop_reason}): {text}"
    )
