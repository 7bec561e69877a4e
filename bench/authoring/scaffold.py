"""A new case that already proves itself: smaller than any real one, complete in every part."""

from __future__ import annotations

import re
from pathlib import Path

from bench.base.errors import UserError
from bench.base.files import write_atomic

_FILES = {
    "case.yaml": """\
schema: 1
id: {id}
category: {category}
title: Median of a list
tags: [python]
source: {{benchmark: own, id: {id}}}
profiles: [mini]
limits: {{agent_s: 300, grade_s: 60, call_s: 10}}
outputs:
  weight: 0            # the starter already has the file: a guard, worth nothing
  files: [{{path: stats.py, max_mb: 1}}]
wrong:
  takes_the_mean: {{about: Gives the mean, fails: [median_is_right]}}
  forgets_to_sort: {{about: Takes the middle of the list as it comes, fails: [median_is_right]}}
  knows_one_list: {{about: Answers the example of the task by heart, fails: [median_is_right]}}
""",
    "task.md": """\
# Median of a list

Complete the function `median(values)` in `stats.py`: it takes a non-empty list of numbers and returns their
median as a float; with an even count, that is the mean of the two in the middle. The list that is passed in must
not be changed.

Example: `median([3, 1, 2])` is `2.0`.
""",
    "README.md": """\
# {id}

Say here what the case measures, where it comes from, what the original's evaluation let through and what is judged
instead.
""",
    "workspace/stats.py": """\
def median(values: list[float]) -> float:
    raise NotImplementedError
""",
    "solution/stats.py": """\
def median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return float(ordered[middle])
    return (ordered[middle - 1] + ordered[middle]) / 2
""",
    "check.py": '''\
import statistics

from bench.judge import Workspace, check, mapping, number, numbers


def lists(ws: Workspace) -> list[list[float]]:
    """Fresh lists of odd and even length."""
    return [[round(ws.rng.uniform(-99, 99), 3) for _ in range(length)] for length in (1, 2, 7, 10, 31)]


@check(weight=3, required=True)
def median_is_right(ws: Workspace) -> None:
    """The median of five lists the agent has not seen, of odd and even length."""
    for values in lists(ws):
        found = number(ws.call("stats:median", values))
        expected = statistics.median(values)
        assert abs(found - expected) < 1e-9, f"median of {{values[:4]}}... is {{expected}}, not {{found}}"


@check(weight=1)
def argument_is_left_alone(ws: Workspace) -> None:
    """The caller's list is the same afterwards."""
    values = lists(ws)[3]
    answer = mapping(ws.drive("driver.py:median_and_argument", values), ["median", "argument"])
    number(answer["median"])
    assert numbers(answer["argument"]) == values, "the list was changed"
''',
    "hidden/driver.py": '''\
"""Runs beside the agent's module, in the sandbox. Holds no expected answer."""


def median_and_argument(values: list[float]) -> dict[str, object]:
    import stats

    return {{"median": stats.median(values), "argument": values}}
''',
    "wrong/takes_the_mean/stats.py": """\
def median(values: list[float]) -> float:
    return sum(values) / len(values)
""",
    "wrong/forgets_to_sort/stats.py": """\
def median(values: list[float]) -> float:
    return float(values[len(values) // 2])
""",
    "wrong/knows_one_list/stats.py": """\
def median(values: list[float]) -> float:
    return 2.0
""",
}


def scaffold_case(root: Path, name: str) -> Path:
    """Write the starting files of case `name` (category/id) below `root`; raises `UserError` when it exists."""
    match = re.fullmatch(r"([a-z][a-z0-9_]*)/([a-z][a-z0-9_]*)", name)
    if match is None:
        raise UserError(f"{name!r} is no name for a case", where="cases new", remedy="use category/id in lower case")
    category, case_id = match.groups()
    folder = root / category / case_id
    taken = next((path.parent for path in root.glob(f"*/{case_id}/case.yaml")), None)
    if folder.exists() or taken:
        raise UserError("is already there", where=taken or folder, remedy="choose another id")
    for path, text in _FILES.items():
        write_atomic(folder / path, text.format(id=case_id, category=category).encode())
    return folder
