"""git in a folder that a stranger may have written: nothing that its settings name is executed, and time is bounded."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.base.errors import UserError

_HEAD = re.compile(r"^# branch\.oid ([0-9a-f]+)$", re.MULTILINE)
_TIME_S = 60.0
_MAX_BYTES = 64 << 20
_LIST = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate", "--", ".")
_STATUS = ("status", "--porcelain=v2", "--branch", "--no-ahead-behind", "--ignore-submodules=dirty", "--", ".")
# What a repository's own settings could have git execute, switched off where it stands above them.
_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.untrackedCache": "false",
    "core.attributesFile": "/dev/null",
    "core.alternateRefsCommand": "",
    "core.sshCommand": "false",
    "core.askPass": "false",
    "core.pager": "cat",
    "submodule.recurse": "false",
    "status.submoduleSummary": "false",
    # Whose the folder is decides nothing: it is treated as a stranger's in any case.
    "safe.directory": "*",
}
_VARIABLES = {
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # A partial clone fetches what it lacks, with programs that its settings name.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}
_FILTER = re.compile(r"filter\..*\.(clean|smudge|process|required)", re.DOTALL)


@dataclass(frozen=True)
class _Answer:
    """What git said; a status below zero means that it said nothing in time, or too much."""

    status: int
    stdout: bytes
    stderr: str


def kept_names(folder: Path) -> list[str] | None:
    """Paths below `folder` that git tracks, and those that it neither tracks nor ignores.

    A repository inside this one is one name, which ends with a slash, or a folder. None where there is no repository
    or no git; raises `UserError` where git cannot read the repository.
    """
    program = shutil.which("git")
    if program is None or not any(os.path.lexists(place / ".git") for place in (folder, *folder.parents)):
        return None
    answer = _ask(program, folder, _LIST, {"core.excludesFile": _own_excludes(program)})
    if answer.status == 0:
        return sorted({os.fsdecode(name) for name in answer.stdout.split(b"\0") if name})
    if "not a git repository" in answer.stderr:
        return None
    said = (answer.stderr.strip().splitlines() or [f"status {answer.status}"])[-1][:200]
    raise UserError(f"git cannot list its files: {said}", where=folder, remedy="repair its repository, or remove .git")


def commit_of(folder: Path) -> tuple[str, bool]:
    """The git commit that `folder` is at, and whether there are changes beyond it; ("", False) outside git."""
    program = shutil.which("git")
    if program is None:
        return "", False
    # Comparing a file runs the filters that the settings and .gitattributes name.
    names = _ask(program, folder, ("config", "--list", "--name-only", "-z"), {})
    filters = [name for name in os.fsdecode(names.stdout).split("\0") if _FILTER.fullmatch(name)]
    off = {name: "false" if name.endswith(".required") else "" for name in filters}
    answer = _ask(program, folder, _STATUS, off)
    text = answer.stdout.decode("utf-8", "replace") if answer.status == 0 else ""
    head = _HEAD.search(text)
    changes = [line for line in text.splitlines() if not line.startswith("# ")]
    return (head[1], bool(changes)) if head else ("", False)


def _own_excludes(program: str) -> str:
    """The file of what the user of this machine has git ignore everywhere."""
    command = [program, "config", "--global", "--path", "--get", "core.excludesFile"]
    try:
        done = subprocess.run(
            command, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIME_S, check=False
        )
        named = os.fsdecode(done.stdout.removesuffix(b"\n")) if done.returncode == 0 else ""
    except (OSError, subprocess.TimeoutExpired):
        named = ""
    return named or f"{os.environ.get('XDG_CONFIG_HOME') or Path.home() / '.config'}/git/ignore"


def _ask(program: str, folder: Path, arguments: Sequence[str], settings: Mapping[str, str]) -> _Answer:
    everything = {**_SETTINGS, **settings}
    env = {**_VARIABLES, "PATH": os.environ.get("PATH", os.defpath), "GIT_CONFIG_COUNT": str(len(everything))}
    for number, (name, value) in enumerate(everything.items()):
        # As variables, since a name may hold any character, also the one that ends it on the command line.
        env |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    command = [program, "--no-pager", "-C", str(folder), *arguments]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            status = subprocess.run(
                command,
                cwd="/",
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                timeout=_TIME_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return _Answer(-1, b"", f"no answer within {_TIME_S:g} s")
        except (OSError, ValueError) as error:
            return _Answer(-1, b"", str(error))
        if os.fstat(out.fileno()).st_size > _MAX_BYTES:
            return _Answer(-1, b"", "too many files")
        return _Answer(
            status, os.pread(out.fileno(), _MAX_BYTES, 0), os.pread(err.fileno(), 4096, 0).decode("utf-8", "replace")
        )
