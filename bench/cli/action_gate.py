"""`ml-dev-bench action compare`: the gate of a pull request."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click
from pydantic import Field

from bench.base.errors import EXIT_FAILED, UserError
from bench.base.files import write_atomic
from bench.base.model import Model
from bench.base.text import counted
from bench.cli.action_inputs import (
    Words,
    annotated,
    nothing_left,
    own_repository,
    read_inputs,
    runner_variable,
    use_token,
)
from bench.cli.interrupts import interrupt_on_sigterm
from bench.formats.names import Name
from bench.github import add_summary, annotate_error, annotate_warning, commands_stopped, set_outputs

if TYPE_CHECKING:
    from bench.formats.record import Record
    from bench.github import Conclusion
    from bench.runs import Claims

RULES = ".github/mldb/gate.yaml"
NOT_GATED, UNCHANGED, NO_VERDICT = "not gated", "unchanged", "no verdict"
_EXIT_OPEN = 3
Sandbox = Literal["auto", "docker", "bubblewrap", "process"]
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
CONCLUSIONS: dict[str, Conclusion] = {
    "improvement": "success",
    "no drop": "success",
    UNCHANGED: "success",
    NOT_GATED: "neutral",
    "undecided": "neutral",
}
"""Of a Check by the verdict; any other is a failure."""


class GateInputs(Model):
    """What both jobs of a gate are told."""

    name: Name = "gate"
    experiment: str = RULES
    sandbox: Sandbox = "auto"


class CompareInputs(GateInputs):
    """The inputs of the step action `compare`."""

    base: Commit | None = None
    head: Commit | None = None
    pull_request: int | None = Field(None, alias="pull-request", ge=1)
    jobs: int = Field(1, ge=1, le=256)
    fail_on: Words = Field(["regression"], alias="fail-on")
    records: Path | None = None
    results_repository: str = Field("", alias="results-repository")
    results_branch: str = Field("mldb-results", alias="results-branch")


@click.command()
@annotated
def compare() -> None:
    """Compare two commits of an agent in turns, by the rules of the first; the exit status is the required check.

    With `records`, a run that is there already is compared: its two arms, or, of one arm, with what is stored of the
    base. The latter is not interleaved and never fails the job.
    """
    told = read_inputs(CompareInputs)
    if told.records is not None:
        _compare_records(told, told.records)
        return
    if told.base is None or told.head is None:
        raise UserError("are not given", where="base, head", remedy="call this from an event `pull_request`")
    folder, claims, records, notes = _run_gate(told, told.base, told.head)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "gate.json", claims.model_dump_json(by_alias=True, indent=1).encode() + b"\n")
    outputs = {"run": folder.name, "records": str(folder), "artifact": f"mldb-{folder.name}"}
    sys.exit(_tell(claims.verdict, records, notes, outputs, told.fail_on))


def _run_gate(told: CompareInputs, tip: str, head: str) -> tuple[Path, Claims, list[Record], list[str]]:
    """Run both commits in turns until that decides; the run's folder, what is claimed, its records, and remarks."""
    from bench.base.install import find_data_folders
    from bench.cli.reporter import Reporter
    from bench.cli.run import open_sandbox
    from bench.cli.run_text import tell_records
    from bench.formats.run_limits import RunLimits
    from bench.runs import (
        Arms,
        Claims,
        Options,
        close_drawn,
        gate_verdict,
        merge_base,
        open_gate,
        plan_and_run,
        require_current_rules,
    )

    given = os.environ.pop("MLDB_SEED_SECRET", "").strip()
    place, name = Path(runner_variable("RUNNER_TEMP")) / "ml-dev-bench" / "gates", _run_name(told.name)
    repository = Path(runner_variable("GITHUB_WORKSPACE"))
    base = merge_base(repository, tip, head)
    require_current_rules(repository, base, tip, told.experiment)
    gate = open_gate(repository, base, head, told.experiment, place / f"{name}-commits")
    claim = partial(Claims, number=told.pull_request, base=base, head=head, run=name)
    notes = [f"base {base[:12]}, head {head[:12]}"]
    if gate is None:
        return place / name, claim(verdict=NOT_GATED), [], [*notes, f"the base has no {told.experiment}"]
    if gate.unchanged:
        return place / name, claim(verdict=UNCHANGED), [], [*notes, "the agent's folder is the same in both"]
    interrupt_on_sigterm()
    how = Options(
        jobs=told.jobs,
        run_limits=RunLimits(cost_usd=gate.rules.budget.usd),
        seed_secret=None if given in ("", "none") else given,
    )
    with nothing_left(), commands_stopped(), Reporter() as reporter:
        opened, arms = partial(open_sandbox, told.sandbox), Arms(str(gate.base.file), until_decided=True)
        _, records = plan_and_run(gate.request, place / name, find_data_folders(), opened, how, reporter, arms)
        tell_records(place / name, records)
    close_drawn(place / name)
    if few := _too_few(records):
        annotate_warning(few)
    return place / name, claim(verdict=gate_verdict(records) or NO_VERDICT), records, [*notes, *([few] if few else [])]


