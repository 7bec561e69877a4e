"""Records and standings as text for terminals: one line, or a table that wraps to the terminal's width."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING

import click

from bench.base.text import counted, printable

if TYPE_CHECKING:
    # Listing cases makes a table and must not load the models.
    from bench.formats.provenance import Sequential
    from bench.formats.record import Record
    from bench.stats import (
        Cost,
        Estimate,
        Improvement,
        Look,
        Passes,
        RankedStanding,
        Results,
        SequentialState,
        Standing,
    )

_GAP = 2
_LONGEST_CELL = 2000
_LEADERBOARD = ("agent", "model", "success", "score", "several tries", "cost/cell", "steps", "cases", "lost")


def leaderboard(results: Results) -> str:
    """The table of agents as text: ranked ones first, references after them, each profile by itself."""
    from bench.base.text import counted
    from bench.stats import mixed_conditions, rank

    seen = results.cases().values()
    ranked = rank(results.standings())
    several = len({it.standing.entrant.profile for it in ranked}) > 1
    columns = (*_LEADERBOARD[:2], "profile", *_LEADERBOARD[2:]) if several else _LEADERBOARD
    rows = [(_rank(it), *standing_cells(it, columns)) for it in ranked]
    warnings = mixed_conditions(results.conditions())
    warnings += [_left_out(it.standing) for it in ranked if it.standing.repeats]
    notes = "".join(f"\nwarning: {line}" for line in warnings)
    said = (
        f"{table(rows, header=('', *columns))}\n"
        "n = cases; 95 % intervals over cases; ranks in brackets: those that success cannot exclude; "
        f"{counted(sum(case.results for case in seen), 'record')}, {sum(case.ungraded for case in seen)} without a "
        f"verdict (never scored){notes}"
    )
    improved = improvement_table(results.improvements())
    return f"{said}\n\n{improved}" if improved else said


def _left_out(standing: Standing) -> str:
    who = f"{standing.entrant.agent} {standing.entrant.model}".strip()
    return (
        f"{who}: {counted(standing.repeats, 'trial')} left out: they repeat only some of the cases that it had met, "
        "and so could be chosen by their results"
    )


def improvement_table(found: Sequence[Improvement]) -> str:
    """What became of the continuous metrics, by entrant and case; empty without any."""
    from bench.report.improvement import COLUMNS, improvement_rows

    if not found:
        return ""
    return (
        f"{table(improvement_rows(found), header=COLUMNS)}\n"
        "improvement: mean relative change of the valid trials, positive is better; over the bar: strictly, of all "
        "graded trials; bounded: 0 the baseline, 1 the best known; 95 % intervals over trials"
    )


def standing_cells(ranked: RankedStanding, columns: Sequence[str]) -> list[str]:
    """The cells of a table's row about an agent, by the names of its columns."""
    standing = ranked.standing
    steps = standing.effort.steps
    texts = {
        "agent": standing.entrant.agent + ("" if standing.ranked else " (reference)"),
        "model": standing.entrant.model,
        "profile": standing.entrant.profile,
        "success": _estimate(standing.success),
        "score": _estimate(standing.score),
        "several tries": _passes(standing.passes),
        "cost/cell": _cost(standing.cost),
        "steps": f"{steps:.1f}" if steps is not None else "-",
        "cases": f"{standing.covered}/{standing.suite_size}",
        "lost": _lost(standing),
    }
    return [texts[column] for column in columns]


def _rank(ranked: RankedStanding) -> str:
    return "-" if ranked.rank is None else f"{ranked.rank}. ({ranked.best}-{ranked.worst})"


def _passes(rows: Sequence[Passes]) -> str:
    """pass@k and pass^k for the largest k that some case has."""
    if not rows:
        return "-"
    row = rows[-1]
    return f"pass@{row.k} {row.at.mean:.2f}, pass^{row.k} {row.hat.mean:.2f} n={row.at.n}"


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    interval = estimate.interval
    span = f" [{interval.low:.2f}, {interval.high:.2f}]" if interval is not None else ""
    return f"{estimate.mean:.2f}{span} n={estimate.n}"


def _lost(standing: Standing) -> str:
    """Lost cells of all, their rate, and lost tries of all where cells were tried again."""
    text = f"{standing.lost}/{standing.cells} {_estimate(standing.lost_rate)}"
    if not standing.retried:
        return text
    return f"{text}, tries {standing.lost + standing.retried}/{standing.cells + standing.retried}"


def _cost(cost: Cost) -> str:
    if cost.replayed_usd is not None:
        return f"${cost.replayed_usd:.4f} (replayed)"
    return f"${cost.mean_usd:.4f}" if cost.mean_usd is not None else f"unknown ({cost.unknown})"


