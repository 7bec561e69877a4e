"""`ml-dev-bench site`."""

from __future__ import annotations

import functools
import http.server
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import UserError
from bench.cli.options import PATH, branch

if TYPE_CHECKING:
    from bench.cli.stored import ResultsOf
    from bench.formats.case import Case
    from bench.pages import CaseInfo


@click.group()
def site() -> None:
    """Build and serve the leaderboard."""


@site.command()
@click.argument("source", metavar="REPOSITORY|RUN_FOLDER")
@click.option("--out", type=PATH, default=Path("_site"), show_default=True)
@branch("Branch of a repository.")
@click.option("--suite", default="demo", show_default=True, help="Suite whose cases count.")
def build(source: str, out: Path, branch: str, suite: str) -> None:
    """Build the site from stored records. Runs nothing."""
    from bench.base.install import find_data_folders
    from bench.cli.stored import stored_results
    from bench.formats.suite import load_suite

    cases = load_suite(find_data_folders().cases, suite).cases
    with stored_results(source, branch) as results_of:
        index = write_site(results_of, cases, out)
    click.echo(f"site: {index}")


def write_site(results_of: ResultsOf, cases: Sequence[str], out: Path) -> Path:
    """Build the site of these results into `out`; returns its first page."""
    from bench.base.install import find_data_folders
    from bench.cli.stored import StoredResults
    from bench.formats.case import load_cases
    from bench.pages import BuiltFrom
    from bench.pages import write_site as write

    folders = find_data_folders()
    infos = [_info(case) for case in load_cases(folders.cases, list(cases))]
    built_from = None
    if isinstance(results_of, StoredResults) and results_of.tip:
        built_from = BuiltFrom(results_of.branch, results_of.tip)
    write(results_of, infos, out, folders.site, built_from=built_from)
    return out / "index.html"


def _info(case: Case) -> CaseInfo:
    from bench.pages import CaseInfo

    readme = case.part("README.md")
    spec = case.spec
    return CaseInfo(
        id=spec.id,
        category=spec.category,
        title=spec.title,
        tags=spec.tags,
        source_benchmark=spec.source.benchmark,
        source_id=spec.source.id,
        task=case.task.read_text(encoding="utf-8"),
        profiles=case.profiles,
        milestones=spec.milestones,
        readme=readme.read_text(encoding="utf-8") if readme.is_file() else "",
    )


@site.command()
@click.argument("folder", type=PATH, default=Path("_site"))
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True)
def serve(folder: Path, port: int) -> None:
    """Serve a built site on this machine."""
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
        server.serve_forever()
