"""Runs the aideml package on one task through the gateway of the benchmark.

The search is upstream's. This driver brings the task in, runs the scripts with the case's interpreter, and takes the
best script's files out. Ends with 0: all steps done; 1: the package or its model failed; 4: no script wrote anything,
or the time was over.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

from case_interpreter import CaseInterpreter

DONE, FAILED, GAVE_UP = 0, 1, 4
LONGEST_RUN_S = 3600
MARGIN_S = 15.0
WHERE = """

## Where things are

The files the task starts from are in `./input`, under the names that the task gives them. Write every file that the
task asks for below `./working`, under the path that the task gives it: what your best script leaves there is then laid
over the task's own files. A file you are to change is read from `./input` and written to `./working`.
"""


def search(out: Path, deadline: float) -> tuple[int, CaseInterpreter | None, int]:
    """Let the package search; gives its status, what ran the scripts, and the number of the best one (-1: none)."""
    import aide
    from aide.backend import backend_openai

    # Upstream repeats these for ever; the gateway has repeated what is worth repeating.
    backend_openai.OPENAI_TIMEOUT_EXCEPTIONS = ()
    task = Path(os.environ["BENCH_TASK_FILE"]).read_text(encoding="utf-8")
    experiment = aide.Experiment(data_dir=os.environ["BENCH_WORKSPACE"], goal=task + WHERE)
    config = experiment.cfg
    config.agent.code.model = config.agent.feedback.model = os.environ["BENCH_MODEL"]
    config.exec.timeout = int(min(LONGEST_RUN_S, max(deadline - time.time() - MARGIN_S, 10) / 2))
    folder, end = Path(config.workspace_dir), deadline - MARGIN_S
    interpreter = CaseInterpreter(folder, config.exec.timeout, os.environ["BENCH_PYTHON"], end)
    status = DONE
    for _ in range(int(os.environ.get("AIDE_STEPS") or 20)):
        if time.time() + MARGIN_S > deadline:
            status = GAVE_UP
            break
        try:
            experiment.agent.step(exec_callback=interpreter.run)
        except Exception as error:
            print(f"aideml: {type(error).__name__}: {error}", file=sys.stderr)
            status = FAILED
            break
        aide.save_run(config, experiment.journal)
    if Path(config.log_dir).is_dir():
        shutil.copytree(config.log_dir, out / "aide", dirs_exist_ok=True)
    best = experiment.journal.get_best_node(only_good=False) if experiment.journal.nodes else None
    return status, interpreter, experiment.journal.nodes.index(best) if best is not None else -1


def main() -> int:
    out, workspace = Path(os.environ["BENCH_OUT_DIR"]), Path(os.environ["BENCH_WORKSPACE"])
    # Here `logs` and `workspaces` of the package appear; in the workspace they would be judged.
    place = Path(os.environ["TMPDIR"]) / "aide"
    place.mkdir()
    os.chdir(place)
    status, interpreter, best = search(out, float(os.environ.get("BENCH_DEADLINE") or "inf"))
    if interpreter is None or best < 0:
        return status or GAVE_UP
    made = interpreter.made_by(best)
    files = [path for path in sorted(made.rglob("*")) if path.is_file() and not path.is_symlink()]
    for path in files:
        target = workspace / path.relative_to(made)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    print(f"aideml: script {best} is the best; {len(files)} files of it taken over", file=sys.stderr)
    return status if files else status or GAVE_UP


if __name__ == "__main__":
    sys.exit(main())
