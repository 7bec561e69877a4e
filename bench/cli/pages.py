"""`ml-dev-bench site`."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import UserError
from bench.base.install import find_data_folders
from bench.cli.groups import Group
from bench.cli.options import CASES, PATH, branch

if TYPE_CHECKING:
    from bench.base.install import DataFolders
    from bench.base.times import Progress
    from bench.cli.stored import ResultsOf
    from bench.formats.case import Case
    from bench.pages import CaseInfo, TraceSource, Written
    from bench.store import Decision

_LOOK_S = 1.0
"""Between two looks for a change."""


@click.group(cls=Group)
def site() -> None:
    """Build and serve the leaderboard."""


@site.command()
@click.argument("source", metavar="REPOSITORY|RUN_FOLDER")
@click.option("--out", type=PATH, default=Path("_site"), show_default=True)
@branch("Branch of a repository.")
@click.option("--suite", default="demo", show_default=True, help="Suite whose cases count.")
@click.option(
    "--base-url",
    "base",
    default="",
    help="Address at which it is served: for feeds, the map of the site and pictures of links.",
)
@click.option(
    "--traces-mb",
    type=click.IntRange(0, 500),
    default=20,
    show_default=True,
    help="How much of traces goes into the site, failures first.",
)
@CASES
def build(
    source: str, out: Path, branch: str, suite: str, base: str, traces_mb: int, folders: DataFolders
) -> None:  # fmt: skip
    """Build the site from stored records. Runs nothing.

    A site that was built of the same records, cases and sources by the same program stays as it is.
    """
    built = _build(
        source, out, branch, suite, folders, base=base, trace_bytes=traces_mb * 1_000_000, may_be_new=True
    )  # fmt: skip
    click.echo(f"site: {out / 'index.html'}{'' if built else ' (nothing has changed)'}")


def _build(
    source: str,
    out: Path,
    branch: str,
    suite: str,
    folders: DataFolders,
    *,
    base: str = "",
    trace_bytes: int | None = None,
    may_be_new: bool = False,
) -> bool:
    """Build the site of a source in `out`; False: it is there, as a build would make it."""
    from bench.pages import asked_of, notes_if_unchanged, remember

    options = {"suite": suite, "base": base, "trace_bytes": trace_bytes}
    asked = asked_of(source, branch, folders, options)
    if asked is not None and (notes := notes_if_unchanged(out, asked.digest)) is not None:
        for note in notes:
            click.echo(note, err=True)
        return False
    from bench.cli.console import Ticker
    from bench.cli.stored import stored_results
    from bench.formats.suite import load_suite
    from bench.pages import start_engine

    cases = load_suite(folders.cases, suite).cases
    start_engine()  # while the index is brought up to date
    with stored_results(source, branch, folders=folders, may_be_new=may_be_new) as results, Ticker() as ticker:
        written = _write(
            results, cases, out, folders, suite=suite, base=base, trace_bytes=trace_bytes, progress=ticker
        )  # fmt: skip
    # A trace that could not be read is looked for again by the next build.
    if asked is not None and asked.tip == results.tip and not written.faults:
        remember(out, asked.digest, list(results.notes))
    return True


def _one_thread() -> None:
    """For NumPy, which is imported later: on vectors as short as ours its threads mostly wait for each other."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def write_site(
    results_of: ResultsOf,
    cases: Sequence[str],
    out: Path,
    folders: DataFolders | None = None,
    *,
    suite: str = "",
    base: str = "",
    traces: TraceSource | None = None,
    trace_bytes: int | None = None,
    progress: Progress = lambda line: None,
) -> Path:
    """Build the site of these results into `out`; returns its first page.

    traces: None takes those of the run folder or the branch that the results are of.
    """
    folders = folders or find_data_folders()
    _write(
        results_of, cases, out, folders,
        suite=suite, base=base, traces=traces, trace_bytes=trace_bytes, progress=progress,
    )  # fmt: skip
    return out / "index.html"


def _write(
    results_of: ResultsOf, cases: Sequence[str], out: Path, folders: DataFolders, *, suite: str, base: str,
    traces: TraceSource | None = None, trace_bytes: int | None = None, progress: Progress,
) -> Written:  # fmt: skip
    from bench.cli.stored import StoredResults
    from bench.formats.suite import load_suite
    from bench.pages import MOST_BYTES, BuiltFrom, SiteOptions
    from bench.pages import write_site as write

    _one_thread()
    infos = case_infos(folders, cases)
    built_from = None
    if isinstance(results_of, StoredResults) and results_of.tip:
        built_from = BuiltFrom(results_of.branch, results_of.tip)
    chosen = load_suite(folders.cases, suite).explained() if suite else ""
    with _beside(results_of) as (decisions, found):
        options = SiteOptions(
            suite=suite,
            suite_about=chosen,
            base=base,
            built_from=built_from,
            decisions=decisions,
            traces=traces or found,
            trace_bytes=MOST_BYTES if trace_bytes is None else trace_bytes,
            charts=folders.cache / "charts",
        )
        return write(results_of, infos, out, folders.site, options, progress)


