"""The commit of a release: that of main, with its own actions pinned to that very commit of main.

A commit cannot name itself. So on main our workflows and actions refer to each other as `@v1`; the release commit has
the same content with these references pinned to its parent, and is what `vX.Y.Z` and `v1` are moved to. It is made
from nothing but its parent, so every job that makes it gets the same one.

    python -m scripts.release check 1.2.3     what must be so before
    python -m scripts.release commit 1.2.3    make the commit, check it, print it
    python -m scripts.release record 1.2.3 COMMIT   write caller/release.json for the wheel: `init` pins by it
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OWN = re.compile(
    r"(?P<uses>uses: *ml-dev-bench/action(?:/[\w./-]+)?)@(?P<ref>[^\s#]+)(?P<comment>[ ]*#.*)?$", re.MULTILINE
)
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_PINNED = ("action.yml", ".github/actions", ".github/workflows")
_WHO = {"NAME": "ml-dev-bench release", "EMAIL": "release@ml-dev-bench.invalid"}


class ReleaseError(Exception):
    """Why there can be no release, in one line."""


def pin(text: str, reference: str) -> str:
    """`text` with every reference to our own actions replaced; reference: `COMMIT # vX.Y.Z`."""
    return OWN.sub(lambda match: f"{match['uses']}@{reference}", text)


def references(root: Path, commit: str) -> dict[str, list[str]]:
    """What our own actions are pinned to in each file of `commit` that names one."""
    found = {}
    for path in _paths(root, commit):
        refs = [match["ref"] + (match["comment"] or "") for match in OWN.finditer(_show(root, commit, path))]
        if refs:
            found[path] = refs
    return found


def check(root: Path, version: str) -> None:
    """Raise `ReleaseError` unless HEAD of `root` may become the release `version`."""
    if not _VERSION.fullmatch(version):
        raise ReleaseError(f"{version!r} is not a version such as 1.2.3")
    module = _show(root, "HEAD", "bench/__init__.py")
    if f'__version__ = "{version}"' not in module:
        raise ReleaseError(f"bench/__init__.py does not say {version}")
    if not re.search(rf"^## \[?{re.escape(version)}\b", _show(root, "HEAD", "CHANGELOG.md"), re.MULTILINE):
        raise ReleaseError(f"CHANGELOG.md has no section {version}")
    if _git(root, "tag", "--list", f"v{version}"):
        raise ReleaseError(f"the tag v{version} exists already")
    # As for the jobs of an older release that are started again: v1 would go back for all who follow it.
    if _git(root, "tag", "--list", "v1") and _git(root, "rev-list", "--max-count=1", "v1^", "^HEAD"):
        raise ReleaseError("v1 is the release of a commit that is not below HEAD: release from the tip of main")
    for path, refs in references(root, "HEAD").items():
        if wrong := [ref for ref in refs if ref != "v1"]:
            raise ReleaseError(f"{path} refers to our own action as @{wrong[0]}; on main it is @v1")


def make_commit(root: Path, version: str) -> str:
    """The release commit on top of HEAD, the same one however often it is made."""
    parent = _git(root, "rev-parse", "HEAD")
    date = _git(root, "show", "--no-patch", "--format=%cI", "HEAD")
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": f"{folder}/index"}
        _git(root, "read-tree", "HEAD", **index)
        for path in references(root, "HEAD"):
            pinned = pin(_show(root, "HEAD", path), f"{parent} # v{version}")
            blob = _git(root, "hash-object", "-w", "--stdin", text=pinned)
            mode = _git(root, "ls-tree", "HEAD", "--", path).split()[0]
            _git(root, "update-index", "--cacheinfo", f"{mode},{blob},{path}", **index)
        tree = _git(root, "write-tree", **index)
    who = {f"GIT_{role}_{name}": value for role in ("AUTHOR", "COMMITTER") for name, value in _WHO.items()}
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    commit = _git(root, "commit-tree", tree, "-p", parent, "-m", f"Release {version}", **who, **dates)
    verify(root, version, commit)
    return commit


def verify(root: Path, version: str, commit: str) -> None:
    """Raise `ReleaseError` unless `commit` is its parent with pinned siblings, and nothing else."""
    parent = _git(root, "rev-parse", f"{commit}^")
    wanted = f"{parent} # v{version}"
    for path, refs in references(root, commit).items():
        if wrong := [ref for ref in refs if ref != wanted]:
            raise ReleaseError(f"{path} pins a sibling to {wrong[0]}, and the release is {wanted}")
    for path in _git(root, "diff", "--name-only", parent, commit).splitlines():
        if pin(_show(root, parent, path), wanted) != _show(root, commit, path):
            raise ReleaseError(f"{path} differs from the commit of main by more than its pins")


def record(root: Path, version: str, commit: str) -> Path:
    """Write down which commit the release is, for the wheel alone: a commit cannot hold its own name."""
    verify(root, version, commit)
    path = root / "caller" / "release.json"
    path.write_text(json.dumps({"version": version, "commit": commit}) + "\n", encoding="utf-8")
    return path


def _paths(root: Path, commit: str) -> list[str]:
    names = _git(root, "ls-tree", "-r", "-z", "--name-only", commit, "--", *_PINNED).split("\0")
    return [name for name in names if name.endswith((".yml", ".yaml"))]


def _show(root: Path, commit: str, path: str) -> str:
    command = ["git", "-C", str(root), "show", f"{commit}:{path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{path} is not in {commit}")
    return done.stdout


def _git(root: Path, *arguments: str, text: str | None = None, **variables: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    env = {**os.environ, **variables}
    done = subprocess.run(command, input=text, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"git {arguments[0]}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout.strip("\n")


def main(arguments: list[str]) -> None:
    try:
        match arguments:
            case ["check", version]:
                check(ROOT, version)
            case ["commit", version]:
                check(ROOT, version)
                print(make_commit(ROOT, version))
            case ["record", version, commit]:
                print(record(ROOT, version, commit))
            case _:
                sys.exit(__doc__)
    except ReleaseError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
