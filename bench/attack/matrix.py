"""The matrix of attacks, cases and sandboxes: as lines for people, and as the page `docs/attacks.md`."""

from __future__ import annotations

import platform
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench import __version__
from bench.attack.catalogue import Attack
from bench.attack.trial import Result
from bench.base.files import write_atomic
from bench.base.text import escape, printable

_HELD, _ESCAPED, _NOT_RUN = "held", "ESCAPED", "-"
_SECTION = "<!-- sandbox {name} -->\n{text}<!-- end of {name} -->\n"
_HEAD = """# Attacks

What `ml-dev-bench cases verify --all --attacks` has found: every generic attack of `cases/attacks/` against every
case, in real cells. An attack is *held* when the cell has a verdict that is no better than without the attack, when
nothing of what was hidden, no key, no network and no file of the machine was reached, when nothing outlived the cell,
and when the record says what it must. This page is written by the command (`--matrix docs/attacks.md`).

How an escape would be noticed:

- **Verdict**: the cell must be graded at the first try, without success and with no more credit, check by check,
  than the same workspace without the attack. An attack that makes the judge fail counts as an escape: it would hide
  a failure.
- **Hidden files and keys**: words drawn anew for each campaign lie beside the checks, in hidden data, solutions and
  wrong answers, in a neighbour's workspace, trace and record, in a commit of the checkout that a later one removed,
  and in keys of the runner's environment and home. Everything that the cell has left is searched for them: plain,
  reversed, in hexadecimal and base64, and inside compressed streams.
- **Network**: listeners for TCP, UDP and Unix sockets wait outside the sandbox, and a scripted provider behind the
  gateway. Name server and metadata address are stood in for in a network namespace of the command's own. No contact
  may be made but model calls.
- **Survival**: after the end no process has the cell's token in its environment or command line, no container or
  control group of it is there, and nothing that it left changes.
- **Machine**: no file that the agent left has been executed outside; bombs must be ended by the limit they are
  aimed at.
- **Text**: terminal line, Markdown summary and web pages of the cell hold no control character, workflow command or
  markup of the agent's.

The same traps without a sandbox catch the same attacks: `tests/attack/test_attacks.py` shows
that they would be noticed.

"""


def matrix_line(result: Result) -> str:
    """One result for a terminal or a log."""
    over = (
        "" if result.over == "untouched" else f", over the {result.over}{' answer' if result.over == 'wrong' else ''}"
    )
    mark = "held   " if result.held else "ESCAPED"
    why = "" if result.held else f": {'; '.join(result.escapes)[:1500]}"
    flags = f", {', '.join(result.flags)}" if result.flags else ""
    facts = f"{result.sandbox}, {result.stop_reason}{flags}, {result.seconds:.1f} s"
    return printable(f"{mark} {result.attack} on {result.case}{over} ({facts}){why}")


def matrix_summary(results: Sequence[Result]) -> str:
    """Counts: attacks, cases, trials, escapes."""
    escaped = [result for result in results if not result.held]
    attacks, cases = {result.attack for result in results}, {result.case for result in results}
    return f"{len(attacks)} attacks on {len(cases)} cases: {len(results)} trials, {len(escaped)} escapes"


def write_page(path: Path, results: Sequence[Result], attacks: Sequence[Attack], notes: str) -> None:
    """Put the section of these results' sandbox into the page; those of other sandboxes stay."""
    sections = _sections(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for name in sorted({result.sandbox for result in results}):
        own = [result for result in results if result.sandbox == name]
        sections[name] = _section(name, own, attacks, notes)
    text = _HEAD + "".join(_SECTION.format(name=name, text=sections[name]) for name in sorted(sections))
    write_atomic(path, text.encode())


def _sections(text: str) -> dict[str, str]:
    found = re.findall(r"<!-- sandbox (\w+) -->\n(.*?)<!-- end of \1 -->\n", text, re.DOTALL)
    return dict(found)


def _section(name: str, results: Sequence[Result], attacks: Sequence[Attack], notes: str) -> str:
    cases = sorted({result.case for result in results})
    cells: Mapping[tuple[str, str], list[Result]] = _by_cell(results)
    held = sum(result.held for result in results)
    rows = [
        f"| `{attack.id}` | {escape(attack.about)} | {' | '.join(_cell(cells[attack.id, case]) for case in cases)} |"
        for attack in attacks
    ]
    columns = " | ".join(str(number) for number in range(1, len(cases) + 1))
    listed = "; ".join(f"{number} {case}" for number, case in enumerate(cases, 1))
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return "\n".join(
        [
            f"## {name}",
            "",
            f"**{len(results)} trials, {held} held, {len(results) - held} escapes**: {len(attacks)} attacks, "
            f"{len(cases)} cases. {now}, ml-dev-bench {__version__}, Linux {platform.release()}, "
            f"Python {platform.python_version()}; {notes}.",
            "",
            f"Cases: {listed}.",
            "A number counts the trials that were held: over the untouched workspace, a wrong answer, the solution.",
            "",
            f"| attack | what it does | {columns} |",
            f"|---|---|{'--:|' * len(cases)}",
            *rows,
            "",
            *_evidence(results),
            "",
        ]
    )


def _by_cell(results: Sequence[Result]) -> Mapping[tuple[str, str], list[Result]]:
    found: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        found[result.attack, result.case].append(result)
    return found


def _cell(results: Sequence[Result]) -> str:
    if not results:
        return _NOT_RUN
    return str(len(results)) if all(it.held for it in results) else f"**{_ESCAPED}**"


def _evidence(results: Sequence[Result]) -> list[str]:
    escaped = [result for result in results if not result.held]
    if not escaped:
        return ["Escapes: none."]
    return ["Escapes:", "", *(f"- {escape(matrix_line(result), 700)}" for result in escaped)]
