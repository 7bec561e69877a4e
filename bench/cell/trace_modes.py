"""Failure modes that only the trace shows: what the model asked its tools for, what they brought, and its last words.

All of it is what the agent's program told the model and what the model answered: evidence for a reader, which no score
depends on. An agent without tool calls is read by its answers and what followed them.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from bench.base.errors import UserError
from bench.cell.format_failure import format_failure
from bench.gateway import Step, read_steps, read_trace

_LARGEST_TRACE = 64 << 20
"""Bytes of ledger and messages; a larger trace is not read again."""
_LONGEST_READ = 20_000
"""Characters at either end of an observation in which signs are looked for."""
_TESTS_IN_A_ROW = 5
_FAILED_EDITS = 3
_FAILED_RUNS = 3
_SOUND_RUNS = 4
_FLAGS = re.IGNORECASE | re.MULTILINE
_CHANGES_BY_NAME = re.compile(r"write|edit|create|replace|insert|patch|apply|undo", _FLAGS)
_CHANGES_BY_COMMAND = re.compile(
    r"(?<![0-9&])>{1,2}(?!&|\s*/dev/)\s*[\w./~\"'$-]+|\btee\b|\bsed\s+(-\w+\s+)*-\w*i|\b(cp|mv|rm|patch|touch|mkdir)\s|"
    r"\bgit (apply|checkout|restore|stash)\b|open\([^)]*['\"][wa]b?['\"]|\.write_(text|bytes)\(",
    _FLAGS,
)
_VIEWS = re.compile(r'"command":\s*"(view|read|list)"', _FLAGS)
_TESTS = re.compile(
    r"\b(pytest|unittest|nosetests|tox)\b|\b\w*(test|check|verify|evaluat|validat)\w*\.(py|sh)\b", _FLAGS
)
_STARTS_BY_NAME = re.compile(r"spawn|background|start_(process|command|job)", _FLAGS)
_STARTS_BY_COMMAND = re.compile(r"\b(nohup|setsid)\b|(?<![&>])&\s*(?:[\"'}\n]|$|echo\b|disown\b|\\n)", _FLAGS)
_LOOKS_AFTER = re.compile(
    r"\b(wait\w*|sleep|tail|ps|pgrep|jobs|fg|kill\w*|list_processes|status|poll\w*|check_\w+)\b|\.log\b", _FLAGS
)
_UNFINISHED = re.compile(
    r"\btimed out\b|\bended by the time limit\b|\btime-?out (?:of|after|expired|reached)\b|\bstill running\b|"
    r"\bhas not (?:ended|finished)\b|\bno change timeout\b|\bexit (?:status|code)[ :=]+124\b|: running\b",
    _FLAGS,
)
_FAILS = re.compile(
    r"Traceback \(most recent call last\)|^[ \t]*\w*(?:Error|Exception)\b|^[ \t]*error:|command not found|"
    r"\b[1-9]\d* failed\b|"
    r"\b(?:exit(?:ed)?(?: with)?(?: status| code)?|status|return ?code)[ :=]+-?(?:[1-9]\d?|1\d\d)\b(?!\d)",
    _FLAGS,
)
_NAMED_ERROR = re.compile(r"^\s*[\w.]*(?:Error|Exception)\b")
_FAILED_EDIT = re.compile(
    r"IndentationError|SyntaxError|unexpected indent|^[ \t]*(?:error|failed|invalid)\b|\bno (?:match|replacement)|"
    r"\bnot found\b|\bdid not (?:match|appear)|\bmultiple occurrences\b|does not exist",
    _FLAGS,
)
_ASKS = re.compile(
    r"\?\s*\Z|\bplease (?:confirm|let me know|advise|clarify|provide)|\blet me know (?:if|whether|how|which|what)|"
    r"\b(?:should|shall|may|can) I (?:proceed|continue|go on|start)|\bwould you like|\bdo you want",
    _FLAGS,
)
_TOO_LONG = re.compile(
    r"context_length_exceeded|maximum context length|context (?:window|length)|prompt is too long|"
    r"(?:input|prompt|request)[^.\n]{0,60}(?:too long|too many tokens|exceed\w* the (?:model|maximum))",
    _FLAGS,
)
_FIGURE = re.compile(
    r"(?:accuracy|loss|error|score|iou|f1|auc|perplexity)\b[^.\n\d]{0,40}(\d+(?:\.\d+)?)\s*(%|per cent)?", _FLAGS
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE]-?\d{1,2})?")
_LAST_TOOLS = frozenset({"submit", "finish", "final_answer", "done", "complete"})


@dataclass(frozen=True)
class _Action:
    """One thing the agent's program did for the model, and what came of it."""

    name: str
    given: str
    brought: str
    seen: bool
    """The model was told what came of it."""

    @property
    def changes(self) -> bool:
        """It writes files."""
        if _VIEWS.search(self.given):
            return False
        return bool(_CHANGES_BY_NAME.search(self.name) or _CHANGES_BY_COMMAND.search(self.given))

    @property
    def edits(self) -> bool:
        """It is a tool for editing, and not a command."""
        return bool(_CHANGES_BY_NAME.search(self.name)) and not _VIEWS.search(self.given)

    @property
    def runs(self) -> bool:
        """It runs something."""
        return (
            not self.edits and not _VIEWS.search(self.given) and not re.match(r"read|tree|list|change_dir", self.name)
        )

    @property
    def fails(self) -> bool:
        return bool(_FAILS.search(self.brought))

    @property
    def starts_job(self) -> bool:
        return bool(_STARTS_BY_NAME.search(self.name) or _STARTS_BY_COMMAND.search(self.given))

    @property
    def shown(self) -> str:
        return f"{self.name} {' '.join(self.given.split())[:160]}".strip()


