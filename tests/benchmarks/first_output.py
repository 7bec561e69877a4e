"""How long each command is silent on a terminal, beside an interpreter that only prints.

    python -m tests.benchmarks.first_output             # every command of the tree on real input, some minutes
    python -m tests.benchmarks.first_output results     # those whose words begin so

Seconds by the clock, seconds of CPU until the first byte, and the ratio of these to an interpreter's that starts in
turn with them: on a busy machine only the ratio tells. The input is made here: two runs, a results repository, a plan.
"""

from __future__ import annotations

import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from tests.helpers.terminal import FLOOR, first_output

PROGRAM = [sys.executable, "-m", "bench"]
ROUNDS = 3
INPUT = {
    "agents show": "react",
    "cases show": "hello_world",
    "cases verify": "hello_world --sandbox process",
    "cases new": "debugging/mine --cases own",
    "cases answer": "hello_world --out answer",
    "cases patch": "hello_world mine --from answer",
    "cases fetch": "hello_world",
    "compare": "runs/first runs/second",
    "demo": "--out demo",
    "human start": "hello_world --out human",
    "human submit": "human",
    "human status": "human",
    "init": "here",
    "plan": "agents=nop suites=smoke --no-seed-secret",
    "power": "runs/first",
    "results show": "results.git",
    "results explain": "runs/first",
    "results trace": "runs/second",
    "results query": "'SELECT 1' --results results.git",
    "results export": "x.csv --results results.git",
    "run": "--agent nop --case hello_world --sandbox process --out more",
    "run-shard": "plan.json cpu-001 --sandbox process",
    "schema": "record",
    "site build": "results.git --out pages",
    "site serve": "pages",
    "smoke": "--agent nop",
    "suites show": "smoke",
    "summary": "runs/first",
    "trends": "results.git",
}
"""What follows the words of a command; the others take what they need from their `--help`, or nothing."""


def commands(group: click.Group | None = None, words: tuple[str, ...] = ()) -> Iterator[str]:
    """The words of every command that does something, as `results show`."""
    from bench.cli.main import cli

    group = group or cli
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield " ".join((*words, name))


def make_input(root: Path) -> None:
    """Runs, a repository and a plan, made by the program itself."""
    subprocess.run(["git", "init", "-q", "--bare", "results.git"], cwd=root, check=True)
    for name in ("first", "second"):
        agent = ["nop"] if name == "first" else ["react", "--model", "replay/demo"]
        run = ["run", "--agent", *agent, "--case", "hello_world", "--sandbox", "process", "--name", name]
        subprocess.run([*PROGRAM, *run, "--results", "results.git"], cwd=root, check=True, capture_output=True)
    plan = ["plan", "agents=nop", "suites=smoke", "--no-seed-secret", "--out", "plan.json"]
    subprocess.run([*PROGRAM, *plan], cwd=root, check=True, capture_output=True)


def main(begins: str) -> None:
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        make_input(root)
        print(f"{'command':<26} {'wall ms':>8} {'CPU ms':>8} {'ratio':>6}  first words")
        for words in commands():
            if not words.startswith(begins):
                continue
            command = [*PROGRAM, *words.split(), *shlex.split(INPUT.get(words, ""))]
            found, floor = [], []
            for _ in range(ROUNDS):
                floor.append(first_output(FLOOR, root))
                found.append(first_output(command, root))
            wall, cpu = (1000 * statistics.median(getattr(it, name) for it in found) for name in ("wall", "cpu"))
            ratio = statistics.median(a.cpu / b.cpu for a, b in zip(found, floor, strict=True))
            print(f"{words:<26} {wall:8.0f} {cpu:8.0f} {ratio:6.1f}  {found[-1].said.strip()[:50]!r}", flush=True)


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
