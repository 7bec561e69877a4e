"""`ml-dev-bench trends`: steps in nightly series, and the GitHub issues about them."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from bench.base.errors import EXIT_FAILED, UserError
from bench.cli.options import as_json, branch, fraction
from bench.cli.printing import print_json, print_text
from bench.cli.trend_text import CategoryDrop, Trend, as_text, notices, series_name

if TYPE_CHECKING:
    from bench.stats import NightPoints, Series

NIGHTS = 150


@click.command()
@click.argument("source", metavar="REPOSITORY|RUN_FOLDER")
@branch("Branch of a repository.")
@click.option("--runs", default="*", show_default=True, metavar="PATTERN", help="Names of the nightly runs.")
@click.option("--measure", type=click.Choice(["success", "score"]), default="success", show_default=True)
@fraction("--margin", 0.05, "Smallest drop that matters.")
@click.option("--nights", type=click.IntRange(4, 1000), default=NIGHTS, show_default=True, help="Look back this far.")
@click.option(
    "--control",
    default="",
    metavar="AGENT",
    help="A pinned agent whose own steps tell a moved model from a moved agent.",
)
@click.option(
    "--issues",
    "repository",
    default="",
    metavar="OWNER/REPO",
    help="Keep one GitHub issue for each agent and suite that fell. Token: GITHUB_TOKEN.",
)
@click.option("--exit-code", is_flag=True, help="Exit with 1 when a drop stands.")
@as_json("Print the series as one JSON object.")
def trends(
    source: str,
    branch: str,
    runs: str,
    measure: str,
    margin: float,
    nights: int,
    control: str,
    repository: str,
    exit_code: bool,
    as_json: bool,
) -> None:
    """Find steps in the nightly series of every agent, and keep issues about drops.

    A series is one agent with its models on one version of a suite, a point a night: runs of one night are one point. A
    step is reported when the mean of the last 2 to 10 nights differs from that of up to 60 before by the margin or
    more, and by more than trials and nights vary by chance; two nights must lie beyond the margin, and those without
    the farthest must show a change by themselves, so that a single bad night hardly ever raises an alarm once a series
    has 18 nights. A drop stands until the level is back within the margin of where it was. The cases and categories
    that moved are named. How steps are found, and how often wrongly: docs/statistics-reference.md.

    With --control, the nights of a pinned agent say whether a drop is the agent's own, or that of its model, provider
    or machine. A drop that the control shares still stands, and is named as such.

    With --issues, drops become GitHub issues: one for each agent and suite, updated while the drop stands, closed when
    it has recovered. Close one by hand to accept the new level: it stays closed. Without it nothing is written.

    \b
    Exit status: 0 done; 1 with --exit-code, when a drop stands, whatever its cause; 2 the command is wrong, or GitHub
    refused.
    """
    from bench.cli.stored import stored_nights

    found = find_trends(stored_nights(source, branch, measure, runs, nights), margin, nights, control)
    if as_json:
        print_json({"schema": 1, "measure": measure, "series": [_document(it) for it in found]})
    else:
        print_text(as_text(found, measure))
    if repository:
        for line in file_issues(repository, found, measure, margin):
            click.echo(line, err=as_json)
    if exit_code and any(it.drop for it in found):
        sys.exit(EXIT_FAILED)


def find_trends(points: NightPoints, margin: float, nights: int, control: str = "") -> list[Trend]:
    """All series of `points` with their levels, and what explains their drops."""
    from bench.stats import nightly

    every = nightly(points, nights)
    return [_trend(series, every, margin, control) for series in every]


def _trend(series: Series, every: Sequence[Series], margin: float, control: str) -> Trend:
    from bench.stats import (
        attribute,
        category_drops,
        control_of,
        moved_cases,
        moved_categories,
        series_levels,
        standing_drop,
    )

    levels = series_levels(series, margin)
    drop = standing_drop(levels, margin)
    by_category = [CategoryDrop(name, fell) for name, fell in category_drops(series, margin).items()]
    if drop is None:
        return Trend(series, levels, None, category_drops=by_category)
    first = max(level.first for level in levels if level.end <= drop.since)
    beside = None
    if control and series.entrant.agent != control:
        beside = attribute(series, drop.since, first, control_of(series, every, control), control)
    return Trend(
        series,
        levels,
        drop,
        moved_categories(series, drop.since, first),
        moved_cases(series, drop.since, first),
        beside,
        by_category,
    )


def _document(it: Trend) -> dict[str, Any]:
    """As JSON; the tables behind a series are left out."""
    found = asdict(it)
    del found["series"]["table"], found["series"]["trials"]
    return found


def file_issues(
    repository: str, found: Sequence[Trend], measure: str, margin: float, token: str | None = None
) -> list[str]:
    """Bring the issues of `repository` up to date; what was done. token: None for that of the environment."""
    from bench.github import keep_issues

    where = "input `token`" if token is not None else "GITHUB_TOKEN"
    token = os.environ.get("GITHUB_TOKEN", "") if token is None else token
    if not token:
        raise UserError("is not set", where=where, remedy="give the step a token with `issues: write`")
    api = os.environ.get("GITHUB_API_URL") or "https://api.github.com"
    watched: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for it in found:
        if len(it.series.nights):
            # Of two nights the worse: one good night alone does not close an issue.
            latest = min(float(value) for value in it.series.values[-2:])
            watched[it.series.entrant.agent, it.series.suite][series_name(it.series)] = latest
    return keep_issues(repository, notices(found, measure, margin), watched, token, api=api)
