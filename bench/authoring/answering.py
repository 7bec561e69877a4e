"""Answers of a case, laid over fresh workspaces as an agent would, and judged: for its proof and its mutants."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench.authoring.proof_seeds import ProofContext, ProofSeed
from bench.authoring.staging import UNLOADABLE, BrokenCodeError, in_one_line, staged
from bench.authoring.warm_answers import WarmAnswers
from bench.base.errors import InfraError, UserError
from bench.base.files import temporary_folder
from bench.base.install import DataFolders
from bench.cell import (
    AgentPhase,
    CellFolder,
    Overlay,
    Snapshot,
    SourceCache,
    prepare_start,
    run_agent,
    sources_of,
    unmet_needs,
)
from bench.formats.agent_lookup import find_agent
from bench.formats.case import Case
from bench.formats.plan import Cell
from bench.formats.provenance import Provenance
from bench.formats.record import Profile
from bench.guest.trees import remove_tree
from bench.judge import Grading, Submission
from bench.sandbox import Sandbox


@dataclass(frozen=True)
class Answer:
    """An answer that was run and judged."""

    grading: Grading
    snapshot: Snapshot
    run_s: float
    """0 for the untouched workspace."""
    judge_s: float


@contextmanager
def open_answering(folders: DataFolders, sandbox: Sandbox) -> Iterator[Answering]:
    """What runs and judges answers, with a place of its own, which is removed afterwards."""
    with temporary_folder("verified") as place:
        for name in ("work", "starts", "cases"):
            (place / name).mkdir()
        assets = folders.cache / "assets"
        assets.mkdir(parents=True, exist_ok=True)
        # Built once for all: they do not depend on a seed.
        (place / "starts" / "assets").symlink_to(assets.absolute(), target_is_directory=True)
        warm = WarmAnswers(sandbox, place / "work")
        try:
            yield Answering(folders, sandbox, place, warm)
        finally:
            warm.close()


@contextmanager
def open_answers_of(case: Case, folders: DataFolders, sandbox: Sandbox) -> Iterator[AnswersOf]:
    """What judges answers of `case`, in the first of its profiles for which this machine has what it needs.

    Raises `UserError` where there is none.
    """
    with open_answering(folders, sandbox) as answering:
        unmet = {profile: answering.unmet(case.for_profile(profile), profile) for profile in case.profiles}
        fitting = [profile for profile, lacking in unmet.items() if not lacking]
        if not fitting:
            lacking = "; ".join(dict.fromkeys(unmet.values()))
            raise UserError(lacking, where=f"case {case.id}", remedy="its answers cannot be run here")
        judged = staged(case, answering.cases).for_profile(fitting[0])
        yield AnswersOf(answering, case.for_profile(fitting[0]), judged)


@dataclass(frozen=True)
class Answering:
    """Runs and judges answers in one sandbox, several at a time if asked from several threads."""

    folders: DataFolders
    sandbox: Sandbox
    place: Path
    """A folder for workspaces, data and copies of cases; what runs answers is made ready for one such, once."""
    warm: WarmAnswers
    """Runs wrong answers; for one thread."""

    @property
    def cases(self) -> Path:
        """Where copies of cases are staged."""
        return self.place / "cases"

    @property
    def starts(self) -> Path:
        """Where data is kept that was built for a drawn seed."""
        return self.place / "starts"

    def unmet(self, case: Case, profile: Profile) -> str:
        """What this machine lacks for a case in a profile; empty for nothing. No proof begins a download by itself."""
        if unmet := unmet_needs(case.spec.needs, sandbox=self.sandbox):
            return unmet
        here = SourceCache(self.folders.cache / "sources")
        lacking = [it.name for it in sources_of(case, profile) if not here.is_there(it.source)]
        return f"its data is not here: {', '.join(lacking)}; `ml-dev-bench cases fetch {case.id}`" if lacking else ""

    def start(self, case: Case, profile: Profile, seed: int) -> tuple[Path, Path]:
        """The workspace and the hidden folder with which a trial of this seed begins."""
        try:
            start = prepare_start(case, profile, seed, self.starts, self.folders.cache)
            return start.workspace, start.hidden
        except InfraError as fault:
            if fault.cause == "data_error":
                raise BrokenCodeError(in_one_line(case, str(fault))) from None
            raise

    @contextmanager
    def prepared(self, case: Case, seed: ProofSeed, trial: int) -> Iterator[CellFolder]:
        """A fresh workspace of a trial whose agent is the solution's."""
        oracle = find_agent("oracle", self.folders.agents)
        provenance = Provenance(
            bench_version="", run="verify", sandbox=self.sandbox.name, isolated=self.sandbox.isolated
        )
        cell = Cell(oracle, {}, case, case.profile or case.profiles[0], trial)
        with temporary_folder("verify") as folder:
            context = ProofContext(
                folder / "run", folder / "s", self.folders, self.sandbox, provenance, "verify", {},
                proof_seed=seed, starts=self.starts,
            )  # fmt: skip
            path = self.place / "work" / secrets.token_hex(8)
            try:
                with context.gpu(cell) as gpu:
                    yield CellFolder.prepare(cell, context, path, gpu)
            finally:
                remove_tree(path)

    @contextmanager
    def submitted(self, folder: CellFolder, seed: int) -> Iterator[Submission]:
        """What is judged of a folder, while the services that its code may reach then are there."""
        sockets, journals = folder.context.socket_folder(folder.cell) / "j", folder.path / "judging"
        for made in (sockets, journals):
            made.mkdir(parents=True, exist_ok=True)
        with folder.running_services(sockets, "judging", journals) as services:
            yield replace(folder.submission(), seed=seed, services=services, judging_journals=journals)

    def answer(
        self,
        case: Case,
        overlay: Overlay | None,
        seed: ProofSeed,
        trial: int,
        name: str,
        ran: Callable[[AgentPhase], None] | None = None,
    ) -> Answer:
        """Lay an answer over a fresh workspace and judge it; its name decides the judge's inputs, beside the seed.

        ran: looks at how its command ended, before anything is judged; what it raises ends the trial. Raises
        `BrokenCodeError` or `InfraError` where there is no verdict.
        """
        with self.prepared(case, seed, trial) as folder:
            run_s = 0.0
            if overlay is not None:
                # As an agent would: in the sandbox, with the case's services.
                phase = run_agent(folder, overlay)
                run_s = phase.ended.wall_s
                if ran is not None:
                    ran(phase)
            snapshot = folder.take_snapshot()
            began = time.monotonic()
            grading = folder.grade(seed.judging(case.id, name))
            if grading.broken.startswith(UNLOADABLE):
                raise BrokenCodeError(in_one_line(case, grading.broken))
            if grading.broken:
                raise InfraError("judge_error", f"a check of case {case.id} is broken: {grading.broken}")
            return Answer(grading, snapshot, run_s, time.monotonic() - began)


@dataclass(frozen=True)
class AnswersOf:
    """Runs and judges answers of one case."""

    answering: Answering
    case: Case
    judged: Case
    """Its copy without the answers."""

    def answer(
        self, overlay: Overlay, seed: ProofSeed, name: str, ran: Callable[[AgentPhase], None] | None = None
    ) -> Answer:
        """As `Answering.answer`, in a first trial."""
        return self.answering.answer(self.judged, overlay, seed, 1, name, ran)
