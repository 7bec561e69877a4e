"""What was kept of a cell beside its record, as its page shows it: steps, changes of the workspace, the agent's log.

Everything here was written by an agent or a model: it is read within bounds, and the templates escape it.
"""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from bench.formats.model_usage import Tokens
from bench.formats.record import CheckResult

if TYPE_CHECKING:
    from bench.gateway import Step, ToolUse

READ = ("calls.jsonl", "calls.bodies.jsonl", "changes.json", "workspace.json", "agent.log")
"""The files that pages are made from."""
_LEDGER, _CHANGES, _INVENTORY, _LOG = READ[0], *READ[2:]
_MOST_STEPS = 150
_MOST_TEXT = 300_000
"""Characters of all steps of a page."""
_MOST_PARTS = 100
"""Texts of one kind in a step: each takes room on the page, however short it is."""
MOST_WORDS = 5000
"""Characters of one text of a step."""
_HEADLINE = 110
_MOST_LOG = 24_000
_MOST_FILES = 40
_MOST_LINES = 400
_COMPARED = 2000
"""Lines of a text that are compared; a longer one is shown as new."""
_WORK = 200_000
"""Pairs of equal lines from which comparing takes too long."""
_AROUND = 3
_NAME = re.compile(r"[\w./-]*\w\.\w{1,6}")


class _Document(BaseModel):
    """As far as pages need it."""

    model_config = ConfigDict(frozen=True)


class _Inventory(_Document):
    added: list[str] = []
    changed: list[str] = []
    removed: list[str] = []


class _ChangedText(_Document):
    name: str
    before: str | None
    after: str | None


class _LeftOut(_Document):
    name: str
    why: str


class _Changes(_Document):
    files: list[_ChangedText] = []
    left_out: list[_LeftOut] = []


_DocumentT = TypeVar("_DocumentT", bound=_Document)


@dataclass(frozen=True)
class FileChange:
    """One file of the workspace, before and after the agent."""

    name: str
    kind: str
    """`added`, `changed` or `removed`."""
    lines: Sequence[tuple[str, str]]
    """Sign (` `, `+`, `-`, or `@` for a gap) and text."""
    added: int
    removed: int
    more: int
    """Lines that are not shown."""


@dataclass(frozen=True)
class CellTrace:
    """All of it, as pages show it."""

    steps: Sequence[Step]
    more_steps: int
    calls: int
    has_calls: bool
    """Was a ledger of calls kept?"""
    tokens_in: int
    cached: int
    tokens_out: int
    usd: float
    unpriced: int
    """Calls whose price is not known."""
    files: Sequence[FileChange]
    unshown: Sequence[tuple[str, str]]
    """Names of files that changed and cannot be shown, with the reason."""
    compared: str
    """Empty, or why there is no comparison of the workspace."""
    log: str
    has_log: bool

    @property
    def changed(self) -> int:
        return len(self.files) + len(self.unshown)


def read_cell(folder: Path) -> CellTrace:
    """What is in the folder of a cell; raises `UserError` where the trace cannot be read."""
    ledger, log = folder / _LEDGER, folder / _LOG
    from bench.gateway import read_steps, read_trace  # only where a trace is read: it takes 0.1 s

    steps = read_steps(read_trace(ledger)) if ledger.is_file() else []
    shown = _shown(steps)
    used = [step.tokens for step in steps if step.tokens is not None]
    files, unshown, compared = _changes(folder)
    raw = log.read_bytes() if log.is_file() else b""
    return CellTrace(
        steps=shown,
        more_steps=len(steps) - len(shown),
        calls=len(steps),
        has_calls=ledger.is_file(),
        tokens_in=sum(map(given, used)),
        cached=sum(it.cache_read or 0 for it in used),
        tokens_out=sum(it.output or 0 for it in used),
        usd=sum(step.cost_usd or 0.0 for step in steps),
        unpriced=sum(step.tokens is not None and step.cost_usd is None for step in steps),
        files=files,
        unshown=unshown,
        compared=compared,
        log=raw[-_MOST_LOG:].decode("utf-8", "replace") if raw else "",
        has_log=log.is_file(),
    )


def _shown(steps: Sequence[Step]) -> list[Step]:
    """The first steps, as many as a page of bounded size holds."""
    found: list[Step] = []
    room = _MOST_TEXT
    for step in map(_shortened, steps[:_MOST_STEPS]):
        texts = [step.text, step.thought, step.error, *(said.text for said in step.said)]
        texts += [text for tool in step.tools for text in (tool.arguments, *tool.observations)]
        room -= sum(min(len(text), MOST_WORDS) for text in texts)
        if room < 0 and found:
            break
        found.append(step)
    return found


def _shortened(step: Step) -> Step:
    """The step with as many texts as a page shows of it, and a word on how many are left out."""
    said, tools = step.said[:_MOST_PARTS], step.tools[:_MOST_PARTS]
    if more := len(step.said) - len(said):
        said.append(replace(said[-1], text=f"[{more} more are in the archive alone]"))
    if more := len(step.tools) - len(tools):
        tools.append(replace(tools[-1], name=f"[{more} more are in the archive alone]", arguments="", observations=[]))
    tools = [replace(it, observations=it.observations[:_MOST_PARTS]) for it in tools]
    return replace(step, said=said, tools=tools)


