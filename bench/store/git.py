"""git's plumbing as a subprocess that no hook, configuration or variable of the surroundings can bend."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.errors import UserError

AUTHOR_NAME = "ml-dev-bench"
AUTHOR_EMAIL = "results@ml-dev-bench.invalid"

_SECONDS = 300
_TRANSPORT = ("GIT_SSH", "GIT_ASKPASS", "GIT_SSL_", "GIT_PROXY", "GIT_HTTP", "GIT_CONFIG_", "GIT_TRACE")
"""What a transfer may inherit: how to reach and to convince the other side."""
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsync": "committed",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "i18n.commitEncoding": "UTF-8",
    "advice.detachedHead": "false",
    "push.followTags": "false",
    "push.gpgSign": "false",
    "push.recurseSubmodules": "no",
}


class GitError(Exception):
    """A git command that did not end well."""

    def __init__(self, command: str, message: str) -> None:
        super().__init__(f"git {command}: {message}")
        self.message = message


@dataclass(frozen=True)
class Entry:
    """One line of a tree."""

    mode: str
    kind: str
    sha: str


@dataclass(frozen=True)
class Git:
    """One repository, addressed by its git folder.

    `transfers` keeps the user's own configuration (credentials, proxies), which a remote may need; without it only
    the repository itself is looked at.
    """

    folder: Path
    transfers: bool = False

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Standard output of a command; raises `GitError` when it fails."""
        return _run(self._command(*arguments), stdin, transfers=self.transfers)

    def text(self, *arguments: str, stdin: bytes = b"") -> str:
        return self.run(*arguments, stdin=stdin).decode("utf-8", "replace").strip()

    def commit_of(self, revision: str) -> str | None:
        """The commit that `revision` names, None when it names nothing."""
        try:
            return self.text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except GitError:
            return None

    def store(self, content: bytes) -> str:
        """Write a blob; its object id."""
        return self.text("hash-object", "-w", "-t", "blob", "--stdin", stdin=content)

    def list_tree(self, tree: str) -> dict[str, Entry]:
        """The direct entries of a tree by name."""
        return _entries(self.run("ls-tree", "-z", "--full-tree", tree))

    def list_files(self, commit: str, folder: str) -> dict[str, Entry]:
        """All files below `folder` by full path, in git's order."""
        return _entries(self.run("ls-tree", "-r", "-z", "--full-tree", commit, "--", f"{folder}/"))

    def make_tree(self, entries: dict[str, Entry]) -> str:
        """Write a tree. Blobs may be absent: a partial clone does not have the old ones."""
        lines = (f"{entry.mode} {entry.kind} {entry.sha}\t{name}\0" for name, entry in entries.items())
        return self.text("mktree", "-z", "--missing", stdin="".join(lines).encode())

    def make_commit(self, tree: str, parent: str | None, message: str) -> str:
        parents = ["-p", parent] if parent else []
        return self.text("commit-tree", tree, *parents, stdin=message.encode())

    def read_one(self, sha: str) -> bytes:
        """The content of a blob."""
        return self.run("cat-file", "blob", sha)

    def read(self, shas: Iterable[str]) -> Iterator[bytes]:
        """The content of each blob, one at a time, through a single process."""
        command = self._command("cat-file", "--batch")
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment(self.transfers)
        ) as process:
            try:
                for sha in shas:
                    yield _ask(process, sha)
            finally:
                process.kill()

    def _command(self, *arguments: str) -> list[str]:
        options = [part for key, value in _SETTINGS.items() for part in ("-c", f"{key}={value}")]
        return ["git", f"--git-dir={self.folder}", *options, *arguments]


def init_bare(folder: Path, branch: str) -> None:
    """A new bare repository whose HEAD is `branch`, without hooks of a template."""
    command = ["git", "init", "--quiet", "--bare", "--template=", f"--initial-branch={branch}", "--", str(folder)]
    _run(command, transfers=False)


def find_git_folder(folder: Path) -> Path | None:
    """The git folder (shared by all work trees) of the repository whose root is `folder`, None when it is not one."""
    root = folder.resolve()
    if not root.is_dir():
        return None
    for candidate in (root / ".git", root):
        try:
            command = ["git", f"--git-dir={candidate}", "rev-parse", "--git-common-dir"]
            answer = _run(command, transfers=False, folder=root)
        except GitError:
            continue
        return (root / os.fsdecode(answer.rstrip(b"\n"))).resolve()
    return None


def is_branch_name(name: str) -> bool:
    try:
        _run(["git", "check-ref-format", f"refs/heads/{name}"], transfers=False)
    except GitError:
        return False
    return not name.startswith("-")


def _run(command: list[str], stdin: bytes = b"", *, transfers: bool, folder: Path | None = None) -> bytes:
    try:
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            check=False,
            timeout=_SECONDS,
            env=_environment(transfers),
            cwd=folder,
        )
    except FileNotFoundError:
        raise UserError("git is not installed", remedy="install git 2.38 or newer") from None
    except subprocess.TimeoutExpired:
        raise GitError(_verb(command), f"timed out after {_SECONDS} s") from None
    if done.returncode:
        raise GitError(_verb(command), " ".join(done.stderr.decode("utf-8", "replace").split()) or "failed")
    return done.stdout


def _verb(command: list[str]) -> str:
    plain = [part for part in command[1:] if not part.startswith("-") and "=" not in part]
    return plain[0] if plain else "git"


def _environment(transfers: bool) -> dict[str, str]:
    inherited = _TRANSPORT if transfers else ()
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name.startswith(inherited)
    }
    fixed = {
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_AUTHOR_NAME": AUTHOR_NAME,
        "GIT_AUTHOR_EMAIL": AUTHOR_EMAIL,
        "GIT_COMMITTER_NAME": AUTHOR_NAME,
        "GIT_COMMITTER_EMAIL": AUTHOR_EMAIL,
    }
    isolation = {} if transfers else {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    return {**kept, **fixed, **isolation}


def _entries(listing: bytes) -> dict[str, Entry]:
    entries = {}
    for line in listing.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        facts, name = line.split("\t", 1)
        entries[name] = Entry(*facts.split())
    return entries


def _ask(process: subprocess.Popen[bytes], sha: str) -> bytes:
    if process.stdin is None or process.stdout is None:
        raise GitError("cat-file", "has no pipes")
    try:
        process.stdin.write(f"{sha}\n".encode())
        process.stdin.flush()
    except BrokenPipeError:
        raise GitError("cat-file", "ended early") from None
    header = process.stdout.readline().split()
    if len(header) != 3 or header[1] != b"blob":
        raise GitError("cat-file", f"no blob {sha}: the repository is damaged or incomplete")
    size = int(header[2])
    content = process.stdout.read(size + 1)
    if len(content) != size + 1:
        raise GitError("cat-file", f"blob {sha} was cut short")
    return content[:-1]
