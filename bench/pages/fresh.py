"""A site that is written: each file once, and each page that is still right taken from the last build."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from bench.base.times import Progress
from bench.pages.beside import can_be_made_beside, made_beside, pays
from bench.pages.made import MARKER, LastBuild, MadeFile, file_digest, marker_of
from bench.pages.sheet import Sheet
from bench.pages.sheets import CellSheet, SiteFacts

_TELL = 500
_AT_ONCE = 4
"""Pages with charts."""
_WAITING = 40
"""Pages that are made or wait for their turn to be written."""


class FreshSite:
    """The folder of a build, beside that of the last one."""

    def __init__(self, folder: Path, out: Path, sources: str, progress: Progress) -> None:
        self._folder, self._out, self._progress = folder, out, progress
        self.sources = sources
        """The digest of what pages are made by."""
        self._before = LastBuild(out, sources)
        self._folders: set[Path] = set()
        self.files: dict[str, MadeFile] = {}
        self.made = self.kept = 0
        self.is_large = False
        """Are so many pages new that a process beside this one pays? Known once `cells` has begun."""

    def finish(self) -> None:
        self._create(MARKER, marker_of(self.sources, self.files))

    def size(self, address: str) -> int:
        """Bytes of what was written there."""
        return (self._folder / address).stat().st_size

    @contextmanager
    def cells(self, cells: Sequence[CellSheet], facts: SiteFacts, site: Path) -> Iterator[Callable[[], None]]:
        """Where many are new, a process makes their pages during the block; they are there when the call returns."""
        keys = {cell.sheet.address: _key(cell.sheet.facts) for cell in cells}
        new = [cell for cell in cells if not self._keep(cell.sheet.address, keys[cell.sheet.address])]
        others = [cell for cell in new if can_be_made_beside(cell)]
        self.is_large = pays(others)
        if not self.is_large:
            for cell in new:
                self._make(cell.sheet.address, keys[cell.sheet.address], cell.sheet.make)
            yield lambda: None
            return
        for cell in others:
            self._place(cell.sheet.address)
        with made_beside(self._folder, site, self.sources, facts, others) as made:

            def finish() -> None:
                for cell in new:
                    if not can_be_made_beside(cell):
                        self._make(cell.sheet.address, keys[cell.sheet.address], cell.sheet.make)
                for address, digest in made().items():
                    self.files[address] = MadeFile(digest, keys[address])
                    self._count()

            yield finish

    def page(self, address: str, facts: str, make: Callable[[], bytes]) -> None:
        key = _key(facts)
        if not self._keep(address, key):
            self._make(address, key, make)

    def pages(self, sheets: Iterable[Sheet]) -> None:
        """Several at a time: while Vega draws a chart of one, another is rendered. They are written in their order."""
        waiting: deque[tuple[str, str, Future[bytes]]] = deque()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for sheet in sheets:
                key = _key(sheet.facts)
                if not self._keep(sheet.address, key):
                    waiting.append((sheet.address, key, pool.submit(sheet.make)))
                if len(waiting) > _WAITING:
                    self._make_first(waiting)
            while waiting:
                self._make_first(waiting)

    def _make_first(self, waiting: deque[tuple[str, str, Future[bytes]]]) -> None:
        address, key, content = waiting.popleft()
        self._make(address, key, content.result)

    def _keep(self, address: str, key: str) -> bool:
        """Take the page from the last build, where it was made from the same facts."""
        if (before := self._before.kept(address, key)) is None:
            return False
        try:
            os.link(self._out / address, self._place(address))
        except OSError:
            return False
        self.files[address] = before
        self.kept += 1
        return True

    def _make(self, address: str, key: str, make: Callable[[], bytes]) -> None:
        self.put(address, make(), key)
        self._count()

    def _count(self) -> None:
        self.made += 1
        if (self.made + self.kept) % _TELL == 0:
            self._progress(f"{self.made + self.kept:,} pages, {self.kept:,} of them unchanged")

    def put(self, path: str, content: bytes, key: str = "") -> int:
        self._create(path, content)
        self.files[path] = MadeFile(file_digest(content), key)
        return len(content)

    def _create(self, path: str, content: bytes) -> None:
        with self._place(path).open("xb") as file:  # "x": a second file at one address is a fault of this program
            file.write(content)

    def _place(self, path: str) -> Path:
        target = self._folder / path
        if target.parent not in self._folders:
            target.parent.mkdir(parents=True, exist_ok=True)
            self._folders.add(target.parent)
        return target


def _key(facts: str) -> str:
    return hashlib.sha256(facts.encode("utf-8", "surrogatepass")).hexdigest()[:24]
