"""`ml-dev-bench results improvement` and `results plots`: what became of continuous metrics, and the papers' plots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.text import counted
from bench.cli.options import CASES, PATH, as_json, branch
from bench.cli.printing import print_json, print_text

if TYPE_CHECKING:
    from bench.base.install import DataFolders
    from bench.stats import Estimate, Improvement, OverCases

_SUITE = click.option("--suite", default="", help="Only the cases of this suite.")


@click.command()
@click.argument("source", metavar="REPOSITORY|RUN_FOLDER")
@branch("Branch of a repository.")
@_SUITE
@CASES
@as_json()
def improvement(source: str, branch: str, suite: str, folders: DataFolders, as_json: bool) -> None:
    """Success at the bars of 5, 10, 15, 20 and 30 %, and the mean improvement, of each agent on each case and over all.

    Counted are graded trials of cases with a continuous metric whose result at the end is better than the baseline by
    strictly more than the bar. The improvement is the mean over the valid trials. The metric alone decides here:
    `success` asks for every required check of the case, too.
    """
    from bench.cli.stored import counted_cases, stored_results
    from bench.stats import over_cases

    with stored_results(source, branch, folders=folders) as results_of:
        found = results_of(counted_cases(suite, folders) if suite else None).improvements()
    totals = over_cases(found)
    if as_json:
        print_json({"schema": 1, "cases": [_document(it) for it in found], "agents": [_total(it) for it in totals]})
        return
    print_text(_text(found, totals) if found else "no record names a continuous metric")


@click.command()
@click.argument("source", metavar="REPOSITORY|RUN_FOLDER")
@click.option("--out", type=PATH, required=True, help="Folder for the files; made where it is missing.")
@branch("Branch of a repository.")
@_SUITE
@CASES
@as_json("Print the files as JSON.")
def plots(source: str, out: Path, branch: str, suite: str, folders: DataFolders, as_json: bool) -> None:
    """Draw the plots of MLAgentBench's paper from stored records: SVG, and a CSV of the numbers beside each.

    Success and mean improvement by case and agent, success at several bars, success against tokens and against time,
    and shares of ways to fail; for each benchmark that cases come from, in each profile. Runs nothing.
    """
    from bench.cli.pages import case_infos
    from bench.cli.stored import stored_results
    from bench.formats.suite import load_suite
    from bench.pages import write_plots
    from bench.stats import suite_of

    infos = case_infos(folders, load_suite(folders.cases, suite).cases if suite else ["*"])
    with stored_results(source, branch, folders=folders) as results_of:
        results = results_of(suite_of((it.id, it.profiles) for it in infos))
        files = write_plots(results, infos, out, folders.site, folders.cache / "charts")
    if as_json:
        print_json({"schema": 1, "files": [str(path) for path in files]})
    else:
        click.echo(f"wrote {counted(len(files), 'file')} to {out}")


def _text(found: Sequence[Improvement], totals: Sequence[OverCases]) -> str:
    from bench.report import bars_header, bars_rows, estimate_text, improvement_table, table

    heads = ["agent", "model", "profile", "cases", *bars_header(), "improvement", "bounded"]
    rows = [
        [
            it.entrant.agent, it.entrant.model, it.entrant.profile, str(it.cases), *shares,
            "-" if it.relative is None else f"{it.relative:+.1%}", estimate_text(it.bounded),
        ]
        for it, shares in zip(totals, bars_rows(totals), strict=True)
    ]  # fmt: skip
    by_case = [
        [it.entrant.agent, it.entrant.model, it.entrant.profile, it.case, str(it.graded), *shares]
        for it, shares in zip(found, bars_rows(found), strict=True)
    ]
    parts = (
        table(by_case, header=["agent", "model", "profile", "case", "trials", *bars_header()]),
        improvement_table(found),
        f"{table(rows, header=heads)}\nover cases: each with the same weight",
    )
    return "\n\n".join(parts)


def _document(it: Improvement) -> dict[str, object]:
    return {
        **vars(it.entrant),
        "case": it.case,
        "headline": it.scale.model_dump(),
        "graded": it.graded,
        "valid": it.valid,
        "succeeded": it.succeeded,
        "value": it.value,
        "relative": _estimate(it.relative),
        "bounded": _estimate(it.bounded),
        "over": {f"{bar:g}": share for bar, share in it.over.items()},
    }


def _total(it: OverCases) -> dict[str, object]:
    return {
        **vars(it.entrant),
        "cases": it.cases,
        "valid_cases": it.valid_cases,
        "relative": it.relative,
        "bounded": _estimate(it.bounded),
        "over": {f"{bar:g}": _estimate(share) for bar, share in it.over.items()},
    }


def _estimate(it: Estimate | None) -> dict[str, object] | None:
    if it is None:
        return None
    interval = None if it.interval is None else [it.interval.low, it.interval.high]
    return {"mean": it.mean, "n": it.n, "interval": interval}
