"""What `results collect` says at the end: to people, to programs, and below the page of a job."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from bench.errors import EXIT_FAILED

if TYPE_CHECKING:
    from bench.store.artifacts import Refusal
    from bench.store.branch import Committed
    from bench.store.collect import Collected

EXIT_GIVEN_UP = 3
"""Others were quicker, or the network failed, for too long; the bundle is kept."""
_LISTED = 200
"""Lines of the job's summary."""


class Report:
    """What became of one run."""

    def __init__(self, run: str, collected: Collected) -> None:
        self.run = run
        self.collected = collected
        self.refused: list[Refusal] = list(collected.refused)
        self.traces = 0
        self.committed: Committed | None = None
        self.kept = ""
        """The command that resumes, where the bundle could not be stored."""

    @property
    def status(self) -> int:
        if self.kept:
            return EXIT_GIVEN_UP
        return EXIT_FAILED if self.refused or self.collected.untold or self.collected.missing else 0

    def headline(self) -> str:
        taken, missing = len(self.collected.taken), len(self.collected.missing)
        refused = len(self.refused) + self.collected.untold
        return (
            f"run {self.run}: {taken} of {taken + missing} planned cells; {missing} missing; {refused} refused"
            f"{f' ({self.collected.untold} not shown)' if self.collected.untold else ''}; {self.traces} traces kept"
        )

    def document(self) -> dict[str, object]:
        from bench.store.shown import shown

        return {
            "run": self.run,
            "commit": self.committed.commit if self.committed else None,
            "new": self.committed.new if self.committed else False,
            "records": len(self.collected.taken),
            "missing": self.collected.missing,
            "refused": [{"where": shown(it.where), "why": shown(it.why)} for it in self.refused],
            "refused_not_shown": self.collected.untold,
            "traces": self.traces,
            "resume": self.kept or None,
        }


def show(reports: Sequence[Report], branch: str, *, dry_run: bool, as_json: bool) -> None:
    """Print the reports, and add them to the job's summary where there is one."""
    _add_summary(reports)
    if as_json:
        click.echo(json.dumps({"runs": [report.document() for report in reports]}, indent=1))
        return
    for report in reports:
        for refusal in report.refused:
            click.echo(f"refused: {refusal}", err=True)
        click.echo(report.headline())
        if report.committed is not None:
            click.echo(stored_line(report.committed, branch))
        elif report.kept:
            click.echo(f"not stored, and kept; resume with\n  {report.kept}", err=True)
        else:
            click.echo("nothing was stored" + (" (--dry-run)" if dry_run else ""))


def stored_line(done: Committed, branch: str) -> str:
    """One line about a stored bundle."""
    return f"results: {'commit' if done.new else 'already stored in commit'} {done.commit} on branch {branch}"


def _add_summary(reports: Sequence[Report]) -> None:
    if not os.environ.get("GITHUB_STEP_SUMMARY"):
        return
    from bench.cli.summary import escape
    from bench.cli.workflow import add_summary

    lines = ["## Collected", ""]
    for report in reports:
        lines += [escape(report.headline(), 500), ""]
        lines += [f"- refused: {escape(str(refusal), 500)}" for refusal in report.refused[:_LISTED]]
        lines += [f"- missing: {escape(cell, 200)}" for cell in report.collected.missing[:_LISTED]]
        lines.append("")
    add_summary("\n".join(lines))