def outcome_line(record: Record) -> str:
    """One line about a record: never more than a terminal can take, never a control character of the agent's."""
    seconds = sum(phase.seconds for phase in record.phases)
    arm = f" ({record.arm})" if record.arm else ""
    head = f"{record.agent.id}{arm} on {record.case.id}, trial {record.trial}"
    if record.outcome != "graded":
        first = printable(next(iter(record.error.splitlines()), ""))
        return f"{head}: {click.style(record.outcome, fg='cyan')} ({printable(record.cause)}): {first[:200]}"
    assert record.score is not None
    verdict = click.style("success", fg="green") if record.success else click.style("no success", fg="bright_red")
    modes, flags = (
        printable(", ".join(note.name for note in notes), _LONGEST_CELL)
        for notes in (record.failure_modes, record.flags)
    )
    from bench.formats.verdict import reached_text
    from bench.report.improvement import improvement_text
    from bench.report.why import failed_check_line

    reached = printable(", ".join(part for part in (reached_text(record), improvement_text(record)) if part))
    failed = "" if record.success else failed_check_line(record)
    helped = f", {counted(record.help.questions, 'question')} asked" if record.help else ""
    return (
        f"{head}: {verdict}{helped}, score {record.score:.2f}, {f'{reached}, ' if reached else ''}{seconds:.1f} s"
        f"{', ' + modes if modes else ''}{'; flags: ' + flags if flags else ''}{'; ' + failed if failed else ''}"
    )


def sequential_lines(state: SequentialState) -> list[str]:
    """The verdict of a sequential experiment or why there is none, then a line for each look."""
    rounds, made, points = state.design.rounds, len(state.looks), f"{100 * state.design.drop:g} points"
    said = {
        None: f"no verdict: {state.waits_for}",
        "no drop": f"no drop: a loss of {points} is excluded",
        "undecided": f"undecided: neither a change nor the absence of a loss of {points} was shown",
    }
    head = said.get(state.verdict, str(state.verdict))
    if state.verdict:
        total = 2 * state.design.cases * rounds
        head += f"; {made} of at most {counted(rounds, 'look')}, {state.saved} of {counted(total, 'trial')} saved"
    return [f"sequential: {head}", *(look_line(look, state.design) for look in state.looks)]


def sequential_document(state: SequentialState) -> dict[str, object]:
    """A sequential experiment, for programs."""
    return {
        **state.design.model_dump(),
        "verdict": state.verdict,
        "waits_for": state.waits_for,
        "trials_saved": state.saved,
        "looks": [look.model_dump(by_alias=True) for look in state.looks],
    }


def look_line(look: Look, design: Sequential) -> str:
    """What was seen after a round, and what followed."""
    points = f"{100 * design.drop:g} points"
    return (
        f"look {look.round}: {100 * look.difference:+.1f} points over {counted(look.cases, 'case')}; "
        f"p(worse) {look.p_worse:.2g}, "
        f"p(better) {look.p_better:.2g}, boundary {look.boundary:.2g}; p(loss of {points}) {look.p_drop:.2g}, "
        f"exclusion {look.exclusion:.2g}: {look.decision}"
    )


def table(
    rows: Sequence[Sequence[str]],
    *,
    header: Sequence[str] = (),
    right: Collection[int] = (),
    colours: Mapping[str, str] | None = None,
) -> str:
    """`rows` in columns; what a cell holds cannot act on a terminal or a workflow runner.

    right: columns to align there. colours: of cells that hold just this text, on a terminal.
    """
    cells = [[printable(text, _LONGEST_CELL) for text in row] for row in ([header] if header else []) + list(rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    terminal = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    colours = (colours or {}) if terminal else {}
    if terminal and sum(widths) + _GAP * (len(widths) - 1) > terminal:
        return _wrapped(cells, bool(header), right, colours, terminal)
    lines = []
    for row in cells:
        padded = [text.rjust(widths[at]) if at in right else text.ljust(widths[at]) for at, text in enumerate(row)]
        coloured = [
            click.style(cell, fg=colours[text]) if text in colours else cell
            for text, cell in zip(row, padded, strict=True)
        ]
        lines.append((" " * _GAP).join(coloured).rstrip())
    if header and terminal:
        lines[0] = click.style(lines[0], bold=True)
    return "\n".join(lines)


def _wrapped(
    cells: Sequence[Sequence[str]], headed: bool, right: Collection[int], colours: Mapping[str, str], width: int
) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = list(zip(*cells, strict=True))
    widths = [max(map(len, column)) for column in columns]
    words = [max((len(word) for text in column for word in text.split()), default=0) for column in columns]
    gap = _GAP if sum(words) + _GAP * (len(words) - 1) <= width else 1
    while sum(widths) + gap * (len(widths) - 1) > width and max(widths) > 1:
        # The widest gives way first, and no word is split while another column can still be narrower.
        widest = max(range(len(widths)), key=lambda at: (widths[at] > words[at], widths[at]))
        widths[widest] -= 1
    grid = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), show_header=headed)
    for at, name in enumerate(cells[0]):
        grid.add_column(Text(name), justify="right" if at in right else "left", overflow="fold", width=widths[at])
    for row in cells[1:] if headed else cells:
        grid.add_row(*(Text(text, style=colours.get(text, "")) for text in row))
    file = StringIO()
    Console(file=file, width=width, force_terminal=True, color_system="standard").print(grid)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())
