"""Whether what an agent has written acts on whoever shows it: terminal, job log, summary, pages, comments."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.cli.progress import outcome_line, printable, printable_json
from bench.cli.summary import render
from bench.pages.build import build_site
from bench.pages.model import CaseInfo
from bench.record import Record

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_STYLE = re.compile(r"\x1b\[\d*m")
"""Our own colours."""
_COMMAND = re.compile(r"^\s*::[a-z-]+|##\[|##vso\[", re.MULTILINE)
_TAGS = re.compile(r"<script>alert|<img src=x", re.IGNORECASE)
_LINKS = re.compile(r"\]\(javascript:", re.IGNORECASE)
_CHARACTERS = ("control characters", _CONTROL)
_LOG = (_CHARACTERS, ("a workflow command", _COMMAND))
_MARKDOWN = (*_LOG, ("markup", _TAGS), ("a link", _LINKS))
_PAGE = (_CHARACTERS, ("markup", _TAGS))


def acting_text(record: Record, site: Path) -> list[str]:
    """Places at which text of the agent's would act."""
    found = []
    for name, text, rules in _shown(record, site):
        plain = _STYLE.sub("", text)
        for what, pattern in rules:
            if (match := pattern.search(plain)) is not None:
                found.append(f"{name} shows {what}: {plain[max(0, match.start() - 20) : match.end() + 30]!r}")
    return found


def _shown(record: Record, site: Path) -> Iterator[tuple[str, str, Sequence[tuple[str, re.Pattern[str]]]]]:
    """Name, text, and what must not be in it there."""
    yield "the line of a run", outcome_line(record), _LOG
    yield "the record as JSON", printable_json(record.to_line()), _LOG
    messages = [check.message for check in record.checks] + [note.evidence for note in record.flags]
    yield "the checks' messages", "\n".join(map(printable, messages)), _LOG
    yield "the summary", render([record]), _MARKDOWN
    info = CaseInfo(record.case.id, record.case.category, record.case.title)
    with tempfile.TemporaryDirectory(prefix="mldb-atk-site-") as folder:
        for path in build_site([record], [info], Path(folder) / "site", site):
            if path.suffix in (".html", ".svg", ".csv", ".xml"):
                yield f"the page {path.name}", path.read_text(encoding="utf-8"), _PAGE
