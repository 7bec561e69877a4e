"""The results branch: one commit a run or decision, added to and never rewritten."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Literal

from bench.base.errors import UserError
from bench.formats.plan import RunPlan
from bench.formats.record import Record
from bench.formats.run_folder import writing
from bench.store.append import Appended, Prepare, RetryPolicy, add_bundle, add_decision, add_look, append_with_retry
from bench.store.bundle import Bundle, Manifest, parse_manifest, render
from bench.store.decisions import Decision
from bench.store.git import Git, GitError, find_git_folder, init_bare, is_branch_name
from bench.store.git.backend import BranchBackend, TryAgain, git_folder, is_remote
from bench.store.git.git_backend import open_backend
from bench.store.pending import discard_pending, save_pending
from bench.store.reader import open_copy
from bench.store.trace_storage import PreparedTraces, inline_traces

Via = Literal["git", "api"]
"""How to write: git itself, or GitHub's Git Data API. Reading always takes git."""


class ResultsBranch:
    """The branch that holds all results, in a local repository or behind a URL."""

    def __init__(
        self,
        repository: Path | str,
        name: str = "mldb-results",
        *,
        via: Via = "git",
        retry: RetryPolicy | None = None,
        pause_s: float | None = None,
    ) -> None:
        """`pause_s`: seconds between two writes through the API, None for GitHub's advice."""
        if not is_branch_name(name):
            raise UserError(f"`{name}` is not a branch name", where="--branch", remedy="such as mldb-results")
        self._repository = repository
        self._name = name
        self._via = via
        self._retry = retry or RetryPolicy()
        self._pause_s = pause_s

    def require_usable(self) -> None:
        """Raise `UserError` where records could not be stored here later; writes nothing."""
        path = Path(self._repository)
        if self._via == "api" or is_remote(self._repository) or (path.is_dir() and any(path.iterdir())):
            self.ensure()
            return
        absolute = path.absolute()
        existing = next(it for it in (absolute, *absolute.parents) if os.path.lexists(it))
        if not existing.is_dir():
            fault = "is not a git repository" if existing == absolute else "is not a folder"
            raise UserError(fault, where=existing, remedy="name another path with --results")
        if not os.access(existing, os.W_OK | os.X_OK):
            raise UserError("cannot be written to", where=existing, remedy="name another path with --results")

    def ensure(self) -> None:
        """Make the repository when its path does not exist; otherwise check that it can be used."""
        if self._via == "api" or is_remote(self._repository):
            try:
                with self._open(time.monotonic() + self._retry.seconds) as backend:
                    backend.tip()
            except TryAgain as fault:
                raise UserError(str(fault), where=self._name, remedy="check the address and the network") from None
            return
        path = Path(self._repository)
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            self._refuse_checked_out(git_folder(path))
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            init_bare(path, self._name)
        except GitError as error:
            # Another process may have made it at the same moment; then it is there, and that is enough.
            if find_git_folder(path) is None:
                raise UserError(error.message, where=path, remedy="choose a path that can be written") from None

    def commit(self, bundle: Bundle) -> Appended:
        """Add the files of a bundle in one commit; the same bundle again changes nothing.

        Raises `RetriesExhausted` after the last try, `UserError` where trying again cannot help.
        """
        rendered = render(bundle)
        return self._append(lambda backend, tip: add_bundle(backend, tip, bundle, rendered), f"run {bundle.key}")

    def decide(self, decision: Decision) -> Appended:
        """Add a decision to the ledger; the same one again changes nothing. Raises as `commit` does."""
        return self._append(lambda backend, tip: add_decision(backend, tip, decision), f"decision about {decision.run}")

    def looks(self, run: str) -> list[bytes]:
        """What was written down of each look at the run, the first look first."""
        with open_copy(self._repository, self._name) as copy:
            return [content for _, content in sorted(copy.contents(f"looks/{run}", ".json"))]

    def add_look(self, run: str, number: int, content: bytes) -> Appended:
        """Write down a look at the run; the same one again changes nothing, another one under its number is refused.

        Raises as `commit` does.
        """
        return self._append(
            lambda backend, tip: add_look(backend, tip, run, number, content), f"look {number} at run {run}"
        )

    def records(self, *, withdrawn: bool = False) -> Iterator[Record]:
        """All records that count, file by file in the order of their paths.

        withdrawn: those too that the ledger of decisions has withdrawn or replaced.
        """
        with open_copy(self._repository, self._name) as copy:
            yield from copy.records(withdrawn=withdrawn)

    def decisions(self) -> list[Decision]:
        """The ledger, the oldest decision first."""
        with open_copy(self._repository, self._name) as copy:
            return copy.decisions()

    def manifests(self) -> Sequence[Manifest]:
        """All manifests, in the order of their paths."""
        with open_copy(self._repository, self._name) as copy:
            return [parse_manifest(content, path) for path, content in copy.contents("manifests", ".json")]

    def _append(self, prepare: Prepare, what: str) -> Appended:
        deadline = time.monotonic() + self._retry.seconds
        if self._via == "git" and not is_remote(self._repository):
            self._refuse_checked_out(git_folder(Path(self._repository)))
        try:
            with self._open(deadline) as backend:
                return append_with_retry(backend, prepare, self._retry, deadline, f"{what} on {self._name}")
        except GitError as error:
            raise UserError(str(error), where=self._name, remedy="check the repository with `git fsck`") from None

    def _open(self, deadline: float) -> AbstractContextManager[BranchBackend]:
        if self._via == "git":
            return open_backend(self._repository, self._name, deadline)
        from bench.store.git.github_api import PAUSE_S, open_github_backend

        pause_s = PAUSE_S if self._pause_s is None else self._pause_s
        return open_github_backend(str(self._repository), self._name, pause_s)

    def _refuse_checked_out(self, folder: Path) -> None:
        """Moving a checked-out branch would make its work tree look as if everything new had been deleted."""
        # All work trees of the repository: any of them can have the branch checked out.
        trees = Git(folder).text("worktree", "list", "--porcelain").split("\n\n")
        for tree in trees:
            lines = tree.splitlines()
            if f"branch refs/heads/{self._name}" in lines and "bare" not in lines:
                where = lines[0].removeprefix("worktree ")
                raise UserError(
                    f"has the branch {self._name} checked out", where=where, remedy="switch it to another branch"
                )


def publish(
    stored: RunPlan,
    records: Sequence[Record],
    repository: str,
    branch: str,
    folder: Path | None = None,
    keep: Path | None = None,
) -> Appended:
    """Commit the records of a run to the results branch; the same records twice are one commit.

    folder: the run's. Small traces go along where the repository is of this machine.
    keep: folder in which a bundle lies until it is stored, for `results push`.
    """
    results = ResultsBranch(repository, branch)
    attempt = stored.earlier_attempts + int(os.environ.get("GITHUB_RUN_ATTEMPT") or 1)
    started = datetime.fromisoformat(stored.created)
    traces = PreparedTraces([], {}, [])
    if folder is not None and not is_remote(repository):
        traces = inline_traces(records, folder)
    bundle = Bundle(stored.run, attempt, list(records), started, traces.traces, traces.inline)
    # On disk before the first try, so that a killed process loses nothing.
    pending = save_pending(bundle, keep) if keep is not None else None
    with writing(Path(repository)):
        results.ensure()
        done = results.commit(bundle)
    if pending is not None:
        discard_pending(pending)
    return done
