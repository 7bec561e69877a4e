"""`ml-dev-bench cases mutants`: what the checks of a case forget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.base.errors import UserError
from bench.base.text import counted, printable, printable_lines
from bench.cli.console import Ticker
from bench.cli.interrupts import interrupt_on_sigterm
from bench.cli.options import CASES, PATH, as_json, case_names, gathered, sandbox
from bench.cli.printing import print_json

if TYPE_CHECKING:
    from bench.authoring import Mutant, MutantOutcome
    from bench.base.install import DataFolders
    from bench.formats.case import Case

_MARKS = {"caught": ("caught", "green"), "alive": ("ALIVE ", "bright_red"), "lost": ("lost  ", "yellow")}


@dataclass(frozen=True)
class _Asked:
    """What `cases mutants` was asked for."""

    count: int
    seed: str | None
    seeds: int
    jobs: int
    changed: bool
    sandbox: str
    out: Path | None
    as_json: bool


@click.command()
@click.argument("case_id", metavar="CASE", shell_complete=case_names)
@click.option("--count", type=click.IntRange(1), default=30, show_default=True, help="Mutants to draw.")
@click.option("--seed", metavar="HEX", help="The draw, data and judge's inputs of the run that printed this seed.")
@click.option(
    "--seeds", type=click.IntRange(1, 100), default=2, show_default=True, help="On which a living mutant has success."
)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Mutants side by side.")
@click.option("--changed", is_flag=True, help="Only in functions that the starter does not have word for word.")
@click.option("--out", type=PATH, help="A new folder: for each living mutant one that `cases patch --from` takes.")
@sandbox()
@CASES
@as_json()
@gathered("asked", _Asked)
def mutants(case_id: str, folders: DataFolders, asked: _Asked) -> None:
    """Change the solution of a case in one place, and see whether its checks notice.

    Each mutant is one change of one kind, such as a comparison the other way round, a constant off by one or a call
    left out. It is run and judged as a wrong answer is. caught: no success on a seed. alive: success on all of them,
    with the change as a diff; it computes the same by other means, or task.md forbids it and no check looks. lost: the
    machine or a check failed, so nothing is known.

    The draw takes about as many of each kind, and of those about as many in each function. Mutants that compile to the
    same code are left out. Ctrl-C ends at once, with what was found so far.

    Exit status: 0 however many are alive, since what they mean is for the author to judge; 2 the command, the set-up
    or the solution itself is wrong; 130 interrupted.
    """
    from bench.authoring import ProofSeed, draw, open_hunt, solution_mutants
    from bench.formats.case import load_one_case
    from bench.sandbox import choose_sandbox

    interrupt_on_sigterm()
    if asked.out is not None and asked.out.exists():
        raise UserError("exists already", where=asked.out, remedy="name a folder that does not exist")
    case = load_one_case(folders.cases, case_id)
    seed = ProofSeed.parse(asked.seed) if asked.seed is not None else ProofSeed.drawn()
    every = [it for it in solution_mutants(case) if not (asked.changed and it.given)]
    drawn = draw(every, asked.count, seed.text)
    told = _Report(case, seed.text, asked, len(every), drawn)
    told.begin()
    with open_hunt(case, folders, choose_sandbox(asked.sandbox), [seed.later(it) for it in range(asked.seeds)]) as hunt:
        try:
            hunt.require_solution()
            for outcome in hunt.judge_all(drawn, asked.jobs):
                told.add(outcome)
        except KeyboardInterrupt:
            told.conclude(interrupted=True)
            raise
    told.conclude(interrupted=False)


@dataclass
class _Report:
    """What is said of mutants as they are judged, and at the end."""

    case: Case
    seed: str
    asked: _Asked
    every: int
    drawn: Sequence[Mutant]
    found: list[MutantOutcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        # For people each mutant has its line; a program gets everything at the end, and its user sees how far it is.
        self._ticker = Ticker(quiet=not self.asked.as_json)

    def begin(self) -> None:
        self._say(f"seed {self.seed}: of the draw, of data and of the judge's inputs")
        self._say(
            f"{self.case.id}: {counted(self.every, 'mutant')}, {len(self.drawn)} drawn, each judged on "
            f"{counted(self.asked.seeds, 'seed')} after the solution itself"
        )

    def add(self, outcome: MutantOutcome) -> None:
        self.found.append(outcome)
        self._ticker(f"{len(self.found)} of {len(self.drawn)} mutants judged")
        self._say(f"[{len(self.found)}/{len(self.drawn)}] {_line(outcome)}")
        if outcome.fate != "alive":
            return
        for line in printable_lines(outcome.mutant.diff):
            self._say(line)
        if self.asked.out is not None:
            from bench.authoring import lay_out_mutant

            name = outcome.mutant.name
            lay_out_mutant(self.case, outcome.mutant, self.asked.out / name)
            self._say(
                f"wrote {self.asked.out / name}; to make it a wrong answer: "
                f"ml-dev-bench cases patch {self.case.id} {name} --from {self.asked.out / name}"
            )

    def conclude(self, *, interrupted: bool) -> None:
        self._ticker.clear()
        if self.asked.as_json:
            print_json(self._document(interrupted))
            return
        # Repeated together, because they may stand far apart in a long list.
        for fate in ("lost", "alive"):
            for outcome in self.found:
                if outcome.fate == fate:
                    self._say(_line(outcome))
        fates = Counter(it.fate for it in self.found)
        missing = len(self.drawn) - len(self.found)
        given = sum(it.fate == "alive" and it.mutant.given for it in self.found)
        where = f" ({given} in what the starter gives)" if given else ""
        self._say(
            f"{counted(len(self.found), 'mutant')}: {fates['caught']} caught, {fates['alive']} alive{where}, "
            f"{fates['lost']} lost{f'; {missing} not judged' if interrupted else ''}"
        )

    def _document(self, interrupted: bool) -> dict[str, Any]:
        return {
            "case": self.case.id,
            "seed": self.seed,
            "seeds": self.asked.seeds,
            "mutants": self.every,
            "drawn": len(self.drawn),
            "interrupted": interrupted,
            "outcomes": [_facts(it) for it in self.found],
        }

    def _say(self, line: str) -> None:
        if not self.asked.as_json:
            click.echo(line)


def _line(outcome: MutantOutcome) -> str:
    text, colour = _MARKS[outcome.fate]
    mutant = outcome.mutant
    where = f" in {mutant.function}{' (given by the starter)' if mutant.given else ''}" if mutant.function else ""
    detail = printable(outcome.detail, 300)
    return f"{click.style(text, fg=colour)} {mutant.name} of {mutant.path}{where} ({outcome.seconds:.1f} s): {detail}"


def _facts(outcome: MutantOutcome) -> dict[str, Any]:
    mutant = outcome.mutant
    facts = {name: getattr(mutant, name) for name in ("name", "kind", "path", "line", "function", "given", "diff")}
    return {**facts, **{name: value for name, value in asdict(outcome).items() if name != "mutant"}}
