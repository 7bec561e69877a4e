"""A case proves itself: the untouched workspace fails, the solution succeeds, every wrong answer is caught."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench.authoring.lint import lint, same_files
from bench.authoring.wrong_answers import caught
from bench.base.errors import InfraError, UserError
from bench.base.files import digest_folder, temporary_folder
from bench.base.install import DataFolders
from bench.cell import CellContext, CellFolder, Overlay, Snapshot, build_data, run_agent, unmet_needs
from bench.formats.agent import find_agent
from bench.formats.case import Case
from bench.formats.plan import Cell
from bench.formats.record import Provenance
from bench.formats.wrong_answers import materialise
from bench.guest.trees import remove_tree
from bench.judge import Grading, grade_submission
from bench.sandbox import Sandbox

_SHARE_OF_LIMIT = 0.5
_SEED = 2**128 // 3


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


@contextmanager
def open_verifier(folders: DataFolders, sandbox: Sandbox) -> Iterator[Verifier]:
    """A verifier with a place of its own, which is removed afterwards."""
    with temporary_folder("verified") as place:
        yield Verifier(folders, sandbox, place)


@dataclass(frozen=True)
class Answer:
    """An answer laid over a fresh workspace, run and judged."""

    grading: Grading
    snapshot: Snapshot
    agent_s: float
    judge_s: float


class Verifier:
    """Verifies cases in one sandbox, several at a time if asked from several threads."""

    def __init__(self, folders: DataFolders, sandbox: Sandbox, place: Path) -> None:
        """`place`: a folder for all workspaces; what runs answers is made ready for one such folder, once."""
        self._folders = folders
        self._sandbox = sandbox
        self._place = place

    def verify(self, case: Case) -> Iterator[Proof]:
        """Every proof of `case`, as it comes, in each profile for which this machine has what it needs."""
        faults = lint(case)
        yield Proof(case.id, "folder", not faults, "; ".join(faults) or "complete", 0.0)
        for profile in case.profiles:
            resolved, named = case.for_profile(profile), profile if len(case.profiles) > 1 else ""
            if unmet := unmet_needs(resolved.spec.needs, self._sandbox):
                yield Proof(case.id, "needs", True, unmet, 0.0, named, skipped=True)
                continue
            for proof in self._prove(resolved):
                yield replace(proof, profile=named)

    def _prove(self, case: Case) -> Iterator[Proof]:
        """Every proof of a case in one profile."""
        steps: list[tuple[str, Callable[[Case], str]]] = [
            ("data", self._data),
            ("untouched", self._untouched),
            ("solution", lambda it: self._solution(it, 1)),
            ("solution, other seed", lambda it: self._solution(it, 2)),
            *((f"wrong: {name}", self._wrong_step(name)) for name in case.spec.wrong),
            ("hostile answers", self._hostile),
        ]
        for name, step in steps:
            began = time.monotonic()
            try:
                detail, ok = step(case), True
            except (AssertionError, InfraError, UserError) as fault:
                detail, ok = str(fault), False
            yield Proof(case.id, name, ok, detail, round(time.monotonic() - began, 2))

    def _data(self, case: Case) -> str:
        if not case.part("data.py").is_file():
            return "the case makes none"
        # As long as a run's, and different only where a cut to 32 or 64 bits would lose it.
        digests = [self._data_digest(case, seed) for seed in (_SEED, _SEED, _SEED + 2**127)]
        assert digests[0] == digests[1], (
            "data.py gives other data for the same seed; draw only from the seed, write no times"
        )
        assert digests[0] != digests[2], "data.py gives the same data for another seed; use all 128 bits of the seed"
        with self._prepared(case, 1) as folder:
            leaked = same_files(folder.start.hidden, folder.start.workspace)
        assert not leaked, f"data.py gives hidden files to the agent: {', '.join(leaked)}"
        return "the same for the same seed, other for another"

    def _data_digest(self, case: Case, seed: int) -> str:
        with temporary_folder("data") as folder:
            public, hidden = folder / "public", folder / "hidden"
            public.mkdir()
            hidden.mkdir()
            build_data(case, case.profile or case.profiles[0], seed, public, hidden, self._folders.cache)
            return digest_folder(folder)

    def _untouched(self, case: Case) -> str:
        grading = self._answer(case, None, 1).grading
        assert not grading.success, "the untouched workspace succeeds"
        passing = [it.id for it in grading.verdicts if it.value > 0 and it.weight > 0]
        assert grading.score == 0, f"the untouched workspace earns credit at {', '.join(passing)}; make these guards"
        guards = [it.id for it in grading.verdicts if it.guard and it.value < 1]
        assert not guards, f"the untouched workspace fails the guards {', '.join(guards)}; make them ordinary checks"
        return f"score 0, fails {len(grading.failed)} checks"

    def _solution(self, case: Case, trial: int) -> str:
        answer = self._answer(case, Overlay(case.part("solution"), case.spec.solution.run), trial)
        grading = answer.grading
        failures = [f"{it.id} ({it.value:g}): {it.message}" for it in grading.verdicts if it.value < 1]
        assert not failures, "the solution does not pass " + "; ".join(failures)
        assert grading.success and grading.score == 1.0, f"the solution scores {grading.score:g}"
        assert not answer.snapshot.tampered, f"the solution changes protected files: {answer.snapshot.tampered}"
        over = [claim["name"] for claim in grading.claims if claim["overclaim"]]
        assert not over, f"the solution overclaims {', '.join(over)}"
        limits = case.spec.limits
        for what, seconds, limit in (
            ("runs", answer.agent_s, limits.agent_s),
            ("is judged in", grading.cpu_s, limits.grade_s * max(limits.cpus, 1)),
        ):
            assert seconds <= _SHARE_OF_LIMIT * limit, f"the solution {what} {seconds:.1f} s, over half of {limit:g} s"
        measured = "".join(f", {it['name']} {it['value']:g}" for it in grading.metrics)
        return f"score 1, {answer.agent_s:.1f} s to run, {answer.judge_s:.1f} s to judge{measured}"

    def _wrong_step(self, name: str) -> Callable[[Case], str]:
        return lambda case: self._wrong(case, name)

    def _wrong(self, case: Case, name: str) -> str:
        wrong = case.spec.wrong[name]
        with temporary_folder("wrong") as laid, self._prepared(case, 1) as folder:
            self._lay(folder, Overlay(*materialise(case, name, laid)))
            folder.take_snapshot()
            return caught(case, wrong, folder.submission())

    def _hostile(self, case: Case) -> str:
        with self._prepared(case, 1) as folder:
            grading = grade_submission(case, folder.submission(hostile=True))
        assert not grading.broken, f"an agent can break a check: {grading.broken}"
        return "no answer breaks a check"

    @contextmanager
    def _prepared(self, case: Case, trial: int) -> Iterator[CellFolder]:
        """A fresh workspace of a trial whose agent is the solution's."""
        oracle = find_agent("oracle", self._folders.agents)
        provenance = Provenance(
            bench_version="", run="verify", sandbox=self._sandbox.name, isolated=self._sandbox.isolated
        )
        cell = Cell(oracle, {}, case, case.profile or case.profiles[0], trial)
        with temporary_folder("verify") as folder:
            context = CellContext(folder / "run", folder / "s", self._folders, self._sandbox, provenance, "verify", {})
            path = self._place / secrets.token_hex(8)
            try:
                yield CellFolder.prepare(cell, context, path)
            finally:
                remove_tree(path)

    def _answer(self, case: Case, overlay: Overlay | None, trial: int) -> Answer:
        with self._prepared(case, trial) as folder:
            agent_s = self._lay(folder, overlay) if overlay is not None else 0.0
            snapshot = folder.take_snapshot()
            began = time.monotonic()
            grading = folder.judge()
            return Answer(grading, snapshot, agent_s, time.monotonic() - began)

    def _lay(self, folder: CellFolder, overlay: Overlay) -> float:
        """Lay the answer as an agent would: in the sandbox, with the case's services."""
        phase = run_agent(folder, overlay)
        expected = overlay.folder.name != "solution" or phase.ended.code == 0
        text = phase.ended.stderr.decode("utf-8", "replace").strip()[-800:]
        assert expected, f"the solution's command ends with status {phase.ended.code} ({phase.stop_reason}): {text}"
        return phase.ended.wall_s
