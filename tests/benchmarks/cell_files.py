"""How many files of bench a reader meets who follows one real cell through the runner.

    python -m tests.benchmarks.cell_files [--sandbox bubblewrap] [--list]

A profile function sees every call in every thread while `run` carries out one cell of `react` on `hello_world`. A file
counts when one of its functions is called; what only importing it runs (class bodies, constants) does not count. The
second figure counts only what is called between the start and the end of `run_cell`.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType

import bench

_PACKAGE = f"{Path(bench.__file__).parent}/"


class Trace:
    """The files whose functions were called."""

    def __init__(self) -> None:
        self.run: set[str] = set()
        self.cell: set[str] = set()
        self._in_cell = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        del argument
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(_PACKAGE):
            return
        if code.co_name == "run_cell":
            self._in_cell = event == "call"
        # Bodies of modules and classes are not optimised code.
        if event == "call" and code.co_flags & inspect.CO_OPTIMIZED:
            name = code.co_filename.removeprefix(_PACKAGE)
            self.run.add(name)
            if self._in_cell:
                self.cell.add(name)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sandbox", default="bubblewrap")
    options.add_argument("--list", action="store_true", help="name the files")
    chosen = options.parse_args()
    trace = Trace()
    with tempfile.TemporaryDirectory() as folder:
        argv = ["run", "--agent", "react", "--case", "hello_world", "--sandbox", chosen.sandbox, "--out", folder]
        threading.setprofile(trace)
        sys.setprofile(trace)
        from bench.cli.main import cli

        cli.main(argv, standalone_mode=False)
        sys.setprofile(None)
        threading.setprofile(None)
    print(f"{len(trace.run)} files in the run, {len(trace.cell)} of them in the cell")
    if chosen.list:
        print("\n".join(sorted(trace.run)))


if __name__ == "__main__":
    main()
