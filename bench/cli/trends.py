"""`ml-dev-bench trends`: steps in nightly series, and the GitHub issues about them."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from bench.base.errors import EXIT_FAILED, UserError
from bench.cli.options import as_json, branch, fraction, print_json, print_text

if TYPE_CHECKING:
    from bench.github import Notice
    from bench.stats import CaseNight, Drop, Level, Series


@dataclass(frozen=True)
class Trend:
    """One series with its levels and the drop that stands, if any."""

    series: Series
    levels: Sequence[Level]
    drop: Drop | None


@click.command()
@click.argument("source", metavar="REPOSITORY|RUN_FOLDER")
@branch("Branch of a repository.")
@click.option("--runs", default="*", show_default=True, metavar="PATTERN", help="Names of the nightly runs.")
@click.option("--measure", type=click.Choice(["success", "score"]), default="success", show_default=True)
@fraction("--margin", 0.05, "Smallest drop that matters.")
@click.option("--nights", type=click.IntRange(4, 1000), default=90, show_default=True, help="Look back this far.")
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
    repository: str,
    exit_code: bool,
    as_json: bool,
) -> None:
    """Find steps in the nightly series of every agent, and keep issues about drops.

    A series is one agent with its models on one version of a suite, a point a run. A step is reported when two nights
    or more lie on its new level, so a single bad night never raises an alarm; a drop stands until the level is back
    within the margin of where it was. How steps are found, and how often wrongly: docs/statistics-reference.md.

    With --issues, drops become GitHub issues: one for each agent and suite, updated while the drop stands, closed when
    it has recovered. Close one by hand to accept the new level: it stays closed. Without it nothing is written.

    \b
    Exit status: 0 done; 1 with --exit-code, when a drop stands; 2 the command is wrong, or GitHub refused.
    """
    from bench.cli.stored import stored_nights

    found = find_trends(stored_nights(source, branch, measure, runs, nights), margin, nights)
    if as_json:
        print_json({"schema": 1, "measure": measure, "series": [asdict(it) for it in found]})
    else:
        print_text(as_text(found, measure))
    if repository:
        for line in file_issues(repository, found, measure, margin):
            click.echo(line, err=as_json)
    if exit_code and any(it.drop for it in found):
        sys.exit(EXIT_FAILED)


def find_trends(points: Sequence[CaseNight], margin: float, nights: int) -> list[Trend]:
    """All series of `points` with their levels."""
    from bench.stats import find_levels, find_steps, nightly, standing_drop

    found = []
    for series in nightly(points, nights):
        stretches = find_levels(series.values, find_steps(series.values))
        found.append(Trend(series, stretches, standing_drop(stretches, margin)))
    return found


def file_issues(repository: str, found: Sequence[Trend], measure: str, margin: float) -> list[str]:
    """Bring the issues of `repository` up to date; what was done."""
    from bench.github import keep_issues

    token = os.environ.get("GITHUB_TOKEN", "")
    if not token:
        raise UserError("is not set", where="GITHUB_TOKEN", remedy="give the step a token with `issues: write`")
    api = os.environ.get("GITHUB_API_URL") or "https://api.github.com"
    watched: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for it in found:
        if len(it.series.nights):
            # Of two nights the worse: one good night alone does not close an issue.
            latest = min(float(value) for value in it.series.values[-2:])
            watched[it.series.entrant.agent, it.series.suite][_name(it)] = latest
    return keep_issues(repository, notices(found, measure, margin), watched, token, api=api)


def notices(found: Sequence[Trend], measure: str, margin: float) -> list[Notice]:
    """One for each agent and suite with a drop that stands, whatever its models and profiles."""
    from bench.base.text import escape
    from bench.github import Notice

    by_key: dict[tuple[str, str], list[Trend]] = defaultdict(list)
    for it in found:
        if it.drop:
            by_key[it.series.entrant.agent, it.series.suite].append(it)
    made = []
    for (agent, suite), trends_of in sorted(by_key.items()):
        drops = [(it, it.drop) for it in trends_of if it.drop]
        first = min(it.series.nights[drop.since].started for it, drop in drops)
        lines = [f"The mean {measure} of `{agent}` fell on suite {escape(suite)}, and a second night confirms it.", ""]
        lines += [
            "| model | profile | before | now | since | nights since | p of the step |",
            "|---|---|--:|--:|---|--:|--:|",
        ]
        for it, drop in drops:
            night, who = it.series.nights[drop.since], it.series.entrant
            cells = (
                who.model or "none",
                who.profile,
                f"{drop.before:.3f}",
                f"{drop.now:.3f}",
                f"{night.run} ({night.started})",
                str(len(it.series.nights) - drop.since),
                f"{drop.p:.4f}",
            )
            lines.append(f"| {' | '.join(map(escape, cells))} |")
        lines += ["", f"This closes itself when the level is back within {100 * margin:g} points of where it was."]
        lines += ["Close it by hand to accept the new level."]
        title = f"{agent}: {measure} fell on {suite or 'its suite'}"
        back = {_name(it): drop.before - margin for it, drop in drops}
        made.append(Notice(agent, suite, first, title, "\n".join(lines), back))
    return made


def _name(it: Trend) -> str:
    """Of a series, within its agent and suite."""
    return f"{it.series.entrant.model} {it.series.entrant.profile}"


def as_text(found: Sequence[Trend], measure: str) -> str:
    """One line a series, and one a step."""
    from bench.base.text import printable

    lines = []
    for it in found:
        series, who = it.series, it.series.entrant
        thin = f"; {len(series.thin)} runs graded too few cases" if series.thin else ""
        model = f" with {who.model}" if who.model else ""
        lines.append(
            f"{who.agent}{model}, {who.profile}, suite {series.suite} {series.version}: "
            f"{len(series.nights)} nights{thin}"
        )
        for level in it.levels:
            night = series.nights[level.first]
            step = f", p = {level.p:.4f}" if level.first else ""
            lines.append(
                f"  {measure} {level.mean:.3f} from {night.run} ({night.started}), "
                f"{level.end - level.first} nights{step}"
            )
        if it.drop:
            since = series.nights[it.drop.since].run
            lines.append(f"  FELL from {it.drop.before:.3f} to {it.drop.now:.3f} at {since}; it still stands")
    return "\n".join(map(printable, lines)) or "no series: no graded record of a ranked agent"
