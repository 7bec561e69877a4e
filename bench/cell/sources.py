"""The published data of the cells of a run: fetched by digest before the first of them, outside of every sandbox."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.base.errors import UserError
from bench.base.files import lock
from bench.cell.download import download, holds, partial_bytes
from bench.cell.needs import unmet_needs
from bench.cell.origins import BrokenOffError, HttpOrigin, Origin, RefusedError, SharedCache
from bench.cell.unpack import unpack
from bench.formats.case import Case
from bench.formats.case_sources import DataSource
from bench.formats.plan import Cell
from bench.sandbox import GpuRoots

FetchProgress = Callable[[str, int, int], None]
"""Is told of a source: its name, the bytes that are there, and all of them."""
_SPARE_BYTES = 1 << 30
"""Left on the disk, beside what is fetched, for the cells themselves."""


@dataclass(frozen=True)
class Wanted:
    """A source that a case names in a profile."""

    case: str
    name: str
    source: DataSource

    @property
    def label(self) -> str:
        return f"{self.case}/{self.name}"


@dataclass(frozen=True)
class SourceCache:
    """The published data on this machine, and where it comes from."""

    folder: Path
    shared: SharedCache | None = None

    @classmethod
    def below(cls, cache: Path) -> SourceCache:
        """In the installation's cache, with the shared one that the environment names; raises `UserError`."""
        return cls(cache / "sources", SharedCache.of_environment())

    def files(self, source: DataSource) -> Path:
        """Folder of what data.py finds."""
        return self._place(source) / "files"

    def archive(self, source: DataSource) -> Path:
        return self._place(source) / "archive"

    def is_there(self, source: DataSource) -> bool:
        return self.files(source).is_dir() and holds(self.archive(source), source)

    def fetch(self, wanted: Iterable[Wanted], progress: FetchProgress | None = None) -> dict[str, str]:
        """Have all of these sources here; returns where each that was missing came from. Raises `UserError`."""
        found = {}
        for it in _each_once(wanted):
            place, source = self._place(it.source), it.source
            place.mkdir(parents=True, exist_ok=True)
            try:
                came = download(source, place / "archive", self._origins(source), _named(progress, it))
                with lock(place / ".files.lock"):
                    if not self.files(source).is_dir():
                        unpack(source, place / "archive", self.files(source))
            except OSError as error:
                raise UserError(f"{it.label}: {error}", where=place, remedy="free disk space, or look at it") from None
            except UserError as error:
                raise UserError(str(error), where=f"data of {it.label}") from None
            if came:
                found[it.label] = came
        return found

    def require(self, wanted: Iterable[Wanted]) -> Iterator[Callable[[], None]]:
        """Looks, each of which raises `UserError`, at whether what is missing fits on the disk and can be reached."""
        missing = [it for it in _each_once(wanted) if not self.is_there(it.source)]
        if missing:
            yield partial(self._require_space, missing)
        for it in missing:
            yield partial(self._require_origin, it)

    def lay(self, case: Case, profile: str, target: Path) -> None:
        """Fetch what the case needs in this profile where it is missing, and show it in `target`, by name."""
        wanted = sources_of(case, profile)
        self.fetch(wanted)
        target.mkdir(parents=True, exist_ok=True)
        for it in wanted:
            (target / it.name).symlink_to(self.files(it.source).absolute(), target_is_directory=True)

    def _place(self, source: DataSource) -> Path:
        return self.folder / source.sha256[:2] / source.sha256

    def _origins(self, source: DataSource) -> list[Origin]:
        shared: list[Origin] = [self.shared.origin(source.sha256)] if self.shared is not None else []
        return [*shared, HttpOrigin(source.url)]

    def _require_space(self, missing: Sequence[Wanted]) -> None:
        needed = sum(self._needed(it.source) for it in missing)
        existing = next(folder for folder in (self.folder, *self.folder.parents) if folder.exists())
        info = os.statvfs(existing)
        free = info.f_bavail * info.f_frsize
        if needed + _SPARE_BYTES > free:
            names = ", ".join(it.label for it in missing)
            raise UserError(
                f"the data of {names} takes {needed / 1e9:.2f} GB and 1 GB to spare; {free / 1e9:.2f} GB are free",
                where=existing,
                remedy="free disk space, or set ML_DEV_BENCH_CACHE to a folder on a larger disk",
            )

    def _needed(self, source: DataSource) -> int:
        archive = self.archive(source)
        left = 0 if archive.is_file() else max(0, source.bytes - partial_bytes(archive))
        return left + (0 if self.files(source).is_dir() else source.unpacked_bytes)

    def _require_origin(self, wanted: Wanted) -> None:
        if holds(self.archive(wanted.source), wanted.source):
            return
        faults = []
        for origin in self._origins(wanted.source):
            try:
                return origin.look(wanted.source.bytes)
            except (RefusedError, BrokenOffError) as fault:
                faults.append(f"{origin.name}: {fault}")
        remedy = "check address and network, or name a cache that has it in MLDB_DATA_CACHE"
        raise UserError(f"cannot be fetched: {'; '.join(faults)}", where=f"data of {wanted.label}", remedy=remedy)


def sources_of(case: Case, profile: str) -> list[Wanted]:
    """What the case names for a profile."""
    found = next((sources for name, sources in case.spec.sources.items() if name == profile), {})
    return [Wanted(case.id, name, source) for name, source in found.items()]


def wanted_sources(cells: Iterable[Cell], roots: GpuRoots | None = None) -> list[Wanted]:
    """What these cells need, without those that this machine skips."""
    cases = {(cell.case.digest, cell.profile): cell for cell in cells}.values()
    return [
        it
        for cell in cases
        if (sources := sources_of(cell.case, cell.profile)) and not unmet_needs(cell.case.spec.needs, roots)
        for it in sources
    ]


def _each_once(wanted: Iterable[Wanted]) -> list[Wanted]:
    return list({it.source.sha256: it for it in wanted}.values())


def _named(progress: FetchProgress | None, wanted: Wanted) -> Callable[[int], None]:
    def told(done: int) -> None:
        if progress is not None:
            progress(wanted.label, done, wanted.source.bytes)

    return told
