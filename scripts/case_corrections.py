"""Writes docs/corrections.md from case.yaml files: `python -m scripts.case_corrections FILE`, `make docs`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from bench.base.files import write_atomic
from bench.formats.case import Case, load_cases

ROOT = Path(__file__).resolve().parents[1]
_BENCHMARKS = {"ml-dev-bench": "ML-Dev-Bench", "mlagentbench": "MLAgentBench"}
_PAGE = """# Corrections, case by case

<!-- Written by `make docs` from each case.yaml. Change `corrections` there, or scripts/case_corrections.py, then run it
again. -->

Where the evaluation of an original lets a wrong answer through, refuses a right one, or measures something else than
its prompt asks for, the case here judges in another way. For each case: what the original did, what is judged
instead, and what that means for a figure that was published of it. Ids, file names, signatures, shapes, planted
faults and thresholds are the original's where a row does not say otherwise.

Three things hold for every case and are not repeated. The originals give one yes or no for a run; here a share of the
points is recorded beside it. Their validators run inside the agent's folder, with that folder first on the path, or
load its pickles in their own process; here the agent's code runs in a sandbox of its own, and protected files are
restored before. Most of their data is public and always the same; here it is drawn for each trial, where the case
does not say otherwise.

{index}

{cases}
"""


def page(cases: Path = ROOT / "cases") -> str:
    """The whole page, the same on every machine."""
    found = [case for case in load_cases(cases) if case.spec.corrections]
    index = " · ".join(f"[{case.id}](#{case.id})" for case in found)
    return _PAGE.format(index=index, cases="\n\n".join("\n".join(_section(case)) for case in found))


def _section(case: Case) -> Iterator[str]:
    source = case.spec.source
    if case.spec.corrections:
        success = f" Its success: {source.thresholds.rstrip('.')}." if source.thresholds else ""
        yield from (f"## {case.id}", "", f"{_BENCHMARKS[source.benchmark]} `{source.id}`.{success}", "")
        yield case.spec.corrections.as_markdown()


if __name__ == "__main__":
    write_atomic(Path(sys.argv[1]), page().encode())
