"""Why a cell has no success: in one sentence for a line of progress, in a few for `results explain`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.base.text import printable
from bench.formats.failures import FAILURE_MODES, FAILURES, paper_names

if TYPE_CHECKING:
    from bench.formats.record import CheckResult, Record

_LONGEST = 2000


def failed_checks(record: Record) -> list[CheckResult]:
    """The checks that did not pass, those that decide about success first."""
    return sorted((it for it in record.checks if not it.passed), key=lambda it: not (it.required or it.guard))


def failed_check_line(record: Record, longest: int = 200) -> str:
    """The first check that failed, with its message, and how many more did; empty where all passed."""
    failed = failed_checks(record)
    if not failed:
        return ""
    first, *others = failed
    said = next((line for line in first.message.splitlines() if line.strip()), "no message")
    more = f" (and {len(others)} more check{'s' * (len(others) > 1)})" if others else ""
    return f"{printable(first.id)}: {printable(said.strip(), longest)}{more}"


@dataclass(frozen=True)
class Reason:
    """Why there is no success: a word, and what it means here."""

    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


def reasons(record: Record) -> list[Reason]:
    """Why there is no success, the likeliest cause first; empty for a success."""
    if record.outcome != "graded":
        return _lost(record)
    if record.success:
        return []
    found = []
    for note in record.failure_modes:
        about = FAILURE_MODES.get(note.name, note.name.replace("_", " "))
        if names := paper_names(note.name):
            about = f"{about} ({names})"
        found.append(Reason(note.name, f"{about}; {printable(note.evidence, _LONGEST)}" if note.evidence else about))
    if check := failed_check_line(record, _LONGEST):
        found.append(Reason("failed check", check))
    return found or [Reason("unknown", "the record does not say why")]


def _lost(record: Record) -> list[Reason]:
    failure = FAILURES.get(record.cause)
    about = failure.about if failure else record.cause
    said = f"{about}; {printable(record.error, _LONGEST)}" if record.error else about
    found = [Reason(record.cause or record.outcome, said)]
    if record.tries:
        before = printable(record.tries[-1].message, 300)
        found.append(Reason("tries", f"{len(record.tries) + 1}; the one before: {before}"))
    return [*found, Reason("not scored", "this does not count against the agent")]