def modes_of_trace(ledger: Path, *, ended_by_itself: bool, unimproved: bool) -> list[tuple[str, str]]:
    """Names of failure modes with their evidence; empty without a trace that can be read.

    ended_by_itself: no limit and no crash ended the agent. unimproved: its result is not better than the baseline.
    """
    steps = _steps_of(ledger)
    if not steps:
        return []
    actions = list(_actions(steps))
    found = [
        ("context_overflow", _context_overflow(steps)),
        ("format_failure", format_failure(steps)),
        ("failed_edits", _failed_edits(actions)),
        ("excessive_verification", _excessive_verification(actions)),
        ("debugging_failure", _debugging_failure(actions)),
        ("bad_plan", _bad_plan(actions) if unimproved else ""),
        ("hallucination", _hallucination(steps, actions)),
    ]
    if ended_by_itself:
        found += [
            ("asked_user", _asked_user(steps)),
            ("ended_before_job", _ended_before_job(actions)),
            ("job_left_running", _job_left_running(actions)),
        ]
    return found


def serve(orders: dict[str, Any], answers: BinaryIO) -> None:
    """In a fork of the judge's server: the failure modes of the trace at `orders["ledger"]`, as JSON."""
    found = modes_of_trace(Path(orders["ledger"]), **orders["facts"])
    answers.write(json.dumps(found).encode())


def _steps_of(ledger: Path) -> list[Step]:
    sizes = [path.stat().st_size for path in ledger.parent.glob("calls*.jsonl")] if ledger.is_file() else []
    if not sizes or sum(sizes) > _LARGEST_TRACE:
        return []
    try:
        return read_steps(read_trace(ledger))
    except UserError:
        return []  # a gateway that was killed; the record says so


def _actions(steps: Sequence[Step]) -> Iterator[_Action]:
    answered = [step for step in steps if step.status == "ok"]
    if any(step.tools for step in answered):
        for step in answered:
            for use in step.tools:
                brought = "\n".join(_ends(text) for text in use.observations)
                yield _Action(use.name, _command_of(use.arguments), brought, bool(use.observations))
        return
    for step, later in itertools.pairwise(answered):
        yield _Action("", step.text, "\n".join(_ends(said.text) for said in later.said), True)


