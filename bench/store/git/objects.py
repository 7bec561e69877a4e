"""git's objects by their own format, so that a commit needs a handful of processes and not one for every tree.

https://git-scm.com/docs/gitformat-pack and the chapter "Git Objects" of Pro Git describe what is read and written here.
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.store.git import Entry, Git, GitError

_KINDS = {"40000": "tree", "160000": "commit"}
_INDEX_MAGIC = b"\xfftOc\x00\x00\x00\x02"
_FANOUT = 8 + 256 * 4


class ObjectReader:
    """Objects of one repository through a single process, which also sees what arrives later."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, sha: str, kind: str) -> bytes:
        """The content of an object; raises `GitError` unless it is there and of that kind."""
        if self._process is None:
            self._process = self._git.begin("cat-file", "--batch")
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(f"{sha}\n".encode())
            stdin.flush()
        except BrokenPipeError:
            raise GitError("cat-file", "ended early") from None
        header = stdout.readline().split()
        # For an object that is not there, git answers `<id> missing`.
        if len(header) != 3:
            raise GitError("cat-file", f"{kind} {sha} is missing: the repository is damaged or incomplete")
        size = int(header[2])
        # A line break follows the content.
        content = stdout.read(size + 1)
        if len(content) != size + 1 or header[1] != kind.encode():
            raise GitError("cat-file", f"{sha} is not a whole {kind}: the repository is damaged")
        return content[:-1]

    def close(self) -> None:
        if self._process is not None:
            # It only reads, so that killing it loses nothing.
            self._process.kill()
            with contextlib.suppress(BrokenPipeError):
                self._process.__exit__(None, None, None)
            self._process = None


def object_id(kind: str, content: bytes, format_: str) -> str:
    """The id of an object in a repository of object format `format_` (sha1 or sha256)."""
    header = f"{kind} {len(content)}\0".encode()
    return hashlib.new(format_, header + content, usedforsecurity=False).hexdigest()


def parse_tree(content: bytes, format_: str) -> dict[str, Entry]:
    """A tree's direct entries by name; raises `GitError`."""
    width = hashlib.new(format_, usedforsecurity=False).digest_size
    entries: dict[str, Entry] = {}
    at = 0
    while at < len(content):
        end = content.find(b"\0", at)
        mode, _, name = content[at:end].partition(b" ")
        sha = content[end + 1 : end + 1 + width]
        if end < 0 or len(sha) != width:
            raise GitError("cat-file", "a tree is damaged")
        text = mode.decode("ascii", "replace")
        entries[name.decode("utf-8", "surrogateescape")] = Entry(text, _KINDS.get(text, "blob"), sha.hex())
        at = end + 1 + width
    return entries


def render_tree(entries: Mapping[str, Entry]) -> bytes:
    """A tree of these entries, in the order that git wants: folders as if their names ended in a slash."""
    rows = []
    for name, entry in entries.items():
        raw = name.encode("utf-8", "surrogateescape")
        # git writes the mode of a folder without the leading zero that GitHub's API adds.
        row = f"{entry.mode.lstrip('0')} ".encode() + raw + b"\0" + bytes.fromhex(entry.sha)
        rows.append((raw + (b"/" if entry.kind == "tree" else b""), row))
    return b"".join(row for _, row in sorted(rows))


def packed_ids(index: Path) -> Iterator[str]:
    """The ids in a pack's index of version 2 (of SHA-1); none for an index that is anything else."""
    content = index.read_bytes()
    if content[:8] != _INDEX_MAGIC:
        return
    count = int.from_bytes(content[_FANOUT - 4 : _FANOUT], "big")
    for number in range(count):
        yield content[_FANOUT + 20 * number : _FANOUT + 20 * (number + 1)].hex()
