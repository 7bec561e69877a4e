"""Results branches for tests: real repositories, reached in each of the ways there are."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from bench.base.files import sha256_bytes
from bench.formats.plan import slug_of
from bench.formats.record import Artifact, Record
from bench.store import artifacts as store_artifacts
from bench.store.append import RetryPolicy
from bench.store.branch import ResultsBranch, Via
from bench.store.bundle import Bundle
from bench.store.decisions import Decision
from bench.store.merge import Taken
from tests.helpers.github_rest import Service, github_rest
from tests.helpers.records import START, make_night, make_record

ROOT = Path(__file__).resolve().parents[2]
BRANCH = "mldb-results"
TOKEN = "sesame"
WAYS = ["local", "remote", "api"]
HASTY = RetryPolicy(first_wait_s=0.01, longest_wait_s=1.0)


def git(folder: Path, *arguments: str, stdin: bytes = b"", index: Path | None = None) -> str:
    """Standard output of git in `folder`, which must succeed."""
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", "-C", str(folder), *arguments]
    env = {**os.environ, **({"GIT_INDEX_FILE": str(index)} if index else {})}
    return subprocess.run(command, input=stdin, check=True, capture_output=True, env=env).stdout.decode()


def tip_of(folder: Path, branch: str = BRANCH) -> str:
    return git(folder, "rev-parse", f"refs/heads/{branch}").strip()


def mldb(*arguments: str | Path, cwd: Path, status: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command line, which must end with `status`."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    env |= {"PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, "-m", "bench", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, timeout=600, check=False)
    assert done.returncode == status, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done


def bundle_of(records: list[Record] | None = None, run: str = "night-1", attempt: int = 1, days: int = 0) -> Bundle:
    return Bundle(run, attempt, records or make_night(run), START + timedelta(days=days))


def edit(bare: Path, changes: dict[str, bytes | None], message: str = "by hand", *, amend: bool = False) -> str:
    """A commit that lays files over the tip or (None) takes them away, as somebody with write access could."""
    index = bare / "test-index"
    git(bare, "read-tree", BRANCH, index=index)
    lines = ""
    for path, content in changes.items():
        blob = "0" * 40 if content is None else git(bare, "hash-object", "-w", "--stdin", stdin=content).strip()
        lines += f"{0 if content is None else 100644} {blob}\t{path}\0"
    git(bare, "update-index", "-z", "--add", "--index-info", stdin=lines.encode(), index=index)
    tree = git(bare, "write-tree", index=index).strip()
    parents = git(bare, "log", "-1", "--format=%P", BRANCH).split() if amend else [tip_of(bare)]
    options = [part for parent in parents for part in ("-p", parent)]
    commit = git(bare, "commit-tree", tree, *options, "-m", message).strip()
    git(bare, "update-ref", f"refs/heads/{BRANCH}", commit)
    return commit


def make_bare(folder: Path, *, with_main: bool = False) -> Path:
    """An empty bare repository; GitHub's API wants a first commit somewhere in it."""
    ResultsBranch(folder).ensure()
    if with_main:
        tree = git(folder, "mktree").strip()
        git(folder, "update-ref", "refs/heads/main", git(folder, "commit-tree", tree, "-m", "first").strip())
    return folder


@dataclass(frozen=True)
class Target:
    """A bare repository, and how to write to it."""

    bare: Path
    address: str
    via: Via
    service: Service | None = field(default=None)

    def branch(self, patience: RetryPolicy = HASTY) -> ResultsBranch:
        return ResultsBranch(self.address, via=self.via, retry=patience, pause_s=0)


@contextlib.contextmanager
def open_target(way: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    """A repository below `folder`, to be written to in one of `WAYS`."""
    bare = make_bare(folder / "results.git", with_main=way == "api")
    if way == "api":
        monkeypatch.setenv("MLDB_TOKEN", TOKEN)
        with github_rest("bench/results", bare, TOKEN) as service:
            yield Target(bare, service.address, "api", service)
    else:
        yield Target(bare, str(bare) if way == "local" else f"file://{bare}", "git")


AT = "2026-11-21T08:00:00Z"


def decision(kind: str = "withdrawn", run: str = "night-1", when: str = AT, **facts: object) -> Decision:
    told = {"kind": kind, "run": run, "when": when, "why": "the GPU was broken", "who": "ada", **facts}
    return Decision.model_validate(told)


def taken(folder: Path, files: dict[str, bytes], **facts: object) -> Taken:
    """A record whose trace lies in `folder`, as a run leaves it."""
    plain = make_record(**facts)  # type: ignore[arg-type]
    place = f"traces/{slug_of(plain.cell)}"
    listed = []
    for name, content in files.items():
        path = folder / place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        listed.append(Artifact(name=name, place=f"{place}/{name}", size=len(content), digest=sha256_bytes(content)))
    record = make_record(**facts, artifacts=listed)  # type: ignore[arg-type]
    return Taken(record, store_artifacts.Artifact(folder.name, folder), record.cell, 0)
