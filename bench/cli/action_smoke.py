"""The step action `smoke`: what `ml-dev-bench smoke` does, told by its inputs and said as annotations."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click
from pydantic import Field

from bench.base.errors import EXIT_FAILED
from bench.base.model import Model
from bench.base.text import printable
from bench.cli.action_inputs import Words, annotated, nothing_left, read_inputs, runner_variable
from bench.cli.interrupts import interrupt_on_sigterm
from bench.cli.smoke import Finding, as_markdown, prove, stage_of
from bench.github import add_summary, annotate_error, annotate_warning, commands_stopped, set_outputs


def _warn(open_questions: Sequence[Finding]) -> None:
    """One annotation for what needs a recording anew, and one for what else stays open: a job shows ten at most."""
    for state in ("needs re-recording", "not proven"):
        lines = [it.line for it in open_questions if it.state == state]
        if lines:
            annotate_warning(printable("; ".join(lines), 2000))


class SmokeInputs(Model):
    """The inputs of the step."""

    agent: Words = Field(min_length=1)
    sandbox: Literal["auto", "docker", "bubblewrap", "process"] = "auto"


@click.command("smoke")
@annotated
def smoke_step() -> None:
    """Prove without a key what can be proven, and say what was not."""
    from bench.cli.reporter import Reporter

    inputs = read_inputs(SmokeInputs)
    folder = Path(runner_variable("RUNNER_TEMP")) / "ml-dev-bench" / "smoke"
    number = next(it for it in range(1, 10_000) if not (folder / str(it)).exists())
    interrupt_on_sigterm()
    with nothing_left(), commands_stopped(), Reporter() as reporter:
        found = prove(inputs.agent, stage_of(folder / str(number), inputs.sandbox, reporter))
    add_summary(as_markdown(found))
    states = Counter(it.state for it in found)
    open_questions = [it for it in found if it.state in ("not proven", "needs re-recording")]
    unproven = json.dumps([f"{it.agent}: {it.what}" for it in open_questions])
    counts = {state: str(states[state]) for state in ("proven", "failed")}
    set_outputs({**counts, "unproven": unproven, "records": str(folder / str(number))})
    _warn(open_questions)
    for finding in found:
        if finding.state == "failed":
            annotate_error(printable(finding.line))
    if states["failed"]:
        sys.exit(EXIT_FAILED)
