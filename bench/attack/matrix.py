"""What was tried in which sandbox, and what came of it: kept as data, from which a page is written."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field

from bench import __version__
from bench.attack.catalogue import Attack
from bench.attack.trial import Result
from bench.base.errors import UserError
from bench.base.files import write_atomic
from bench.base.model import Model, read_json
from bench.base.text import counted, escape, printable


class Tried(Model):
    """The attacks that one campaign carried out against a case."""

    day: str
    conditions: str
    """Versions, and what was stood in for."""
    trials: dict[str, int]
    """How many, by attack: over the untouched workspace, a wrong answer, the solution."""
    escapes: dict[str, list[str]] = Field(default_factory=dict)
    """By attack, what is to be said of each trial that was not held."""

    def without(self, attacks: Collection[str]) -> Tried:
        """What is left when other trials of these attacks take their place."""
        trials = {attack: number for attack, number in self.trials.items() if attack not in attacks}
        escapes = {attack: lines for attack, lines in self.escapes.items() if attack not in attacks}
        return self.model_copy(update={"trials": trials, "escapes": escapes})

    @property
    def escaped(self) -> list[str]:
        return [line for lines in self.escapes.values() for line in lines]


class Matrix(Model):
    """By sandbox and case."""

    tried: dict[str, dict[str, list[Tried]]] = Field(default_factory=dict)

    def cases(self, sandbox: str) -> dict[str, list[Tried]]:
        """What was tried in a sandbox."""
        return self.tried.get(sandbox, {})

    def attacks(self, sandbox: str, case: str) -> Counter[str]:
        """Trials by attack."""
        return sum((Counter(it.trials) for it in self.cases(sandbox).get(case, [])), Counter())


@dataclass(frozen=True)
class Everything:
    """What there is to try."""

    attacks: Sequence[Attack]
    cases: Sequence[str]


def read_matrix(page: Path) -> Matrix:
    """The data of a page, which is kept beside it, in a file of the same name that ends with .json.

    Raises `UserError`; so it is read before a campaign, which takes hours.
    """
    data = page.with_suffix(".json")
    if data == page:
        raise UserError("is where the data of the page would be", where=page, remedy="name a page that ends with .md")
    return read_json(data, Matrix, remedy="restore or remove it") if data.is_file() else Matrix()


def write_matrix(page: Path, matrix: Matrix, every: Everything) -> None:
    """Write the data, and the page anew."""
    write_atomic(page.with_suffix(".json"), _one_line_a_campaign(matrix).encode())
    write_atomic(page, matrix_page(matrix, every).encode())


def with_results(matrix: Matrix, results: Sequence[Result], notes: str) -> Matrix:
    """The matrix with these in the place of earlier results of the same attacks, cases and sandboxes."""
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    program = f"ml-dev-bench {__version__}, Linux {platform.release()}, Python {platform.python_version()}"
    tried = {sandbox: dict(cases) for sandbox, cases in matrix.tried.items()}
    for sandbox, case in sorted({(it.sandbox, it.case) for it in results}):
        own = [it for it in results if (it.sandbox, it.case) == (sandbox, case)]
        trials = Counter(it.attack for it in own)
        escapes: dict[str, list[str]] = {}
        for it in own:
            if not it.held:
                escapes.setdefault(it.attack, []).append(matrix_line(it))
        new = Tried(day=day, conditions=f"{program}; {notes}", trials=dict(trials), escapes=escapes)
        left = [it.without(trials) for it in matrix.cases(sandbox).get(case, [])]
        tried.setdefault(sandbox, {})[case] = [*(it for it in left if it.trials), new]
    return Matrix(tried=tried)


def _one_line_a_campaign(matrix: Matrix) -> str:
    """JSON whose differences can be read."""
    sandboxes = []
    for sandbox, cases in sorted(matrix.tried.items()):
        of_cases = [f'"{case}": [\n{_joined(it.model_dump_json() for it in cases[case])}\n]' for case in sorted(cases)]
        sandboxes.append(f'"{sandbox}": {{\n{_joined(of_cases)}\n}}')
    return f'{{"tried": {{\n{_joined(sandboxes)}\n}}}}\n'


def _joined(parts: Iterable[str]) -> str:
    return ",\n".join(parts)


def matrix_page(matrix: Matrix, every: Everything) -> str:
    """The page as Markdown: each sandbox with its cases, and what each attack does."""
    head = Path(__file__).with_name("page.md").read_text(encoding="utf-8")
    sections = [_sandbox_section(matrix, sandbox, every) for sandbox in sorted(matrix.tried)]
    return "\n".join([head, *sections, _attacks_section(matrix, every)])


def _sandbox_section(matrix: Matrix, sandbox: str, every: Everything) -> str:
    cases = matrix.cases(sandbox)
    escapes = [line for some in cases.values() for it in some for line in it.escaped]
    total = sum(matrix.attacks(sandbox, case).total() for case in cases)
    attacks = {attack for case in cases for attack in matrix.attacks(sandbox, case)}
    rows = [
        f"| {case} | {it.day} | {len(it.trials)} | {sum(it.trials.values())} | {len(it.escaped)} | {it.conditions} |"
        for case in sorted(cases)
        for it in cases[case]
    ]
    return "\n".join(
        [
            f"## {sandbox}",
            "",
            f"**{counted(total, 'trial')}, {counted(len(escapes), 'escape')}**: "
            f"{counted(len(attacks), 'attack')}, {counted(len(cases), 'case')}.",
            "",
            "| case | tried on | attacks | trials | escapes | with |",
            "|---|---|--:|--:|--:|---|",
            *rows,
            "",
            *(["Escapes:", "", *(f"- {escape(line, 700)}" for line in escapes), ""] if escapes else []),
            *_not_tried(matrix, sandbox, every),
        ]
    )


def _not_tried(matrix: Matrix, sandbox: str, every: Everything) -> Iterator[str]:
    ids = [attack.id for attack in every.attacks]
    absent = [case for case in sorted(every.cases) if case not in matrix.cases(sandbox)]
    if absent:
        yield f"Not tried on: {', '.join(absent)}."
        yield ""
    lacking: dict[tuple[str, ...], list[str]] = {}
    for case in sorted(set(matrix.cases(sandbox)).intersection(every.cases)):
        if left := tuple(it for it in ids if it not in matrix.attacks(sandbox, case)):
            lacking.setdefault(left, []).append(case)
    for left, those in lacking.items():
        yield f"Not tried on {', '.join(those)}: {', '.join(f'`{it}`' for it in left)}."
        yield ""


def _attacks_section(matrix: Matrix, every: Everything) -> str:
    sandboxes = sorted(matrix.tried)
    heads = "".join(f" {sandbox}: cases | trials |" for sandbox in sandboxes)
    rows = [f"| `{it.id}` | {escape(it.about)} |{_reach(matrix, it.id, sandboxes)}" for it in every.attacks]
    return "\n".join(
        [
            "## The attacks",
            "",
            f"| attack | what it does |{heads}",
            f"|---|---|{'--:|--:|' * len(sandboxes)}",
            *rows,
            "",
        ]
    )


def _reach(matrix: Matrix, attack: str, sandboxes: Sequence[str]) -> str:
    numbers = []
    for sandbox in sandboxes:
        trials = [number for case in matrix.cases(sandbox) if (number := matrix.attacks(sandbox, case)[attack])]
        numbers.append(f" {len(trials)} | {sum(trials)} |")
    return "".join(numbers)


def matrix_line(result: Result) -> str:
    """One result for a terminal or a log."""
    over = {"untouched": "", "wrong": ", over the wrong answer", "solution": ", over the solution"}[result.over]
    mark = "held   " if result.held else "ESCAPED"
    why = "" if result.held else f": {'; '.join(result.escapes)[:1500]}"
    flags = f", {', '.join(result.flags)}" if result.flags else ""
    facts = f"{result.sandbox}, {result.stop_reason}{flags}, {result.seconds:.1f} s"
    return printable(f"{mark} {result.attack} on {result.case}{over} ({facts}){why}")


def matrix_summary(results: Sequence[Result]) -> str:
    """Counts: attacks, cases, trials, escapes."""
    escaped = [result for result in results if not result.held]
    attacks, cases = {result.attack for result in results}, {result.case for result in results}
    what = f"{counted(len(attacks), 'attack')} on {counted(len(cases), 'case')}"
    return f"{what}: {counted(len(results), 'trial')}, {counted(len(escaped), 'escape')}"
