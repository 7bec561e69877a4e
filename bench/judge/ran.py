"""Commands run on private copies of the snapshot: the copies, what room they hold, and a finished command."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from bench.base.files import lay_over, shadows, walk_files
from bench.guest.trees import remove_tree
from bench.judge.files import Folder
from bench.judge.hidden_files import Hidden
from bench.judge.subject import SubjectError
from bench.sandbox import disk_mb


class Ran(Folder):
    """A finished command and the folder it left."""

    def __init__(self, root: Path, code: int, stdout: str, stderr: str, command: str, stopped: str) -> None:
        super().__init__(root)
        self.code = code
        self.stdout = stdout
        self.stderr = stderr
        self._command = command
        self._stopped = stopped

    def ok(self) -> Ran:
        """Itself when the command ended with status 0; a failed check otherwise."""
        if self._stopped:
            raise SubjectError(f"`{self._command}` {self._stopped}")
        last = self.stderr.strip()[-300:] or self.stdout.strip()[-300:]
        assert self.code == 0, f"`{self._command}` ended with status {self.code}: {last}"
        return self


class PrivateCopies:
    """The copies of one workspace, each of which a check may still look into when the next one is made."""

    def __init__(self, root: Path, limit_mb: int) -> None:
        self._root = root
        self._limit_mb = limit_mb
        self._made: list[Path] = []

    def make(self) -> Path:
        """A copy, which lives until `close`; a failed check when the snapshot is larger than its limit."""
        size = sum(entry.stat(follow_symlinks=False).st_size for _, entry in walk_files(self._root))
        assert size <= self._limit_mb << 20, f"the workspace is larger than {self._limit_mb} MiB"
        copy = Path(tempfile.mkdtemp(prefix="mldb-run-"))
        self._made.append(copy)
        lay_over(self._root, copy)
        return copy

    @staticmethod
    def empty(copy: Path) -> None:
        """Give its room back."""
        remove_tree(copy)
        copy.mkdir()

    def fill_the_disk(self) -> bool:
        """Whether this answer may be why a disk is full: it and its copies hold over half of what a job may.

        A disk that is full all the same has too little room for a job, which no agent has brought about.
        """
        return disk_mb([self._root, *self._made])[0] > self._limit_mb / 2

    def close(self) -> None:
        for copy in self._made:
            remove_tree(copy)
        self._made.clear()


def place(root: Path, name: str, content: Hidden | bytes | str) -> None:
    """Put a file into `root`, whatever the agent has left in its place, where its folders belong, or to be imported."""
    path = root / name
    for parent in reversed(path.relative_to(root).parents):
        if not (root / parent).is_dir():
            remove_tree(root / parent)
            (root / parent).mkdir()
    for left in (path, *shadows(path)):
        remove_tree(left)
    if isinstance(content, Hidden):
        shutil.copyfile(content.path, path)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
