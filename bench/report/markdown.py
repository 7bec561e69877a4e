"""`ml-dev-bench summary`: a run as Markdown, for the page of a workflow run or a comment."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from bench.base.text import counted, escape, first_lines
from bench.formats.verdict import reached_text

if TYPE_CHECKING:
    from bench.formats.record import Record

MAX_BYTES = 1_000_000
"""GitHub shows no summary of more than 1 MiB (1,048,576 bytes)."""
_EVIDENCE_CHARACTERS = 2000
_MOST_NAMED = 20
_MOST_IMPROVEMENTS = 200


def render(records: Sequence[Record], *, commit: str = "", limit: int = MAX_BYTES) -> str:
    """Records as Markdown of at most `limit` bytes; a row that does not fit is counted, never cut in the middle."""
    graded = [record for record in records if record.outcome == "graded"]
    succeeded = sum(bool(record.success) for record in graded)
    head = [
        "## ML-Dev-Bench",
        "",
        f"**{succeeded} of {len(graded)}** graded cells succeeded; {len(records) - len(graded)} without a verdict.",
        _origin(records, commit),
        "",
        *_looks(records),
        *_agents(records),
        "",
        *_improvements(records),
        "| agent | model | case | trial | verdict | score | ended | seconds | findings |",
        "|---|---|---|--:|---|--:|---|--:|---|",
    ]
    # Agents and looks may be many, too: a page over the limit is not shown at all.
    text = first_lines("\n".join(head) + "\n", limit // 2)
    # 400 bytes for the notes about what was left out.
    budget = limit - len(text.encode()) - 400
    rows, left_out = _fitting((_cell_row(record) for record in records), budget)
    budget -= sum(len(row.encode()) for row in rows)
    details, untold = _fitting(_evidence([record for record in records if not record.success]), budget)
    notes = [f"\n{left_out} more cells are in the records.\n"] if left_out else []
    notes += [f"\nMore evidence is in the records ({untold} parts).\n"] if untold else []
    return text + "".join(rows) + "\n" + "".join(details) + "".join(notes)


def render_gate(verdict: str, records: Sequence[Record], notes: Sequence[str], limit: int) -> str:
    """What a gate has found, as Markdown of at most `limit` bytes: the verdict, why, then each case, folded.

    notes: plain text; it is escaped here.
    """
    from bench.report.lines import sequential_lines
    from bench.stats import sequential_state

    state = sequential_state(records)
    lines = [*notes, *(sequential_lines(state) if state is not None else [])]
    head = [f"### ML-Dev-Bench gate: {escape(verdict)}", "", *(f"- {escape(line, 1000)}" for line in lines), ""]
    text = first_lines("\n".join(head) + "\n", limit // 2)
    if not records:
        return text
    opening = (
        "<details><summary>Successes of each case</summary>\n\n| case | base | head | change |\n|---|--:|--:|--:|\n"
    )
    closing = "\n</details>\n"
    rows, left_out = _fitting(_gate_rows(records), limit - len((text + opening + closing).encode()) - 200)
    more = f"\n{left_out} more cases are in the records.\n" if left_out else ""
    return text + opening + "".join(rows) + more + closing


def _gate_rows(records: Sequence[Record]) -> list[str]:
    """A row for each case, first those that fell most."""
    seen: dict[str, dict[str, list[bool]]] = {}
    for record in records:
        if record.outcome == "graded":
            arms = seen.setdefault(record.case.id, {"base": [], "head": []})
            arms.setdefault(record.arm, []).append(bool(record.success))
    shares = {case: {arm: sum(it) / max(1, len(it)) for arm, it in arms.items()} for case, arms in seen.items()}
    changes = {case: share["head"] - share["base"] for case, share in shares.items()}
    rows = []
    for case, change in sorted(changes.items(), key=lambda item: (item[1], item[0])):
        counts = [f"{sum(seen[case][arm])}/{len(seen[case][arm])}" for arm in ("base", "head")]
        rows.append(f"{_line([case, *counts, f'{change:+.2f}'])}\n")
    return rows


def _origin(records: Sequence[Record], commit: str) -> str:
    if not records:
        return ""
    source = records[0].provenance
    profiles = ", ".join(sorted({record.profile for record in records}))
    isolated = "" if source.isolated else ", **which does not isolate**"
    stored = f"commit `{escape(commit)}`" if re.fullmatch(r"[0-9a-f]{40,64}", commit) else "not committed"
    return (
        f"Run {escape(source.run)}; suite {escape(source.suite)} {escape(source.suite_version)}, profile {profiles}; "
        f"sandbox {escape(source.sandbox)}{isolated}; {_seeds(records)}records {stored}."
    )


def _seeds(records: Sequence[Record]) -> str:
    """The mark of cells whose data anyone could compute."""
    from bench.formats.seeds import seeds_mark

    marks = Counter(seeds_mark(record) for record in records)
    named = [f"**{counted(count, 'cell')} on {mark} seeds**" for mark, count in sorted(marks.items()) if mark]
    return f"{', '.join(named)}; " if named else ""


def _looks(records: Sequence[Record]) -> list[str]:
    """What a sequential experiment decided, and each look that it made."""
    from bench.report.lines import sequential_lines
    from bench.stats import sequential_state

    state = sequential_state(records)
    return [] if state is None else [*(f"- {escape(line)}" for line in sequential_lines(state)), ""]


def _agents(records: Sequence[Record]) -> list[str]:
    from bench.report.lines import standing_cells
    from bench.stats import rank, standings, suite_of_records

    suite = suite_of_records(records)
    columns = ("agent", "model", "profile", "success", "score", "cost/cell", "steps")
    rows = []
    for arm in sorted({record.arm for record in records}):
        own = [record for record in records if record.arm == arm]
        for ranked in rank(standings(own, suite)):
            agent, *rest = standing_cells(ranked, columns)
            rows.append([f"{agent} ({arm})" if arm else agent, *rest])
    lines = [_line(cell or "none" for cell in row) for row in rows]
    return [f"| {' | '.join(columns)} |", "|---|---|---|---|---|--:|--:|", *lines]


def _improvements(records: Sequence[Record]) -> list[str]:
    """Both scores of each entrant on each case with a continuous metric."""
    from bench.report.improvement import COLUMNS, improvement_rows
    from bench.stats import RecordResults

    rows = []
    for arm in sorted({record.arm for record in records}):
        found = RecordResults([record for record in records if record.arm == arm]).improvements()
        for agent, model, *rest in improvement_rows(found):
            rows.append(_line([f"{agent} ({arm})" if arm else agent, model or "none", *rest]))
    if not rows:
        return []
    more = len(rows) - _MOST_IMPROVEMENTS
    notes = [f"{more} more are in the records.", ""] if more > 0 else []
    return [_line(COLUMNS), "|---|---|---|---|--:|--:|--:|--:|--:|--:|", *rows[:_MOST_IMPROVEMENTS], "", *notes]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(escape, cells))} |"


def _cell_row(record: Record) -> str:
    from bench.stats import model_label

    graded = record.outcome == "graded"
    verdict = ("success" if record.success else "no success") if graded else record.outcome
    findings = [note.name for note in (*record.failure_modes, *record.flags)]
    cells = (
        f"{record.agent.id} ({record.arm})" if record.arm else record.agent.id,
        model_label(record.models, helped=record.help is not None) or "none",
        record.case.id,
        str(record.trial),
        f"{'✅' if record.success else '❌' if graded else '⚠️'} {verdict}",
        f"{record.score:.2f}" if record.score is not None else "-",
        record.stop_reason or record.cause,
        f"{sum(phase.seconds for phase in record.phases):.1f}",
        ", ".join(findings),
    )
    return f"{_line(cells)}\n"


def _evidence(records: Sequence[Record]) -> list[str]:
    """What cells failed at, folded away: what several have in common is said once."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        if found := tuple(dict.fromkeys(_findings(record))):
            groups.setdefault(found, []).append(record)
    return [_folded(lines, alike) for lines, alike in groups.items()]


