"""The results branch: one commit a run, added to and never rewritten."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bench.errors import UserError
from bench.record import Outcome, Record
from bench.store.bundle import Bundle, Rendered, parse_file, render
from bench.store.chain import TRAILER, last_manifest, parse_manifest
from bench.store.git import Git, GitError, find_git_folder, init_bare, is_branch_name
from bench.store.manifest import Manifest
from bench.store.place import Place, git_folder, is_remote, open_place
from bench.store.tree import add_files

TRIES = 12
_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 30.0


@dataclass(frozen=True)
class Committed:
    """What became of a bundle."""

    commit: str
    """A commit that holds the bundle: the new one, or the tip that had it already."""
    files: list[str]
    new: bool


@dataclass(frozen=True)
class RunSummary:
    """One stored run, from its manifest."""

    run: str
    attempt: int
    started: datetime
    agents: list[str]
    records: int
    outcomes: dict[Outcome, int]
    files: list[str]


class ResultsBranch:
    """The branch that holds all results, in a local repository or behind a URL."""

    def __init__(self, repository: Path | str, name: str = "mldb-results") -> None:
        if not is_branch_name(name):
            raise UserError(f"`{name}` is no branch name")
        self._repository = repository
        self._name = name

    def ensure(self) -> None:
        """Make the repository when its path does not exist; otherwise see that it can be used."""
        if is_remote(self._repository):
            with self._open() as place:
                place.tip()
            return
        path = Path(self._repository)
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            self._refuse_checked_out(git_folder(path))
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            init_bare(path, self._name)
        except GitError as error:
            # Somebody else may be making it at this moment; what counts is that it is there.
            if find_git_folder(path) is None:
                raise UserError(error.message, where=path, remedy="choose a path that can be written") from None

    def commit(self, bundle: Bundle) -> Committed:
        """Add the files of a bundle in one commit; the same bundle again changes nothing."""
        rendered = render(bundle)
        paths = [*rendered.files, bundle.manifest_path]
        if not is_remote(self._repository):
            self._refuse_checked_out(git_folder(Path(self._repository)))
        with self._open() as place:
            for failures in range(TRIES):
                _wait(failures)
                tip = place.tip()
                if tip and _holds(place.git, tip, bundle, rendered):
                    return Committed(tip, paths, new=False)
                commit = _write(place.git, tip, bundle, rendered)
                if place.advance(tip, commit):
                    return Committed(commit, paths, new=True)
        raise UserError(
            f"run {bundle.key} was not stored: others were quicker {TRIES} times, or the connection failed",
            where=self._name,
            remedy="nothing was changed; store it again",
        )

    def records(self) -> Iterator[Record]:
        """All stored records, file by file in the order of their paths."""
        for path, content in self._contents("runs", ".jsonl"):
            yield from parse_file(content, path)

    def runs(self) -> list[RunSummary]:
        """All stored runs, the oldest first."""
        manifests = [parse_manifest(content, path) for path, content in self._contents("manifests", ".json")]
        summaries = [_summary(manifest) for manifest in manifests]
        return sorted(summaries, key=lambda run: (run.started, run.run, run.attempt))

    def _open(self, *, contents: bool = False) -> AbstractContextManager[Place]:
        return open_place(self._repository, self._name, contents=contents)

    def _contents(self, folder: str, suffix: str) -> Iterator[tuple[str, bytes]]:
        with self._open(contents=True) as place:
            tip = place.tip()
            if not tip:
                return
            files = place.git.list_files(tip, folder)
            for path, entry in files.items():
                if not path.endswith(suffix) or entry.kind != "blob":
                    raise UserError(f"is no {suffix} file", where=path, remedy="only the benchmark writes this branch")
            try:
                yield from zip(files, place.git.read(entry.sha for entry in files.values()), strict=True)
            except GitError as error:
                raise UserError(str(error), where=self._name) from None

    def _refuse_checked_out(self, folder: Path) -> None:
        """Moving a checked-out branch would make its work tree look as if everything new had been deleted."""
        trees = Git(folder).text("worktree", "list", "--porcelain").split("\n\n")
        for tree in trees:
            lines = tree.splitlines()
            if f"branch refs/heads/{self._name}" in lines and "bare" not in lines:
                where = lines[0].removeprefix("worktree ")
                raise UserError(
                    f"has the branch {self._name} checked out", where=where, remedy="switch it to another branch"
                )


def _write(git: Git, tip: str | None, bundle: Bundle, rendered: Rendered) -> str:
    """A commit on `tip` with the bundle's files; the branch itself is not moved."""
    manifest = rendered.manifest.model_copy(update={"previous": last_manifest(git, tip) if tip else None})
    files = {**rendered.files, bundle.manifest_path: manifest.to_bytes(), **_new_schema(git, tip, rendered)}
    tree = git.text("rev-parse", f"{tip}^{{tree}}") if tip else None
    new_tree = add_files(git, tree, {path: git.store(content) for path, content in files.items()})
    cells = sum(file.records for file in manifest.files)
    message = f"Results of {bundle.run}, attempt {bundle.attempt}: {cells} cells\n\n{TRAILER}{bundle.manifest_path}\n"
    return git.make_commit(new_tree, tip, message)


def _holds(git: Git, tip: str, bundle: Bundle, rendered: Rendered) -> bool:
    """Has the branch this very bundle? Another one under the same run and attempt is a `UserError`."""
    held = git.list_files(tip, "manifests")
    path = next((path for path in held if path.endswith(f"/{bundle.key}.json")), None)
    if path is None:
        return False
    manifest = parse_manifest(git.read_one(held[path].sha), path)
    if path != bundle.manifest_path or manifest.model_copy(update={"previous": None}) != rendered.manifest:
        raise UserError(
            f"run {bundle.run}, attempt {bundle.attempt}, is stored already, with other content",
            where=path,
            remedy="stored results are never rewritten; publish under another run or attempt",
        )
    return True


def _new_schema(git: Git, tip: str | None, rendered: Rendered) -> dict[str, bytes]:
    """The schema as a file, unless it is there; a later wording of the same version gets a name of its own."""
    digest = rendered.manifest.record_schema
    plain = f"schema/record-{digest.version}.json"
    held = git.list_files(tip, "schema") if tip else {}
    sha = git.store(rendered.schema)
    if any(entry.sha == sha for entry in held.values()):
        return {}
    if plain not in held:
        return {plain: rendered.schema}
    return {f"schema/record-{digest.version}-{digest.digest.removeprefix('sha256:')[:12]}.json": rendered.schema}


def _summary(manifest: Manifest) -> RunSummary:
    return RunSummary(
        run=manifest.run,
        attempt=manifest.attempt,
        started=datetime.fromisoformat(manifest.started),
        agents=sorted(file.agent for file in manifest.files),
        records=sum(file.records for file in manifest.files),
        outcomes=dict(manifest.outcomes),
        files=[file.path for file in manifest.files],
    )


def _wait(failures: int) -> None:
    """Full jitter: any time up to a bound that doubles, so that those who met once do not meet again."""
    if failures:
        time.sleep(random.SystemRandom().uniform(0, min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2**failures)))
