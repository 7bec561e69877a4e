"""`ml-dev-bench cases grade`: what the checks of a case say of answers that an author wrote."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.base.errors import UserError
from bench.base.text import counted, printable
from bench.cli.console import Ticker
from bench.cli.interrupts import interrupt_on_sigterm
from bench.cli.options import CASES, as_json, case_names, gathered, sandbox
from bench.cli.printing import print_json

if TYPE_CHECKING:
    from bench.authoring import Attempt
    from bench.base.install import DataFolders

_MARKS = {"success": ("success", "green"), "failure": ("failure", "bright_red"), "lost": ("lost   ", "yellow")}
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@dataclass(frozen=True)
class _Asked:
    """What `cases grade` was asked for."""

    seed: str | None
    seeds: int
    jobs: int
    run: str | None
    sandbox: str
    as_json: bool


@click.command()
@click.argument("case_id", metavar="CASE", shell_complete=case_names)
@click.argument("answers", metavar="FOLDER...", nargs=-1, required=True, type=_FOLDER)
@click.option("--run", metavar="COMMAND", help="Of the answers, instead of the solution's; empty for none.")
@click.option("--seed", metavar="HEX", help="Data and judge's inputs of the run that printed this seed.")
@click.option(
    "--seeds", type=click.IntRange(1, 100), default=1, show_default=True, help="On which each answer is judged."
)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Answers side by side.")
@sandbox()
@CASES
@as_json()
@gathered("asked", _Asked)
def grade(case_id: str, answers: tuple[Path, ...], folders: DataFolders, asked: _Asked) -> None:
    """Judge answers that you wrote, right ones or near misses, as if an agent had left them.

    The files of each FOLDER are laid over a fresh workspace, the command runs there in the sandbox, within the limits
    of an agent, and all checks of the case look. Begin with a folder that `cases answer CASE --out FOLDER` lays out, or
    with an empty one. What is told of a check is what its author sees; an agent sees none of it.

    success: every required check and every guard passed. lost: the machine or a check failed, so nothing is known.

    Exit status: 0 whatever the verdicts are, since what they should be is for you to say; 2 the command or the set-up
    is wrong; 130 interrupted.
    """
    from bench.authoring import Attempts, ProofSeed, open_answers_of
    from bench.formats.case import load_one_case
    from bench.sandbox import choose_sandbox

    interrupt_on_sigterm()
    case = load_one_case(folders.cases, case_id)
    run = None if asked.run is None else _arguments(asked.run)
    seed = ProofSeed.parse(asked.seed) if asked.seed is not None else ProofSeed.drawn()
    told = _Report(seed.text, asked, len(answers) * asked.seeds)
    told.begin()
    with open_answers_of(case, folders, choose_sandbox(asked.sandbox)) as graded:
        try:
            seeds = [seed.later(number) for number in range(asked.seeds)]
            for attempt in Attempts(graded, run).judge_all(answers, seeds, asked.jobs):
                told.add(attempt)
        except KeyboardInterrupt:
            told.conclude(interrupted=True)
            raise
    told.conclude(interrupted=False)


def _arguments(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as fault:
        raise UserError(
            f"{command!r} is not a command: {fault}", where="cases grade --run", remedy="close each quotation mark"
        ) from None


@dataclass
class _Report:
    """What is said of answers as they are judged, and at the end."""

    seed: str
    asked: _Asked
    expected: int
    found: list[Attempt] = field(default_factory=list)

    def __post_init__(self) -> None:
        # For people each answer has its line; a program gets everything at the end, and its user sees how far it is.
        self._ticker = Ticker(quiet=not self.asked.as_json)

    def begin(self) -> None:
        self._say(f"seed {self.seed}: of data and of the judge's inputs")

    def add(self, attempt: Attempt) -> None:
        self.found.append(attempt)
        self._ticker(f"{len(self.found)} of {self.expected} gradings done")
        for number, line in enumerate(_lines(attempt)):
            self._say(f"{'    ' if number else f'[{len(self.found)}/{self.expected}] '}{line}")

    def conclude(self, *, interrupted: bool) -> None:
        self._ticker.clear()
        if self.asked.as_json:
            print_json({"seed": self.seed, "interrupted": interrupted, "gradings": [_facts(it) for it in self.found]})
            return
        fates = [it.fate for it in self.found]
        missing = f"; {self.expected - len(fates)} not judged" if interrupted else ""
        self._say(
            f"{counted(len(fates), 'grading')}: {counted(fates.count('success'), 'success', 'successes')}, "
            f"{counted(fates.count('failure'), 'failure')}, {fates.count('lost')} lost{missing}"
        )

    def _say(self, line: str) -> None:
        if not self.asked.as_json:
            click.echo(line)


def _lines(attempt: Attempt) -> Iterator[str]:
    text, colour = _MARKS[attempt.fate]
    score = "" if attempt.score is None else f", score {attempt.score:g}"
    spent = f"{attempt.run_s:.1f} s to run, {attempt.judge_cpu_s:.1f} s of CPU time to judge"
    yield f"{click.style(text, fg=colour)} {printable(str(attempt.folder))} (seed {attempt.seed}{score}; {spent})"
    if attempt.why_lost:
        yield printable(attempt.why_lost, 300)
    for verdict in attempt.failed:
        needed = "" if verdict.required or verdict.guard else ", which success does not need"
        yield f"{verdict.id} ({verdict.value:g}{needed}): {printable(verdict.message, 300)}"
    if attempt.ended:
        yield f"its command ended with {attempt.ended}:"
        yield from (f"| {line}" for line in attempt.output)


def _facts(attempt: Attempt) -> dict[str, Any]:
    return {**asdict(attempt), "folder": str(attempt.folder)}
