"""A plan as text: machines, times, prices, and what is skipped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from bench.base.text import counted
from bench.cli.printing import print_text

if TYPE_CHECKING:
    from bench.formats.plan import PlanFile, SkippedCell
    from bench.formats.shards import Shard

_MOST_SKIPPED = 20


def show_plan(document: PlanFile) -> None:
    from bench.report import table

    expected = document.expected
    print_text(
        f"{counted(expected.cells, 'cell')} in {counted(expected.shards, 'shard')}, "
        f"{counted(round(expected.wall_s / 60), 'minute')} to the last one "
        "(in 95 of 100 such plans)"
    )
    by_machine: dict[str, list[Shard]] = defaultdict(list)
    for shard in document.shards:
        by_machine[shard.machine].append(shard)
    rows = [
        (
            name,
            str(sum(len(part.cells) for shard in shards for part in shard.parts)),
            str(len(shards)),
            str(shards[0].jobs),
            f"{sum(shard.seconds for shard in shards) / 3600:.1f}",
            f"{sum(shard.machine_usd for shard in shards):.2f}",
        )
        for name, shards in sorted(by_machine.items())
    ]
    header = ("machine", "cells", "shards", "side by side", "hours", "USD")
    click.echo(table(rows, header=header, right=range(1, 6)))
    unpriced = (
        f", and {counted(expected.unpriced_cells, 'cell')} without a known price" if expected.unpriced_cells else ""
    )
    print_text(f"models    {expected.model_usd:.2f} USD{unpriced}")
    print_text(f"machines  {expected.machine_usd:.2f} USD, {expected.gpu_hours:.1f} GPU hours")
    named = {
        "measured": "measured before",
        "agent": "from the agent's other cases",
        "case": "from other agents",
        "limit": "from limits alone",
    }
    sources = ", ".join(f"{expected.sources[key]} {text}" for key, text in named.items() if key in expected.sources)
    print_text(f"estimates {sources}")
    if document.detection is not None:
        from bench.cli.plan_budget import detection_text

        cells = [cell for run in document.runs for cell in run.cells]
        cases = len({cell.case for cell in cells})
        print_text(detection_text(document.detection, len(cells) // (cases * document.detection.trials)))
    show_skipped(document.skipped)


def show_skipped(skipped: Sequence[SkippedCell]) -> None:
    for it in skipped[:_MOST_SKIPPED]:
        click.echo(f"skipped   {it.cell}: {it.cause}", err=True)
    if len(skipped) > _MOST_SKIPPED:
        click.echo(f"skipped   {len(skipped) - _MOST_SKIPPED} more cells", err=True)
