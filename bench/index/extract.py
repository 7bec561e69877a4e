"""From files of records in git to parts: in this process for a night, in several for a whole branch."""

from __future__ import annotations

import contextlib
import gc
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from bench.base.child import Child, log_tail, python_child, receive_orders
from bench.base.errors import UserError
from bench.index.columns import LINE_BITS, Row, to_batch
from bench.index.line import Line, parse_line
from bench.index.storage import ParquetFile, PartWriter
from bench.store import Git, GitError

_FilesAndRows = Callable[[int, int], None]
"""Is told now and then how many files and rows are done."""
_BATCH = 1024
"""Records that are in memory as objects: few enough for the processor's caches."""
_MAP_LIMITS = ("-c", "core.packedGitWindowSize=8m", "-c", "core.packedGitLimit=128m")
"""git maps packs into memory; of a large one, only so much at a time."""


@dataclass(frozen=True)
class Source:
    """One file of records."""

    number: int
    path: str
    blob: str


@dataclass
class Extracted:
    """What came of files of records."""

    parts: list[ParquetFile] = field(default_factory=list)
    rows: int = 0
    skipped: int = 0
    """Lines that are not records, or belong to another file."""
    where: str = ""
    """The first of them."""

    def skip(self, where: str) -> None:
        self.skipped += 1
        self.where = self.where or where

    def add(self, other: Extracted) -> None:
        self.parts += other.parts
        self.rows += other.rows
        self.skipped += other.skipped
        self.where = self.where or other.where


def extract(git: Git, sources: Sequence[Source], folder: Path, told: _FilesAndRows) -> Extracted:
    """Read files of records and write their rows to new parts in `folder`; raises `UserError`."""
    writer, found = PartWriter(folder), Extracted()
    waiting: list[Row] = []
    for count, (source, content) in enumerate(zip(sources, _contents(git, sources), strict=True), start=1):
        _read(source, content, waiting, found)
        if len(waiting) >= _BATCH:
            writer.add(to_batch(waiting))
            waiting.clear()
            told(count, found.rows)
    if waiting:
        writer.add(to_batch(waiting))
    found.parts = writer.finish()
    told(len(sources), found.rows)
    return found


def _read(source: Source, content: bytes, rows: list[Row], found: Extracted) -> None:
    lines = content.split(b"\n")
    cut_short = lines.pop() != b""
    attempts: dict[tuple[str, str], int | None] = {}
    taken = 0
    for number, text in enumerate(lines, start=1):
        line = parse_line(text)
        attempt = _attempt(source.path, line, attempts) if line is not None else None
        if line is None or attempt is None:
            found.skip(f"{source.path}:{number}")
        else:
            rows.append(Row((source.number << LINE_BITS) + number, source.path, number, attempt, line))
            taken += 1
    found.rows += taken
    if cut_short:
        found.skip(f"{source.path}:{len(lines) + 1}")


def _attempt(path: str, line: Line, known: dict[tuple[str, str], int | None]) -> int | None:
    """The attempt in `<run>-<attempt>-<agent>.jsonl`; None where the name is not that of the record."""
    key = (line.provenance.run, line.agent.id)
    if key not in known:
        name = path.rpartition("/")[2]
        found = re.fullmatch(rf"{re.escape(key[0])}-([0-9]{{1,18}})-{re.escape(key[1])}\.jsonl", name)
        known[key] = int(found[1]) if found else None
    return known[key]


def _contents(git: Git, sources: Sequence[Source]) -> Iterator[bytes]:
    """The content of each file, from one process of git that is asked for all of them at once."""
    process = git.begin(*_MAP_LIMITS, "cat-file", "--batch", "--buffer")
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None and stdout is not None

    def ask() -> None:
        with contextlib.suppress(BrokenPipeError), stdin:
            stdin.writelines(f"{source.blob}\n".encode() for source in sources)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    try:
        for source in sources:
            yield _object(stdout, source)
    finally:
        process.kill()
        asking.join()
        stdout.close()
        process.wait()


def _object(stream: IO[bytes], source: Source) -> bytes:
    header = stream.readline().split()
    content = stream.read(int(header[2]) + 1) if len(header) == 3 else b""
    if len(header) != 3 or header[1] != b"blob" or len(content) != int(header[2]) + 1:
        raise UserError("cannot be read from git", where=source.path, remedy="is the repository whole?")
    return content[:-1]


def extract_in_processes(
    git: Git, sources: Sequence[Source], folder: Path, processes: int, told: _FilesAndRows
) -> Extracted:
    """As `extract`, with the files in even shares. The processes end when this one does."""
    share = -(-len(sources) // processes)
    shares = [sources[start : start + share] for start in range(0, len(sources), share)]
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(python_child("bench.index.extract", _job(git, it, folder))) for it in shares]
        total = Extracted()
        done = [(0, 0)] * len(workers)
        waiting = dict(enumerate(workers))
        while waiting:
            for number, worker in list(waiting.items()):
                said = _listen(worker)
                if isinstance(said, Extracted):
                    total.add(said)
                    del waiting[number]
                else:
                    done[number] = said
                    told(sum(files for files, _ in done), sum(rows for _, rows in done))
    return total


def _job(git: Git, sources: Sequence[Source], folder: Path) -> dict[str, Any]:
    return {"git": str(git.folder), "folder": str(folder), "sources": [asdict(source) for source in sources]}


def _listen(worker: Child) -> tuple[int, int] | Extracted:
    """What the worker says next: files and rows done, or the end."""
    assert worker.popen.stdout is not None
    line = worker.popen.stdout.readline()
    if not line.endswith(b"\n"):
        raise UserError(f"a process of the index ended early {log_tail(worker.log)}".rstrip())
    said = json.loads(line)
    if "fault" in said:
        raise UserError(str(said["fault"]))
    if "parts" in said:
        return Extracted(**{**said, "parts": [ParquetFile(**part) for part in said["parts"]]})
    return said["files"], said["rows"]


def main() -> None:
    """A worker: its job on standard input, lines of JSON on standard output; ends when the runner does."""
    # Nothing here makes cycles, and looking for them among a million new objects costs a third of the time.
    gc.disable()
    job, answers = receive_orders()

    def say(**words: object) -> None:
        answers.write(json.dumps(words).encode() + b"\n")
        answers.flush()

    try:
        sources = [Source(**source) for source in job["sources"]]
        git = Git(Path(job["git"]))
        found = extract(git, sources, Path(job["folder"]), lambda files, rows: say(files=files, rows=rows))
        say(**{**vars(found), "parts": [part.model_dump() for part in found.parts]})
    except (UserError, GitError, OSError) as error:
        say(fault=str(error))
