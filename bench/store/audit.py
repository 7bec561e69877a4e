"""The audit of a results branch: its history, the chain of manifests, the register, every record, decision and trace.

In a sound history files are only ever added, and ledgers only ever grow.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from bench.base.errors import UserError
from bench.base.files import sha256_bytes
from bench.base.times import Progress
from bench.formats.older_records import read_line
from bench.formats.record import Outcome
from bench.store.append import key_path, parse_trailer
from bench.store.bundle import Manifest, StoredFile, parse_manifest
from bench.store.decisions import FILE, parse_decisions
from bench.store.git import Entry, Git, GitError
from bench.store.reader import Copy, attempt_of
from bench.store.trace_storage import INLINE
from bench.store.traces import inflate, inline_path

_FOLDERS = ("runs", "manifests", "keys", "decisions", "schema", "traces")
_LINES = 5
"""Faulty lines of one file that are reported one by one."""


@dataclass(frozen=True)
class AuditFinding:
    """Something that is not as it was stored."""

    where: str
    what: str


@dataclass(frozen=True)
class _Edit:
    """A commit's change of one path."""

    status: str
    path: str
    old: str
    new: str


def _edits(git: Git, lines: list[str]) -> Iterator[tuple[str, list[_Edit]]]:
    """Each commit with what it changed against its first parent."""
    asked = "".join(" ".join(line.split()[:2]) + "\n" for line in lines).encode()
    options = ("--stdin", "--root", "--always", "-r", "-z", "--raw", "--no-renames", "--no-abbrev")
    tokens = iter(git.run("diff-tree", *options, stdin=asked).decode("utf-8", "surrogateescape").split("\0"))
    commit, edits = "", list[_Edit]()
    for token in tokens:
        if token.startswith(":"):
            _, _, old, new, status = token.split(" ")
            edits.append(_Edit(status, next(tokens), old, new))
        elif token.strip():
            if commit:
                yield commit, edits
            commit, edits = token.split()[0], []
    if commit:
        yield commit, edits


def _shrunk(copy: Copy, grown: list[tuple[str, _Edit]]) -> Iterator[AuditFinding]:
    """Of the ledgers that grew, those whose old lines are not all there still."""
    contents = copy.read([sha for _, edit in grown for sha in (edit.old, edit.new)])
    for commit, edit in grown:
        old, new = next(contents), next(contents)
        if not new.startswith(old):
            yield AuditFinding(edit.path, f"lost or changed a line in commit {commit[:12]}")
    contents.close()


@dataclass
class Audited:
    """How much was looked at."""

    commits: int = 0
    manifests: int = 0
    files: int = 0
    records: int = 0
    decisions: int = 0
    traces: int = 0


