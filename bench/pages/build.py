"""Building the site: all pages and data files, written beside the old site, which they replace as one.

A page whose facts and sources are those of the last build is taken from it.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from bench.base.errors import UserError
from bench.base.files import digest_folder
from bench.base.times import Progress
from bench.formats.record import Record
from bench.pages.beside import can_be_made_beside, made_beside, pays
from bench.pages.board import MOST_PAGES, Board, BuiltFrom, CaseInfo, make_board, suite_of
from bench.pages.data import about, compare_files, data_files
from bench.pages.drawing import ChartCache
from bench.pages.feeds import SITEMAP, badge_files, feed_files, sitemap
from bench.pages.made import MARKER, LastBuild, MadeFile, file_digest, marker_of
from bench.pages.matrix import pairs_of
from bench.pages.news import news_of
from bench.pages.program import program_digest
from bench.pages.render import Renderer
from bench.pages.sheets import CellSheet, Published, Sheets, SiteFacts
from bench.pages.social import social_images
from bench.pages.traces import MOST_BYTES, Kept, TraceSource, TraceState, wanted_traces
from bench.stats import RecordResults, Results, Suite
from bench.store import Decision

TITLE = "ML development benchmark"
_TELL = 500


@dataclass(frozen=True)
class Written:
    """What a build did."""

    files: Sequence[Path]
    made: int
    """Pages and pictures."""
    kept: int
    """Those of the last build that are still right."""
    faults: int
    """Traces that could not be read: another build may find them."""


@dataclass(frozen=True)
class SiteOptions:
    """What a site says beside its results."""

    title: str = TITLE
    suite: str = ""
    suite_about: str = ""
    base: str = ""
    """The address at which it is served: feeds and the map of the site need it."""
    built_from: BuiltFrom | None = None
    decisions: Sequence[Decision] = field(default=(), repr=False)
    """The ledger of the branch, the oldest first."""
    traces: TraceSource | None = field(default=None, repr=False)
    trace_bytes: int = MOST_BYTES
    """Of all traces that are published."""
    most_pages: int = MOST_PAGES
    """Of cells, about."""
    charts: Path | None = None
    """A folder that keeps drawn charts from one build to the next."""
    example: str = ""
    """Of a board of made-up results: what every page says about it."""


def build_site(
    records: Iterable[Record], cases: Sequence[CaseInfo], out: Path, site: Path, title: str = TITLE
) -> list[Path]:
    """The site of these records; see `write_site`."""
    return list(write_site(partial(RecordResults, records), cases, out, site, SiteOptions(title)).files)


def write_site(
    results_of: Callable[[Suite], Results],
    cases: Sequence[CaseInfo],
    out: Path,
    site: Path,
    options: SiteOptions = SiteOptions(),
    progress: Progress = lambda line: None,
) -> Written:
    """Write the whole site to `out`, from the sources in `site`.

    results_of: the results, measured against a suite. A reader sees the old site or the new one, never a part of one.
    The same results give the same bytes.
    """
    _check_replaceable(out)
    for case in cases:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", case.id):
            raise UserError(f"`{case.id}` cannot name a page", remedy="use 1 to 64 of a-z, 0-9, _ and -")
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".new", dir=out.parent))
    try:
        build = _Build(fresh, out, _sources(site), progress)
        with _rare_collections():
            progress("asking for the results")
            build.write(results_of(suite_of(cases)), cases, options, site)
        # A temporary folder is its owner's alone; the web server may be another user.
        fresh.chmod(0o755)
        _swap(fresh, out)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return Written(sorted(out / path for path in (*build.files, MARKER)), build.made, build.kept, build.faults)


class _Build:
    """One build into a fresh folder, beside that of the last one."""

    def __init__(self, fresh: Path, out: Path, sources: str, progress: Progress) -> None:
        self._fresh, self._out, self._sources, self._progress = fresh, out, sources, progress
        self._before = LastBuild(out, sources)
        self._folders: set[Path] = set()
        self.files: dict[str, MadeFile] = {}
        self.made = self.kept = self.faults = 0

    def write(self, results: Results, cases: Sequence[CaseInfo], options: SiteOptions, site: Path) -> None:
        board = make_board(results, cases, options.title, options.built_from, options.most_pages)
        said = (options.title, options.suite, options.suite_about, options.base)
        facts = SiteFacts(*said, _published(site), options.decisions, options.example)
        charts = ChartCache(options.charts)
        sheets = Sheets(facts, board, results, Renderer(site, self._sources), charts)
        traces = self._traces(sheets, board, options)
        with self._cells(list(sheets.cells(traces)), facts, site) as finish:
            self._write_rest(sheets, board, options, site)
            finish()
        if options.base:
            for image in social_images(board, options.title, options.suite, made_up=bool(options.example)):
                self._page(image.address, image.facts, image.make)
            shown = sorted(address for address, it in self.files.items() if it.key and address.endswith(".html"))
            self._put(SITEMAP, sitemap(dict.fromkeys(shown, board.updated[:10]), options.base))
        charts.forget_old()
        self._create(MARKER, marker_of(self._sources, self.files))

    def _write_rest(self, sheets: Sheets, board: Board, options: SiteOptions, site: Path) -> None:
        """All but the pages of cells, and what is of all pages."""
        for source in sorted((site / "static").iterdir()):
            self._put(f"static/{source.name}", source.read_bytes())
        self._progress("comparing every two agents")
        pairs = {section.profile: pairs_of(section) for section in board.sections}
        sizes = [(path, self._put(path, content)) for path, content in data_files(board)]
        sizes += [(path, self._put(path, content)) for path, content in compare_files(board, pairs)]
        for keyed in sheets.cell_files.every():
            self._page(keyed.file.address, keyed.facts, keyed.make)
        news = [news_of(trend) for trend in sheets.details.trends.values()]
        for path, content in (*feed_files(options.title, news, options.base), *badge_files(board, options.suite)):
            self._put(path, content)
        for sheet in sheets.every(pairs, about(sizes)):
            self._page(sheet.address, sheet.facts, sheet.make)

    @contextmanager
    def _cells(self, cells: Sequence[CellSheet], facts: SiteFacts, site: Path) -> Iterator[Callable[[], None]]:
        """Where many are new, a process makes their pages during the block; they are there when the call returns."""
        keys = {cell.sheet.address: _key(cell.sheet.facts) for cell in cells}
        new = [cell for cell in cells if not self._keep(cell.sheet.address, keys[cell.sheet.address])]
        others = [cell for cell in new if can_be_made_beside(cell)]
        if not pays(others):
            for cell in new:
                self._make(cell.sheet.address, keys[cell.sheet.address], cell.sheet.make)
            yield lambda: None
            return
        for cell in others:
            self._place(cell.sheet.address)
        with made_beside(self._fresh, site, self._sources, facts, others) as made:

            def finish() -> None:
                for cell in new:
                    if not can_be_made_beside(cell):
                        self._make(cell.sheet.address, keys[cell.sheet.address], cell.sheet.make)
                for address, digest in made().items():
                    self.files[address] = MadeFile(digest, keys[address])
                    self._count()

            yield finish

    def _traces(self, sheets: Sheets, board: Board, options: SiteOptions) -> dict[str, tuple[TraceState, Kept | None]]:
        """Write the files of traces until their budget is used up; what the page of each cell says of its trace."""
        found: dict[str, tuple[TraceState, Kept | None]] = {}
        room = options.trace_bytes
        for entry, kept in wanted_traces(board.entries, options.traces):
            state = TraceState(digest=kept.digest, size=kept.size, address=kept.address)
            if room > 0:
                sheet = sheets.trace(entry, kept)
                try:
                    self._page(sheet.address, sheet.facts, sheet.make)
                except UserError as error:
                    state = replace(state, fault=str(error))
                    self.faults += 1
                else:
                    room -= (self._fresh / sheet.address).stat().st_size
                    state = replace(state, page=sheet.address)
            found[entry.address] = state, kept
        return found

    def _page(self, address: str, facts: str, make: Callable[[], bytes]) -> None:
        key = _key(facts)
        if not self._keep(address, key):
            self._make(address, key, make)

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
        self._put(address, make(), key)
        self._count()

    def _count(self) -> None:
        self.made += 1
        if (self.made + self.kept) % _TELL == 0:
            self._progress(f"{self.made + self.kept:,} pages, {self.kept:,} of them unchanged")

    def _put(self, path: str, content: bytes, key: str = "") -> int:
        self._create(path, content)
        self.files[path] = MadeFile(file_digest(content), key)
        return len(content)

    def _create(self, path: str, content: bytes) -> None:
        with self._place(path).open("xb") as file:  # "x": a second file at one address is a fault of this program
            file.write(content)

    def _place(self, path: str) -> Path:
        target = self._fresh / path
        if target.parent not in self._folders:
            target.parent.mkdir(parents=True, exist_ok=True)
            self._folders.add(target.parent)
        return target


def _key(facts: str) -> str:
    return hashlib.sha256(facts.encode("utf-8", "surrogatepass")).hexdigest()[:24]


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Of garbage: a million small objects live as long as the build, and would be looked through again and again."""
    before = gc.get_threshold()
    gc.set_threshold(200_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _sources(site: Path) -> str:
    """The digest of what pages are made by: the site's own sources and the program."""
    return hashlib.sha256(f"{digest_folder(site)} {program_digest()}".encode()).hexdigest()


def _published(site: Path) -> Published:
    path = site / "published.json"
    return Published(**json.loads(path.read_bytes())) if path.is_file() else Published()


def _check_replaceable(out: Path) -> None:
    if not os.path.lexists(out):
        return
    if not out.is_dir() or out.is_symlink() or (any(out.iterdir()) and not (out / MARKER).is_file()):
        raise UserError("exists and was not made by site build", where=out, remedy="name a new or empty folder")


def _swap(fresh: Path, out: Path) -> None:
    """Two renames; should the second fail, the old site comes back."""
    if not out.exists():
        fresh.rename(out)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".old", dir=out.parent))
    out.rename(old / "site")
    try:
        fresh.rename(out)
    except OSError:
        (old / "site").rename(out)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)