def headline(step: Step) -> tuple[str, str]:
    """A step in one line, as what it is and the rest: its tool calls, else its words, else why it brought nothing."""
    if step.status != "ok":
        return step.status, step.code or step.error[:_HEADLINE] or "no reason is known"
    if step.tools:
        first = step.tools[0]
        given = " ".join(" ".join(text for _, text in arguments(first)).split())
        more = f" and {len(step.tools) - 1} more" if len(step.tools) > 1 else ""
        return first.name[:40] or "a tool without a name", f"{given[:_HEADLINE]}{more}"
    words = " ".join((step.text or step.thought).split())
    return "", words[:_HEADLINE] or "an answer without words"


def arguments(tool: ToolUse) -> list[tuple[str, str]]:
    """Name and text of each argument of a tool call; without a name where the model did not write a JSON object."""
    try:
        found = json.loads(tool.arguments)
    except (ValueError, RecursionError):
        return [("", tool.arguments)] if tool.arguments else []
    if not isinstance(found, dict):
        return [("", tool.arguments)]
    return [(str(name), it if isinstance(it, str) else json.dumps(it)) for name, it in found.items()]


def given(tokens: Tokens) -> int:
    """All tokens before the model, cached ones too."""
    return (tokens.input_uncached or 0) + (tokens.cache_read or 0) + (tokens.cache_write or 0)


def _changes(folder: Path) -> tuple[list[FileChange], list[tuple[str, str]], str]:
    inventory = _document(folder / _INVENTORY, _Inventory)
    if inventory is None:
        return [], [], "No list of the workspace's files was kept: the agent's part did not end."
    names = [*inventory.added, *inventory.changed, *inventory.removed]
    if not names:
        return [], [], "The agent left every file as it was."
    document = _document(folder / _CHANGES, _Changes)
    if document is None:
        reason = "the texts were not kept; this run is of an older version"
        return [], [(name, reason) for name in names[: 5 * _MOST_FILES]], ""
    found = [_compared(it.name, it.before, it.after) for it in document.files[:_MOST_FILES]]
    unshown = [(it.name, "more files than a page shows") for it in document.files[_MOST_FILES:]]
    unshown += [(it.name, it.why) for it in document.left_out]
    return sorted(found, key=lambda it: (it.kind != "changed", it.name)), unshown[: 5 * _MOST_FILES], ""


def _document(path: Path, form: type[_DocumentT]) -> _DocumentT | None:
    """None: it is not there, or has another form. Who owns a machine may have written it."""
    try:
        return form.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def _compared(name: str, before: str | None, after: str | None) -> FileChange:
    old, new = (before or "").splitlines(), (after or "").splitlines()
    kind = "added" if before is None else "removed" if after is None else "changed"
    lines = _difference(old, new)
    shown = [(sign, text[:500]) for sign, text in lines[:_MOST_LINES]]
    counts = Counter(sign for sign, _ in lines)
    return FileChange(name, kind, shown, counts["+"], counts["-"], max(0, len(lines) - _MOST_LINES))


def _difference(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, str]]:
    """As unified diffs have it; where comparing would take too long, the old text and then the new one."""
    counts = Counter(new)
    work = sum(counts[line] for line in old)
    if not old or not new or max(len(old), len(new)) > _COMPARED or work > _WORK:
        return [*(("-", line) for line in old), *(("+", line) for line in new)]
    found: list[tuple[str, str]] = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_AROUND):
        if found:
            found.append(("@", ""))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                found += [(" ", line) for line in old[i1:i2]]
                continue
            found += [("-", line) for line in old[i1:i2]]
            found += [("+", line) for line in new[j1:j2]]
    return found


@dataclass(frozen=True)
class CheckLinks:
    """Where to look after a check failed."""

    file: str
    """A file that the agent changed and the check's words name, or the only one; empty: none."""
    file_anchor: str
    step: int
    """The last call that named it, else the last one that used a tool; 0: none."""
    about_file: bool
    """Was the step chosen by the file?"""


def check_links(check: CheckResult, trace: CellTrace) -> CheckLinks:
    """By names alone: what a check says and what a step says of files."""
    words = {word.lstrip("./") for word in _NAME.findall(f"{check.message} {check.about} {check.id}")}
    changed = [it.name for it in trace.files]
    named = [name for name in changed if name in words or name.rpartition("/")[2] in words]
    wanted = named[0] if named else changed[0] if len(changed) == 1 else ""
    names = [wanted] if wanted else sorted(words)
    acting = [step for step in trace.steps if step.tools]
    about = [step for step in acting if any(name in tool.arguments for name in names for tool in step.tools)]
    chosen = about or acting
    anchor = f"file-{changed.index(wanted) + 1}" if wanted else ""
    return CheckLinks(wanted, anchor, chosen[-1].call if chosen else 0, bool(about))