@dataclass(frozen=True)
class Audit:
    """One look at a branch."""

    copy: Copy
    done: Audited = field(default_factory=Audited)
    progress: Progress = lambda line: None

    def findings(self, known: str | None = None) -> Iterator[AuditFinding]:
        """All findings, as they are found; `done` counts on. Raises `UserError` for a repository that is not whole.

        known: a commit that must be part of the history.
        """
        copy = self.copy
        if copy.tip is None:
            yield AuditFinding("branch", "does not exist")
            return
        try:
            files = {path: entry for folder in _FOLDERS for path, entry in copy.files(folder).items()}
            if known is not None and not _is_ancestor(copy, copy.tip, known):
                yield AuditFinding(f"commit {known[:12]}", "is not in the history: the branch was replaced")
            order: list[str] = []
            yield from self._history(copy.tip, order)
            manifests: dict[str, Manifest] = {}
            yield from self._chain(copy.tip, files, order, manifests)
            yield from self._register(files, manifests)
            yield from self._runs(files, manifests)
            yield from self._ledger(files, manifests)
            yield from self._inline(files, manifests)
        except GitError as error:
            raise UserError(str(error), where=copy.git.folder, remedy="check the repository with `git fsck`") from None

    def _history(self, tip: str, order: list[str]) -> Iterator[AuditFinding]:
        """Every commit from the first to `tip`; fills `order` with the manifests as the commits brought them."""
        git = self.copy.git
        if git.text("rev-parse", "--is-shallow-repository") == "true":
            raise UserError("is a shallow clone, without its history", where=git.folder, remedy="git fetch --unshallow")
        lines = git.text("rev-list", "--reverse", "--first-parent", "--parents", tip).splitlines()
        for commit, *parents in (line.split() for line in lines):
            # Only the first parents are followed, so that a merge could hide changes.
            if len(parents) > 1:
                yield AuditFinding(f"commit {commit[:12]}", f"has {len(parents)} parents: it was merged by hand")
        grown: list[tuple[str, _Edit]] = []
        for commit, edits in _edits(git, lines):
            self.done.commits += 1
            brought = [edit.path for edit in edits if edit.status == "A" and edit.path.startswith("manifests/")]
            order += brought
            if len(brought) > 1:
                yield AuditFinding(f"commit {commit[:12]}", f"brought {len(brought)} manifests at once")
            for edit in edits:
                if edit.status == "M" and FILE.fullmatch(edit.path):
                    grown.append((commit, edit))
                elif edit.status != "A":
                    done = {"M": "changed", "D": "removed", "T": "changed in kind"}.get(edit.status, "touched")
                    yield AuditFinding(edit.path, f"was {done} by commit {commit[:12]}")
        yield from _shrunk(self.copy, grown)

    def _contents(self, files: Mapping[str, Entry], pattern: str) -> Iterator[tuple[str, bytes]]:
        paths = [path for path, entry in files.items() if re.fullmatch(pattern, path) and entry.kind == "blob"]
        yield from zip(paths, self.copy.read([files[path].sha for path in paths]), strict=True)

    def _chain(
        self, tip: str, files: Mapping[str, Entry], order: list[str], manifests: dict[str, Manifest]
    ) -> Iterator[AuditFinding]:
        """Each manifest names the one before it; fills `manifests` in the order in which they were stored."""
        contents = dict(self._contents(files, r"manifests/.*\.json"))
        self.done.manifests = len(contents)
        previous: str | None = None
        # In the order of the commits; then those that no commit seems to have brought.
        for path in dict.fromkeys([*(path for path in order if path in contents), *contents]):
            try:
                manifest = parse_manifest(contents[path], path)
            except UserError as error:
                yield AuditFinding(path, str(error).removeprefix(f"{path}: "))
            else:
                manifests[path] = manifest
                if manifest.previous != previous:
                    yield AuditFinding(path, "does not name the manifest stored before it: the chain is broken")
                if manifest.path != path:
                    yield AuditFinding(path, f"contains the manifest that belongs at {manifest.path}")
            previous = sha256_bytes(contents[path])
        named = parse_trailer(self.copy.git.text("log", "-1", "--format=%B", tip))
        if named is not None and order and named != order[-1]:
            yield AuditFinding("tip", f"names {named} as the manifest that was stored last; it is {order[-1]}")

    def _register(self, files: Mapping[str, Entry], manifests: Mapping[str, Manifest]) -> Iterator[AuditFinding]:
        """Every run is stored once, and the register knows it; a branch from before the register has none."""
        held = {path: content.decode("utf-8", "replace").strip() for path, content in self._contents(files, "keys/.*")}
        by_key: dict[str, list[str]] = {}
        for path, manifest in manifests.items():
            by_key.setdefault(manifest.key, []).append(path)
        for key, paths in by_key.items():
            if len(paths) > 1:
                yield AuditFinding(paths[-1], f"is run {key} for a second time, after {paths[0]}")
            if held and held.get(key_path(key)) != paths[0]:
                yield AuditFinding(key_path(key), f"does not name {paths[0]}")
        for path in held.keys() - {key_path(key) for key in by_key}:
            yield AuditFinding(path, "names a run that is not stored")

    def _runs(self, files: Mapping[str, Entry], manifests: Mapping[str, Manifest]) -> Iterator[AuditFinding]:
        """Every file matches its manifest, every line is a record of its run, and every cell is there once."""
        schemas = {sha256_bytes(content) for _, content in self._contents(files, r"schema/record-.*\.json")}
        listed = {file.path for manifest in manifests.values() for file in manifest.files}
        for path in files:
            if path.startswith("runs/") and path not in listed:
                yield AuditFinding(path, "belongs to no manifest")
        jobs: list[tuple[Manifest, StoredFile]] = []
        for path, manifest in manifests.items():
            if manifest.record_schema.digest not in schemas:
                yield AuditFinding(path, "follows a schema that is not in schema/")
            for file in manifest.files:
                if file.path in files:
                    jobs.append((manifest, file))
                else:
                    yield AuditFinding(file.path, "file is missing")
        contents = self.copy.read([files[file.path].sha for _, file in jobs])
        for number, (_, group) in enumerate(groupby(jobs, key=lambda job: job[0].path)):
            self.progress(f"run {number + 1} of {len(manifests)}, {self.done.records} records")
            yield from self._run([(manifest, file, next(contents)) for manifest, file in group])
        contents.close()

    def _run(self, parts: list[tuple[Manifest, StoredFile, bytes]]) -> Iterator[AuditFinding]:
        cells: Counter[str] = Counter()
        outcomes: Counter[Outcome] = Counter()
        whole = True
        for manifest, file, content in parts:
            self.done.files += 1
            if (sha256_bytes(content), len(content)) != (file.digest, file.size):
                yield AuditFinding(file.path, "size or digest does not match its manifest")
            faults: list[str] = []
            lines = content.split(b"\n")
            if lines.pop():
                faults.append("does not end with a line break: it was cut short")
            for line_number, line in enumerate(lines, start=1):
                try:
                    record = read_line(line, f"line {line_number}")
                    if (record.provenance.run, record.agent.id) != (manifest.run, file.agent):
                        raise UserError("belongs to another run or agent", where=f"line {line_number}")
                    if attempt_of(file.path, record) != manifest.attempt:
                        raise UserError("belongs to another attempt", where=f"line {line_number}")
                except UserError as error:
                    faults.append(str(error))
                else:
                    cells[record.cell] += 1
                    outcomes[record.outcome] += 1
            self.done.records += len(lines)
            if len(lines) != file.records:
                faults.append(f"has {len(lines)} lines, its manifest says {file.records}")
            yield from (AuditFinding(file.path, fault) for fault in faults[:_LINES])
            if len(faults) > _LINES:
                yield AuditFinding(file.path, f"has {len(faults) - _LINES} more faults")
            whole = whole and not faults
        manifest = parts[0][0]
        for cell, count in cells.items():
            if count > 1:
                yield AuditFinding(manifest.path, f"contains the cell {cell} {count} times")
        if whole and len(parts) == len(manifest.files) and dict(outcomes) != dict(manifest.outcomes):
            yield AuditFinding(manifest.path, "its outcome counts do not match its records")

    def _ledger(self, files: Mapping[str, Entry], manifests: Mapping[str, Manifest]) -> Iterator[AuditFinding]:
        """Each decision names the one before it, and is about a stored run."""
        runs = {manifest.run for manifest in manifests.values()}
        previous: str | None = None
        for path, content in self._contents(files, "decisions/.*"):
            try:
                decisions = parse_decisions(content, path)
            except UserError as error:
                yield AuditFinding(path, str(error).removeprefix(f"{path}: "))
                continue
            for number, (line, decision) in enumerate(zip(content.split(b"\n"), decisions, strict=False), start=1):
                self.done.decisions += 1
                if decision.previous != previous:
                    yield AuditFinding(f"{path}:{number}", "does not name the decision before it: the chain is broken")
                if decision.run not in runs:
                    yield AuditFinding(f"{path}:{number}", f"is about run {decision.run}, which is not stored")
                previous = sha256_bytes(line)

    def _inline(self, files: Mapping[str, Entry], manifests: Mapping[str, Manifest]) -> Iterator[AuditFinding]:
        """Each inline trace matches its digest, none is missing, and each belongs to a manifest."""
        traces = {
            inline_path(trace.digest): trace
            for manifest in manifests.values()
            for trace in manifest.traces
            if trace.place == INLINE
        }
        for path in sorted(traces.keys() - files.keys()):
            yield AuditFinding(path, "file is missing")
        for path, content in self._contents(files, "traces/.*"):
            self.done.traces += 1
            if path not in traces:
                yield AuditFinding(path, "belongs to no manifest")
                continue
            try:
                inflate(content, traces[path].digest, path)
            except UserError as error:
                yield AuditFinding(path, str(error).removeprefix(f"{path}: "))


def _is_ancestor(copy: Copy, tip: str, known: str) -> bool:
    commit = copy.git.commit_of(known) if not known.startswith("-") else None
    if commit is None:
        return False
    try:
        copy.git.run("merge-base", "--is-ancestor", commit, tip)
    except GitError:
        return False
    return True