def _command_of(arguments: str) -> str:
    """What a tool was given, with line breaks of a command as such."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(given, dict):
        return arguments
    command = given.get("command")
    # An editor's `command` is the name of what it does; a shell's is the whole of it.
    return command if isinstance(command, str) and len(given) <= 3 and "path" not in given else arguments


def _ends(text: str) -> str:
    return text if len(text) <= 2 * _LONGEST_READ else f"{text[:_LONGEST_READ]}\n{text[-_LONGEST_READ:]}"


def _context_overflow(steps: Iterable[Step]) -> str:
    for step in steps:
        if step.status != "ok" and _TOO_LONG.search(f"{step.code} {step.error}"):
            return f"call {step.call}: {' '.join(f'{step.code} {step.error}'.split())[:300]}"
    return ""


def _failed_edits(actions: Sequence[_Action]) -> str:
    edits = [it for it in actions if it.edits and it.seen]
    failed = [it for it in edits if _FAILED_EDIT.search(it.brought) or it.fails]
    if len(failed) >= _FAILED_EDITS and 3 * len(failed) >= len(edits):
        return f"{len(failed)} of {len(edits)} edits failed; the last: {_first_line(failed[-1].brought)}"
    return ""


def _excessive_verification(actions: Sequence[_Action]) -> str:
    """The same files were tested again and again after they had passed."""
    row: list[_Action] = []
    for it in actions:
        if it.changes:
            row = []
        elif it.runs and it.seen and _TESTS.search(it.given):
            row = [] if it.fails else [*row, it]
        if len(row) >= _TESTS_IN_A_ROW:
            return f"{len(row)} tests passed in a row with no change to a file between them; the last: {row[-1].shown}"
    return ""


def _debugging_failure(actions: Sequence[_Action]) -> str:
    runs = [it for it in actions if it.runs and it.seen]
    last = runs[-_FAILED_RUNS:]
    if len(last) == _FAILED_RUNS and all(it.fails for it in last) and any(it.changes for it in actions):
        return f"the last {_FAILED_RUNS} runs failed: {_first_line(_failure_in(last[-1]))}"
    return ""


def _bad_plan(actions: Sequence[_Action]) -> str:
    sound = [it for it in actions if it.runs and it.seen and not it.fails]
    changes = sum(it.changes for it in actions)
    if len(sound) >= _SOUND_RUNS and changes >= 2:
        return f"{changes} changes and {len(sound)} runs without an error, and no better than the baseline"
    return ""


def _hallucination(steps: Sequence[Step], actions: Sequence[_Action]) -> str:
    """The last words name a result that the model never read and that nothing it wrote or ran holds."""
    last = next((step for step in reversed(steps) if step.status == "ok"), None)
    if last is None:
        return ""
    submitted = [use.arguments for use in last.tools if use.name in _LAST_TOOLS]
    said = "\n".join([last.text, *submitted])
    known = "\n".join([*(it.brought for it in actions), *(text.text for step in steps for text in step.said)])
    figures = {float(number) for number in _NUMBER.findall(known)}
    for found in _FIGURE.finditer(said):
        number, unit = found.group(1), found.group(2)
        if "." not in number and not unit:
            continue  # a count or a step, more often than a result
        if not _is_known(number, figures):
            return f"says {' '.join(found.group(0).split())[:200]!r}, which nothing that it was shown holds"
    return ""


def _is_known(number: str, figures: Iterable[float]) -> bool:
    """Whether a figure that was shown is `number` when rounded as it is, as a share or in per cent."""
    places = len(number.partition(".")[2])
    wanted, slack = float(number), 0.5000001 * 10.0**-places
    return any(abs(it * scale - wanted) <= slack for it in figures for scale in (1.0, 100.0, 0.01))


def _asked_user(steps: Sequence[Step]) -> str:
    last = next((step for step in reversed(steps) if step.status == "ok"), None)
    if last is None or last.tools:
        return ""
    words = last.text.strip()[-1000:]
    return f"its last words: {' '.join(words.split())[-300:]}" if _ASKS.search(words) else ""


def _ended_before_job(actions: Sequence[_Action]) -> str:
    last = next((it for it in reversed(actions) if it.runs and it.seen), None)
    if last is not None and (sign := _UNFINISHED.search(last.brought)):
        return f"the last it heard of its job: {_line_of(last.brought, sign.start())} ({last.shown})"
    return ""


def _job_left_running(actions: Sequence[_Action]) -> str:
    started: _Action | None = None
    for it in actions:
        if it.starts_job:
            started = it
        elif it.runs and _LOOKS_AFTER.search(f"{it.name} {it.given}"):
            started = None
    return f"started and not looked after again: {started.shown}" if started else ""


def _failure_in(action: _Action) -> str:
    lines = [line for line in action.brought.splitlines() if _FAILS.search(line)]
    named = [line for line in lines if _NAMED_ERROR.search(line)]
    return next(reversed(named or lines), action.brought)


def _first_line(text: str) -> str:
    return next((line.strip()[:200] for line in text.splitlines() if line.strip()), "nothing")


def _line_of(text: str, place: int) -> str:
    return text[text.rfind("\n", 0, place) + 1 :].partition("\n")[0].strip()[:200]
