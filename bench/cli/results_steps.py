"""`ml-dev-bench results score-steps`: how agents did while they worked, from snapshots of their workspaces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.text import counted, printable
from bench.cli.console import Ticker
from bench.cli.interrupts import interrupt_on_sigterm
from bench.cli.options import CASES, PATH, as_json
from bench.cli.printing import print_json, print_text

if TYPE_CHECKING:
    from bench.base.install import DataFolders
    from bench.formats.step_snapshots import CellStepScores, StepScore

_HEADER = ("step", "seconds", "USD", "score", "success", "metric", "at")


@click.command("score-steps")
@click.argument("folder", metavar="RUN_FOLDER", type=PATH)
@click.argument("cell", default="")
@CASES
@as_json("Print all scores, and how many cells of each agent had success and lost it, as JSON.")
def score_steps(folder: Path, cell: str, folders: DataFolders, as_json: bool) -> None:
    """Judge the snapshots of a run made with --snapshots: score, success and metric over time, steps and dollars.

    The scores are derived data in RUN_FOLDER/step-scores. No record changes: the final workspace alone decides. Each
    verdict is stored at once, so a second call goes on where a first one was ended.

    Exit status: 0 shown, also where the judge gave no verdict of a snapshot; 2 there is nothing to judge.
    """
    from bench.runs import score_steps as judge_steps
    from bench.sandbox import choose_sandbox

    interrupt_on_sigterm()
    with Ticker(as_json) as ticker:
        found = judge_steps(folder, cell, folders, choose_sandbox, ticker)
    agents = _by_agent(found)
    if as_json:
        cells = [{**it.model_dump(by_alias=True), "lost_it": it.lost_it} for it in found]
        print_json({"schema": 1, "cells": cells, "agents": agents})
        return
    for scores in found:
        print_text(_text(scores))
    for agent, counts in agents.items():
        print_text(
            f"{agent}: success at some step in {counts['succeeded_once']} of {counted(counts['cells'], 'cell')}, at the"
            f" end in {counts['succeeded_at_end']}; had it and lost it in {counts['lost_it']}"
        )


def _by_agent(found: Sequence[CellStepScores]) -> dict[str, dict[str, int]]:
    groups: dict[str, list[CellStepScores]] = defaultdict(list)
    for scores in found:
        groups[scores.agent].append(scores)
    return {
        agent: {
            "cells": len(own),
            "succeeded_once": sum(it.succeeded_once for it in own),
            "succeeded_at_end": sum(bool(it.end.success) for it in own),
            "lost_it": sum(it.lost_it for it in own),
            "unjudged_snapshots": sum(it.unjudged for it in own),
        }
        for agent, own in sorted(groups.items())
    }


def _text(scores: CellStepScores) -> str:
    from bench.report import table

    lost = ", which had success and lost it" if scores.lost_it else ""
    rows = [_row(it) for it in scores.scores]
    faults = [f"no verdict at step {it.step}: {printable(it.error)}" for it in scores.scores if it.error]
    return "\n".join([f"{scores.cell}{lost}", table(rows, header=_HEADER, right=range(6)), *faults, ""])


def _row(score: StepScore) -> list[str]:
    return [
        str(score.step),
        f"{score.seconds:.1f}",
        "unknown" if score.usd is None else f"{score.usd:.4f}",
        "-" if score.score is None else f"{score.score:.3f}",
        "-" if score.success is None else "yes" if score.success else "no",
        "-" if score.metric is None else f"{score.metric:.6g}",
        f"{score.kind} {printable(score.name)}".strip(),
    ]
