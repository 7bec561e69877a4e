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
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path

from bench.base.errors import UserError
from bench.base.files import digest_folder
from bench.base.times import Progress
from bench.formats.record import Record
from bench.pages.board import MOST_PAGES, Board, BuiltFrom, CaseInfo, make_board, suite_of
from bench.pages.data import about, compare_files, data_files
from bench.pages.drawing import ChartCache
from bench.pages.engine import Engine, engine_beside
from bench.pages.feeds import SITEMAP, badge_files, feed_files, sitemap
from bench.pages.fresh import FreshSite
from bench.pages.made import MARKER
from bench.pages.matrix import pairs_of
from bench.pages.news import news_of, trends_of
from bench.pages.program import program_digest
from bench.pages.render import Renderer
from bench.pages.sheets import NOT_FOUND, Published, Sheets, SiteFacts
from bench.pages.social import social_images
from bench.pages.traces import MOST_BYTES, Kept, TraceSource, TraceState, wanted_traces
from bench.stats import RecordResults, Results, Suite
from bench.store import Decision

TITLE = "ML development benchmark"


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
        written = FreshSite(fresh, out, _sources(site), progress)
        build = _Build(written, site, progress)
        with _rare_collections():
            progress("asking for the results")
            build.write(results_of(suite_of(cases)), cases, options)
        # A temporary folder is its owner's alone; the web server may be another user.
        fresh.chmod(0o755)
        _swap(fresh, out)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    files = sorted(out / path for path in (*written.files, MARKER))
    return Written(files, written.made, written.kept, build.faults)


class _Build:
    """One build into a folder that takes the place of the last one."""

    def __init__(self, fresh: FreshSite, site: Path, progress: Progress) -> None:
        self._fresh, self._site, self._progress = fresh, site, progress
        self.faults = 0

    def write(self, results: Results, cases: Sequence[CaseInfo], options: SiteOptions) -> None:
        fresh = self._fresh
        with ThreadPoolExecutor(1) as beside:
            # The index and NumPy both work without Python's lock.
            trends = beside.submit(trends_of, results, {case.id for case in cases})
            board = make_board(results, cases, options.title, options.built_from, options.most_pages)
        said = (options.title, options.suite, options.suite_about, options.base)
        facts = SiteFacts(*said, _published(self._site), options.decisions, options.example)
        charts = ChartCache(options.charts)
        sheets = Sheets(facts, board, results, trends.result(), Renderer(self._site, fresh.sources), charts)
        traces = self._traces(sheets, board, options)
        with ExitStack() as stack:
            finish = stack.enter_context(fresh.cells(list(sheets.cells(traces)), facts, self._site))
            if fresh.is_large:
                charts.engine = stack.enter_context(engine_beside())
            self._write_rest(sheets, board, options, charts.engine)
            finish()
        if options.base:
            shown = [address for address, it in fresh.files.items() if it.key and address.endswith(".html")]
            days = dict.fromkeys((it for it in shown if it != NOT_FOUND), board.updated[:10])
            fresh.put(SITEMAP, sitemap(days, options.base))
        charts.forget_old()
        fresh.finish()

    def _write_rest(self, sheets: Sheets, board: Board, options: SiteOptions, engine: Engine) -> None:
        """All but the pages of cells, and what is of all pages."""
        fresh = self._fresh
        for source in sorted((self._site / "static").iterdir()):
            fresh.put(f"static/{source.name}", source.read_bytes())
        with ThreadPoolExecutor(1) as beside:
            compared = beside.submit(lambda: {it.profile: pairs_of(it) for it in board.sections})
            files = sheets.files()
            self._progress("comparing every two agents")
            pairs = compared.result()
        sizes = [(path, fresh.put(path, content)) for path, content in data_files(board)]
        sizes += [(path, fresh.put(path, content)) for path, content in compare_files(board, pairs)]
        news = [news_of(trend) for trend in sheets.details.trends.values()]
        for path, content in (*feed_files(options.title, news, options.base), *badge_files(board, options.suite)):
            fresh.put(path, content)
        made_up = bool(options.example)
        pictures = social_images(board, options.title, options.suite, engine, made_up=made_up) if options.base else ()
        # In turns: what draws, what renders and what asks the index are then busy beside each other.
        streams = sheets.every(pairs, about(sizes)), pictures, files
        fresh.pages(it for several in zip_longest(*streams) for it in several if it)

    def _traces(self, sheets: Sheets, board: Board, options: SiteOptions) -> dict[str, tuple[TraceState, Kept | None]]:
        """Write the files of traces until their budget is used up; what the page of each cell says of its trace."""
        found: dict[str, tuple[TraceState, Kept | None]] = {}
        room = options.trace_bytes
        for entry, kept in wanted_traces(board.entries, options.traces):
            state = TraceState(digest=kept.digest, size=kept.size, address=kept.address)
            if room > 0:
                sheet = sheets.trace(entry, kept)
                try:
                    self._fresh.page(sheet.address, sheet.facts, sheet.make)
                except UserError as error:
                    state = replace(state, fault=str(error))
                    self.faults += 1
                else:
                    room -= self._fresh.size(sheet.address)
                    state = replace(state, page=sheet.address)
            found[entry.address] = state, kept
        return found


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
