"""`ml-dev-bench cases build-data` and `cases fetch`: the data of cases."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import UserError
from bench.cli.options import CASES, PATH, as_json
from bench.cli.options import profile as profile_option
from bench.cli.options import sandbox as sandbox_option
from bench.cli.printing import print_json, print_text

if TYPE_CHECKING:
    from bench.base.install import DataFolders
    from bench.formats.record import Profile


@click.command("build-data")
@click.argument("case_id", metavar="CASE")
@click.option("--seed", required=True, help="In hexadecimal, as seeds.json of `results reveal` gives it.")
@profile_option("Default: the case's first.")
@click.option("--out", type=PATH, required=True, help="A new folder, which gets public/ and hidden/.")
@CASES
def build_data(case_id: str, seed: str, profile: Profile | None, out: Path, folders: DataFolders) -> None:
    """Make the data of a trial again: what the agent found, and what only the judge saw."""
    from bench.cell import build_data as build
    from bench.formats.case import load_one_case

    case = load_one_case(folders.cases, case_id)
    if not case.part("data.py").is_file():
        raise UserError("makes no data", where=f"case {case.id}", remedy="all of it lies in workspace/ and hidden/")
    if not re.fullmatch(r"[0-9a-f]{1,32}", seed):
        raise UserError(f"{seed!r} is not a seed", where="--seed", remedy="give up to 32 hexadecimal digits")
    if out.exists():
        raise UserError("exists already", where=out, remedy="name a folder that does not exist")
    public, hidden = out / "public", out / "hidden"
    for made in (public, hidden):
        made.mkdir(parents=True)
    build(case, profile or case.profiles[0], int(seed, 16), public.absolute(), hidden.absolute())
    click.echo(f"made {public} and {hidden}")


@click.command()
@click.argument("case_id", metavar="CASE")
@click.argument("submission", type=PATH, metavar="FOLDER")
@click.option("--answers", type=PATH, help="Folder of what was hidden from the agent: hidden/ of `cases build-data`.")
@click.option("--draw", type=click.IntRange(0), default=0, show_default=True, help="Where the original drew at random.")
@click.option("--baseline", type=float, help="Score of the starter, where the original published none.")
@sandbox_option()
@CASES
@as_json()
def original(
    case_id: str,
    submission: Path,
    answers: Path | None,
    draw: int,
    baseline: float | None,
    sandbox: str,
    folders: DataFolders,
    as_json: bool,
) -> None:
    """What the original's evaluator would have said of the files in FOLDER, its faults included.

    For reading old logs and published tables. No verdict of this benchmark comes of it: docs/corrections.md tells what
    is judged in another way here. FOLDER is the workspace at the end of a run, or its submission alone.
    """
    from bench.authoring import original_verdict
    from bench.formats.case import load_one_case
    from bench.sandbox import choose_sandbox
    from bench.stats import BARS

    case = load_one_case(folders.cases, case_id)
    if answers is not None and not answers.is_dir():
        raise UserError(
            "is not a folder", where=answers, remedy="make it with `cases build-data`, and name its hidden/"
        )
    found = original_verdict(case, submission, answers, choose_sandbox(sandbox), draw, baseline)
    relative = found.relative
    if as_json:
        over = {f"{bar:g}": found.succeeds(bar) for bar in BARS}
        score = found.score if math.isfinite(found.score) else None
        print_json({"schema": 1, "case": case.id, "score": score, "valid": found.valid, "fault": found.fault,
                    "baseline": found.baseline, "relative": relative, "over": over})  # fmt: skip
        return
    held = "no published baseline" if found.baseline is None else f"baseline {found.baseline:.6g}"
    print_text(f"score {found.score:.6g}, {held}{f'; {found.fault}' if found.fault else ''}")
    if relative is None and found.valid:
        print_text("give the starter's score with --baseline for the change")
    elif relative is None:
        print_text("no valid score, which the original counts as a failure")
    else:
        bars = ", ".join(f"{bar:.0%} {'yes' if found.succeeds(bar) else 'no'}" for bar in BARS)
        print_text(f"change {relative:+.1%}; better by more than {bars}; success there: more than 10%")


@click.command()
@click.argument("ids", metavar="CASE...", nargs=-1, required=True)
@profile_option("Default: full.")
@click.option("--cache", metavar="URL", help="Shared cache, read first and filled: a folder, s3://... or gs://...")
@CASES
def fetch(ids: tuple[str, ...], profile: Profile | None, cache: str | None, folders: DataFolders) -> None:
    """Fetch the published data that cases name, check it by its digest, and fill a shared cache with it.

    A run does so itself before its first cell, from the cache that MLDB_DATA_CACHE names, else from the data's own
    address. What has arrived of a download that broke off is gone on with.
    """
    from bench.cell import SharedCache, SourceCache, sources_of
    from bench.cli.console import Ticker, fetched_share
    from bench.formats.case import load_cases

    wanted = [it for case in load_cases(folders.cases, list(ids)) for it in sources_of(case, profile or "full")]
    if not wanted:
        raise UserError(
            f"no published data is named for the profile {profile or 'full'}",
            where=", ".join(ids),
            remedy="name a case with `sources` in its case.yaml",
        )
    shared = SharedCache.at(cache) if cache else SharedCache.of_environment()
    here = SourceCache(folders.cache / "sources", shared)
    for look in here.require(wanted):
        look()
    with Ticker() as ticker:
        came = here.fetch(wanted, lambda name, done, total: ticker(f"fetching {name}: {fetched_share(done, total)}"))
    for it in wanted:
        origin = came.get(it.label, "")
        told = f"fetched from {origin}" if origin else "was here"
        stored = ""
        if cache and shared is not None and shared.put(it.source.sha256, it.source.bytes, here.archive(it.source)):
            stored = f"; stored in {cache}"
        print_text(f"{it.label}: {it.source.bytes / 1e6:,.1f} MB, {it.source.licence}; {told}{stored}")