def write_example(out: Path, suite: str = "ml-dev-bench") -> Path:
    """A board of a made-up year on the cases of a suite; its first page."""
    from bench.formats.case import load_cases
    from bench.formats.suite import load_suite
    from bench.pages import ABOUT, TITLE, SiteOptions, example_year
    from bench.pages import write_site as write
    from bench.stats import RecordResults

    _one_thread()
    folders = find_data_folders()
    infos = [_info(case) for case in load_cases(folders.cases, load_suite(folders.cases, suite).cases)]
    infos = [it for it in infos if "mini" in it.profiles]
    options = SiteOptions(title=TITLE, suite="example", charts=folders.cache / "charts", example=ABOUT, most_pages=800)
    write(functools.partial(RecordResults, example_year(infos)), infos, out, folders.site, options)
    return out / "index.html"


@contextmanager
def _beside(results_of: ResultsOf) -> Iterator[tuple[Sequence[Decision], TraceSource | None]]:
    """The ledger of decisions and the traces that lie beside stored results."""
    from bench.cli.stored import StoredResults
    from bench.pages import BranchTraces, FolderTraces
    from bench.store import open_copy, open_trace_reader

    if not isinstance(results_of, StoredResults) or results_of.local is None:
        yield (), None
    elif (local := results_of.local) and not results_of.tip:
        yield (), FolderTraces(lambda run: local)
    else:
        with open_copy(local, results_of.branch) as copy, open_trace_reader(local, results_of.branch) as reader:
            yield copy.decisions(), BranchTraces(reader)


def case_infos(folders: DataFolders, cases: Sequence[str]) -> list[CaseInfo]:
    """The cases with these ids or selectors, as the site describes them."""
    from bench.formats.case import load_cases

    suites = _suites_of_cases(folders.cases)
    return [_info(case, suites.get(case.id, ())) for case in load_cases(folders.cases, list(cases))]


def _suites_of_cases(root: Path) -> dict[str, list[str]]:
    """Ids of the suites that each case is in, where the cases have suites of their own."""
    from bench.formats.case import load_case, select_cases
    from bench.formats.suite import load_suites

    found: dict[str, list[str]] = {}
    load = functools.cache(load_case)
    for suite in load_suites(root) if (root / "suites").is_dir() else ():
        for folder in select_cases(root, suite.cases, load):
            found.setdefault(folder.name, []).append(suite.id)
    return found


def _info(case: Case, suites: Sequence[str] = ()) -> CaseInfo:
    from bench.pages import CaseInfo

    readme = case.part("README.md")
    spec = case.spec
    about = [readme.read_text(encoding="utf-8")] if readme.is_file() else []
    if spec.corrections:
        # The page has no tables in its statements.
        points = [f"- {it.original.strip()}. **Here:** {it.here.strip()}" for it in spec.corrections.points]
        about += ["## Corrections", "\n".join(points), f"**Published figures.** {spec.corrections.figures}"]
    return CaseInfo(
        id=spec.id,
        category=spec.category,
        title=spec.title,
        tags=spec.tags,
        suites=suites,
        source_benchmark=spec.source.benchmark,
        source_id=spec.source.id,
        task=case.task.read_text(encoding="utf-8"),
        profiles=case.profiles,
        milestones=spec.milestones,
        headlines={it: found for it in case.profiles if (found := case.for_profile(it).spec.metric) is not None},
        readme="\n\n".join(about),
    )


@site.command()
@click.argument("folder", type=PATH, default=Path("_site"))
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True)
@click.option("--source", metavar="REPOSITORY|RUN_FOLDER", help="Build FOLDER from it, and again whenever it changes.")
@branch("Branch of --source.")
@click.option("--suite", default="demo", show_default=True, help="Of --source: suite whose cases count.")
def serve(folder: Path, port: int, source: str | None, branch: str, suite: str) -> None:
    """Serve a built site on this machine, and with --source keep it up to date."""
    import http.server

    if source is not None:
        _rebuild(source, folder, branch, suite)
    if not (folder / "index.html").is_file():
        raise UserError("does not hold a built site", where=folder, remedy="run `ml-dev-bench site build` first")
    # Loopback only: a page of results may hold text that an agent wrote.
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise UserError(str(error), where=f"port {port}", remedy="choose another --port") from None
    with server:
        click.echo(f"http://127.0.0.1:{server.server_address[1]}/  (Ctrl-C ends it)")
        if source is None:
            server.serve_forever()
        else:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            _follow(source, folder, branch, suite)


def _follow(source: str, folder: Path, branch: str, suite: str) -> None:
    """Builds whenever the source or the site's sources have changed; a failed build leaves the site as it was."""
    seen = _state(source)
    while True:
        time.sleep(_LOOK_S)
        if (now := _state(source)) != seen:
            seen = now
            try:
                _rebuild(source, folder, branch, suite)
            except UserError as error:
                click.echo(f"error: {error}", err=True)


def _rebuild(source: str, folder: Path, branch: str, suite: str) -> None:
    began = time.monotonic()
    done = "built" if _build(source, folder, branch, suite, find_data_folders()) else "nothing has changed, seen"
    click.echo(f"site: {done} in {time.monotonic() - began:.1f} s", err=True)


def _state(source: str) -> dict[Path, int]:
    """When the files changed that a site is made from. Of a repository behind a URL only the site's own are seen."""
    folder = Path(source)
    parts = [find_data_folders().site, folder / "cells", folder / "refs", folder / ".git" / "refs"]
    files = [path for part in parts if part.is_dir() for path in part.rglob("*")]
    files += [folder / "packed-refs", folder / ".git" / "packed-refs"]
    return {path: path.stat().st_mtime_ns for path in files if path.is_file()}
