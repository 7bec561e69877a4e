"""What was skipped, counted by what was missing: a test that did not run must not pass unseen."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FILE_VARIABLE = "MLDB_SKIPPED"
"""Names a file that gets the lines, too: `make test` prints those of all its parts at its very end."""


def reason_of(report: Any) -> str:
    """Why a test, or a whole module, was skipped."""
    place = report.longrepr
    text = place[2] if isinstance(place, tuple) else str(place)
    return " ".join(text.removeprefix("Skipped: ").split())


def skip_lines(reasons: Iterable[str]) -> list[str]:
    """One line a reason, the most frequent first."""
    counted = sorted(Counter(reasons).items(), key=lambda item: (-item[1], item[0]))
    return [f"{count:5} {reason}" for reason, count in counted]


def summarize(reporter: Any) -> None:
    """Print the skips at the end of a run, and add them to the file."""
    skipped = reporter.stats.get("skipped", [])
    # A worker of xdist ends a run, too: a part of the whole one.
    if not skipped or hasattr(reporter.config, "workerinput"):
        return
    outcomes = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")
    total = sum(len(reporter.stats.get(outcome, [])) for outcome in outcomes)
    title = f"{len(skipped)} of {total} tests skipped"
    lines = skip_lines(reason_of(report) for report in skipped)
    reporter.section(title)
    for line in lines:
        reporter.line(line)
    if name := os.environ.get(FILE_VARIABLE):
        chosen = reporter.config.option.markexpr
        with Path(name).open("a", encoding="utf-8") as file:
            file.write("\n".join([title + (f' ("{chosen}")' if chosen else ""), *lines]) + "\n")