def _findings(record: Record) -> list[str]:
    lines = [f"{check.id}: {check.message}" for check in record.checks if not check.passed]
    lines += [f"{note.name}: {note.evidence}" for note in (*record.failure_modes, *record.flags)]
    if reached := reached_text(record):
        lines.insert(0, reached)
    return [*lines, f"{record.cause}: {record.error}"] if record.error else lines


def _folded(lines: Sequence[str], alike: Sequence[Record]) -> str:
    titles = [
        f"{record.agent.id}{f' ({record.arm})' if record.arm else ''} on {record.case.id}, trial {record.trial}"
        for record in alike
    ]
    title = titles[0] if len(titles) == 1 else f"{counted(len(titles), 'time')}: {titles[0]}, and others"
    if len(titles) > 1:
        more = f", and {len(titles) - _MOST_NAMED} more" if len(titles) > _MOST_NAMED else ""
        lines = [*lines, f"the same for: {', '.join(titles[1:_MOST_NAMED])}{more}"]
    items = "".join(f"<li>{escape(line, _EVIDENCE_CHARACTERS)}</li>" for line in lines)
    return f"<details><summary>{escape(title)}</summary><ul>{items}</ul></details>\n"


def _fitting(lines: Iterable[str], budget: int) -> tuple[list[str], int]:
    """As many lines as fit into so many bytes, and how many do not."""
    kept: list[str] = []
    dropped = 0
    for line in lines:
        size = len(line.encode())
        if dropped or size > budget:
            dropped += 1
        else:
            kept.append(line)
            budget -= size
    return kept, dropped
