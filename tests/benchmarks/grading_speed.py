"""How long a grading of a torch case takes that calls the agent's code once, after the first one of a runner.

    python -m tests.benchmarks.grading_speed --gradings 25 [--sandbox bubblewrap]

The call itself does nothing, so what is measured is the judge, its fork of the warm process, and their end.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from bench.sandbox.choose import choose_sandbox
from tests.benchmarks.cell_speed import calibration_ms
from tests.helpers.cells import judge, make_case

_CHECK = """
from bench.judge import check


@check(weight=1, required=True)
def is_there(ws):
    \"\"\"The function is there.\"\"\"
    assert ws.call("answer:nothing") is None
"""


def measure(gradings: int, sandbox_name: str, folder: Path) -> dict[str, object]:
    sandbox = choose_sandbox(sandbox_name)
    case = make_case(folder / "cases", {"check.py": _CHECK}, preload=["torch"], limits={"memory_mb": 4096})
    walls = []
    for _ in range(gradings + 1):
        began = time.perf_counter()
        grading = judge(
            case, folder / "work", {"answer.py": "def nothing():\n    pass\n"}, sandbox, arena=folder / "work"
        )
        walls.append(time.perf_counter() - began)
        assert {verdict.id: verdict.value for verdict in grading.verdicts}["is_there"] == 1, grading
    first, *later = walls
    return {
        "sandbox": sandbox.name,
        "gradings": gradings,
        "first_ms": round(first * 1000, 1),
        "median_ms": round(statistics.median(later) * 1000, 1),
        "worst_ms": round(max(later) * 1000, 1),
        "calibration_ms": round(calibration_ms(), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gradings", type=int, default=25)
    parser.add_argument("--sandbox", default="auto", choices=["auto", "docker", "bubblewrap", "process"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mldb-speed-") as folder:
        Path(folder).chmod(0o755)
        print(json.dumps(measure(arguments.gradings, arguments.sandbox, Path(folder)), indent=1))


if __name__ == "__main__":
    main()
