"""git's plumbing as a subprocess, isolated from hooks, from the user's configuration and from `GIT_*` variables."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.base.errors import UserError

AUTHOR_NAME = "ml-dev-bench"
# A reserved domain (RFC 2606): this address cannot belong to a person.
AUTHOR_EMAIL = "results@ml-dev-bench.invalid"

_SECONDS = 300
_TRANSPORT = ("GIT_SSH", "GIT_ASKPASS", "GIT_SSL_", "GIT_PROXY", "GIT_HTTP", "GIT_CONFIG_", "GIT_TRACE")
"""Variables that a transfer may inherit: how to reach the server and how to authenticate."""
_SETTINGS = {
    # Hooks of the repository would run foreign code, or refuse a commit.
    "core.hooksPath": os.devnull,
    # What was reported as stored must survive a power cut.
    "core.fsync": "committed",
    # No collection of garbage in the background while objects are written that no reference names yet.
    "gc.auto": "0",
    "maintenance.auto": "false",
    "i18n.commitEncoding": "UTF-8",
    "advice.detachedHead": "false",
    # The user's configuration must not push more than the one branch.
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
    the repository itself is looked at. No command runs past `deadline` (of `time.monotonic`).
    """

    folder: Path
    transfers: bool = False
    deadline: float | None = None

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Standard output of a command; raises `GitError` when it fails."""
        return self._done(arguments, stdin).stdout

    def notes(self, *arguments: str) -> str:
        """Standard error of a command that succeeded."""
        return self._done(arguments, b"").stderr.decode("utf-8", "replace")

    def begin(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A started command, to be used through its pipes."""
        env = _environment(self.transfers)
        return subprocess.Popen(self._command(*arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)

    def _done(self, arguments: Sequence[str], stdin: bytes) -> subprocess.CompletedProcess[bytes]:
        left = _SECONDS if self.deadline is None else min(_SECONDS, max(1.0, self.deadline - time.monotonic()))
        return _run(self._command(*arguments), stdin, transfers=self.transfers, seconds=left)

    def text(self, *arguments: str, stdin: bytes = b"") -> str:
        return self.run(*arguments, stdin=stdin).decode("utf-8", "replace").strip()

    def commit_of(self, revision: str) -> str | None:
        """The commit of `revision`, None when there is none."""
        try:
            return self.text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except GitError:
            return None

    def store(self, kind: str, contents: Sequence[bytes]) -> list[str]:
        """Write objects of one kind through a single process; their ids."""
        with tempfile.TemporaryDirectory(prefix="mldb-objects-") as folder:
            paths = [Path(folder) / str(number) for number in range(len(contents))]
            for path, content in zip(paths, contents, strict=True):
                path.write_bytes(content)
            listing = "".join(f"{path}\n" for path in paths).encode()
            return self.text("hash-object", "-w", "-t", kind, "--no-filters", "--stdin-paths", stdin=listing).split()

    def list_files(self, commit: str, folder: str) -> dict[str, Entry]:
        """All files below `folder` by full path, in git's order."""
        return _entries(self.run("ls-tree", "-r", "-z", "--full-tree", commit, "--", f"{folder}/"))

    def make_commit(self, tree: str, parent: str | None, message: str) -> str:
        parents = ["-p", parent] if parent else []
        return self.text("commit-tree", tree, *parents, stdin=message.encode())

    def _command(self, *arguments: str) -> list[str]:
        # A transfer writes to a scratch repository only, which need not survive a power cut.
        settings = _SETTINGS | ({"core.fsync": "none"} if self.transfers else {})
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
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
    # A work tree, then a bare repository. Left alone, git would search upwards and find an enclosing one.
    for candidate in (root / ".git", root):
        try:
            command = ["git", f"--git-dir={candidate}", "rev-parse", "--git-common-dir"]
            answer = _run(command, transfers=False, folder=root).stdout
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


def _run(
    command: list[str], stdin: bytes = b"", *, transfers: bool, folder: Path | None = None, seconds: float = _SECONDS
) -> subprocess.CompletedProcess[bytes]:
    try:
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            check=False,
            timeout=seconds,
            env=_environment(transfers),
            cwd=folder,
        )
    except FileNotFoundError:
        raise UserError("git is not installed", remedy="install git 2.38 or newer") from None
    except subprocess.TimeoutExpired:
        raise GitError(_verb(command), f"timed out after {seconds:.0f} s") from None
    if done.returncode:
        raise GitError(_verb(command), " ".join(done.stderr.decode("utf-8", "replace").split()) or "failed")
    return done


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
        # Replacement references would show other contents than those that the ids stand for.
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
