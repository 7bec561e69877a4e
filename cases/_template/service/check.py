"""Runs the program with a service of the judge's own, and believes that service's journal alone.

To make this your case: write the service that your product talks to, and say in each check what its journal must show.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from bench.judge import Workspace, check, integer, mapping, once, run_command

PAGES = 4


@check(weight=3, required=True)
def new_stock_is_counted(ws: Workspace) -> None:
    """The program, run by the judge, reports the stock that the judge's service has."""
    _compare(_ran(ws).json("report.json"), ws.journal("shop", during="judging"))


@check(weight=1, required=True)
def pages_are_asked_for_once(ws: Workspace) -> None:
    """Each page was asked for until it was given, and no more; busy ones again."""
    _ran(ws)
    calls = [event for event in ws.journal("shop", during="judging") if event["event"] == "call"]
    assert all(call["path"] == "/items" for call in calls), "other addresses than /items were asked for"
    given = Counter(str(call["query"].get("page", ["1"])[0]) for call in calls if call["status"] == 200)
    assert given == Counter(str(page) for page in range(1, PAGES + 1)), f"pages that were given: {dict(given)}"
    refused = sum(call["status"] not in (200, 503) for call in calls)
    assert not refused, f"{refused} requests were for pages that there are not"


@check(weight=1, required=True)
def report_was_made(ws: Workspace) -> None:
    """The report that the agent left is of the stock that its own service gave out."""
    _compare(ws.json("report.json"), ws.journal("shop"))


@once  # the service of a grading has one state for all checks, so the program runs once for all of them
def _ran(ws: Workspace) -> Any:
    return run_command(ws, "python report.py", outputs=["report.json"])


def _compare(report: Any, journal: list[dict[str, Any]]) -> None:
    """The report is untrusted; the journal is not."""
    stock = [event for event in journal if event["event"] == "stock"][:1]
    assert stock, "the service was not asked"
    found = mapping(report, keys=("items", "value"))
    for key in ("items", "value"):
        assert integer(found[key]) == stock[0][key], f"{key} is {found[key]}, and the service has {stock[0][key]}"
