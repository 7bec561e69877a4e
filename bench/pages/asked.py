"""What a build is asked, as one digest that is quickly made: two builds with the same one make the same site."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.base.errors import UserError
from bench.base.files import digest_folder, sha256_bytes, walk_files
from bench.base.install import DataFolders, find_data_folders
from bench.pages.program import program_digest
from bench.store import Git, GitError, git_folder, is_remote

_READ = (".md", ".yaml", ".py")
"""Of a case and of the suites: what the site shows, and programs by which the version of a case may be another one.
That another file is there can be a condition of a case."""
_DEEP = 2
"""Folders above the files of a case, and above those of a suite."""


@dataclass(frozen=True)
class Asked:
    """What a site is to be made from."""

    digest: str
    tip: str
    """The commit of the results branch; empty for a run folder."""


def asked_of(source: str, branch: str, folders: DataFolders, options: Mapping[str, object]) -> Asked | None:
    """None where it cannot be told: a build will say why, or there are no results yet.

    source: a run folder, or a repository with the branch.
    """
    results = _results(source, branch)
    if results is None:
        return None
    kind, state = results
    parts = [
        kind,
        state,
        json.dumps([branch, sorted(options.items())]),
        program_digest(),
        digest_folder(folders.site),
        # Cases without suites of their own take those of the installation.
        *(_described(it) for it in dict.fromkeys((folders.cases, find_data_folders().cases))),
    ]
    return Asked(hashlib.sha256("\n".join(parts).encode()).hexdigest(), state if kind == "commit" else "")


def _results(source: str, branch: str) -> tuple[str, str] | None:
    """The state of the results: the commit that holds them, or when the files of a run were written."""
    ref = f"refs/heads/{branch}"
    try:
        if is_remote(source):
            listed = Git(Path(os.devnull), transfers=True).text("ls-remote", source, ref).splitlines()
            found = [line.split("\t")[0] for line in listed if line.split("\t")[-1] == ref]
            return ("commit", found[0]) if found else None
        if (Path(source) / "run.json").is_file():
            return "run", _written(Path(source))
        tip = Git(git_folder(Path(source))).commit_of(ref)
    except (GitError, UserError, OSError):
        return None
    return ("commit", tip) if tip else None


def _written(run: Path) -> str:
    """Files of a run are written whole or not at all, so that each of them has a time and a number of its own."""
    found = hashlib.sha256(str(run.resolve()).encode("utf-8", "surrogateescape"))
    for name, entry in walk_files(run):
        stat = entry.stat(follow_symlinks=False)
        line = f"{name}\0{stat.st_ino} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}\n"
        found.update(line.encode("utf-8", "surrogateescape"))
    return found.hexdigest()


def _described(cases: Path) -> str:
    """The texts of all cases and suites, and which files stand beside them."""
    found = hashlib.sha256()
    depths = ("/".join("*" * deep) for deep in range(1, _DEEP + 2))
    for path in sorted(path for depth in depths for path in cases.glob(depth) if path.name != "__pycache__"):
        found.update(f"{path.relative_to(cases)}\0".encode("utf-8", "surrogateescape"))
        if path.suffix in _READ and path.is_file():
            found.update(sha256_bytes(path.read_bytes()).encode())
    return found.hexdigest()