def _too_few(records: Sequence[Record]) -> str:
    """Why the gate could never be red; empty where it could."""
    design = records[0].provenance.sequential if records else None
    if design is None or 0.5**design.cases < max(design.boundaries):
        return ""
    return f"too few: {counted(design.cases, 'case')}; not even a drop in all of them would be a regression; take more"


def _compare_records(told: CompareInputs, folder: Path) -> None:
    """Compare a run that is there: by its arms, or with stored records of the base, which decides nothing."""
    from bench.cli.compare_text import as_text
    from bench.cli.stored import stored_records
    from bench.formats.run_folder import RunFolder
    from bench.stats import Filters, choose_arm, compare_records, sequential_state

    records = RunFolder(folder).records()
    state = sequential_state(records)
    if {record.arm for record in records} == {"base", "head"}:
        one, other = (choose_arm(f"{folder}:{arm}", lambda *_: (), Filters()) for arm in ("base", "head"))
        answer = compare_records(one.records, other.records)
        verdict = answer.verdict if state is None else state.verdict or NO_VERDICT
        notes = as_text(one, other, answer).splitlines()[1:]
        sys.exit(_tell(verdict, records, notes, {"run": folder.name}, told.fail_on))
    if told.base is None:
        raise UserError("is not given", where="base", remedy="name the commit whose stored records are the base")
    repository = told.results_repository or own_repository()
    use_token(os.environ.pop("MLDB_TOKEN", ""), repository)
    with stored_records(repository, told.results_branch) as stored:
        other = choose_arm(str(folder), stored, Filters())
        one = choose_arm(f"agent:{other.entrant.agent}@{told.base}", stored, Filters())
    answer = compare_records(one.records, other.records)
    notes = ["not interleaved: base and head did not run in turns, so this blocks nothing"]
    notes += as_text(one, other, answer).splitlines()[1:]
    _tell(f"not interleaved: {answer.verdict}", [], notes, {"run": folder.name}, ())


def _tell(
    verdict: str, records: Sequence[Record], notes: Sequence[str], outputs: dict[str, str], fail_on: Sequence[str]
) -> int:
    """Outputs, summary and annotation; returns the exit status: 1 for what it is to fail on, 3 without a verdict."""
    from bench.github import MOST_BYTES
    from bench.report import look_line, render_gate
    from bench.stats import sequential_state

    set_outputs({**outputs, "verdict": verdict})
    add_summary(render_gate(verdict, records, [note for note in notes if note.strip()], MOST_BYTES))
    state = sequential_state(records)
    why = [look_line(look, state.design) for look in state.looks[-1:]] if state is not None else []
    said = "; ".join([f"gate: {verdict}", *notes[:1], *why, *([state.waits_for] if state and state.waits_for else [])])
    if verdict in fail_on:
        annotate_error(said)
        return EXIT_FAILED
    if verdict in (NO_VERDICT, "not comparable"):
        annotate_error(said)
        return _EXIT_OPEN
    tell = click.echo if CONCLUSIONS.get(verdict) == "success" else annotate_warning
    tell(said)
    return 0


def _run_name(name: str) -> str:
    return f"{name}-{runner_variable('GITHUB_RUN_ID')}-{os.environ.get('GITHUB_RUN_ATTEMPT') or '1'}"
