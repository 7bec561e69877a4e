"""`ml-dev-bench action collect`: check and store what the shards of a plan left."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import Field

from bench.base.errors import EXIT_FAILED
from bench.cli.action_inputs import KEEP_LOCAL, annotated, own_repository, read_inputs, runner_variable
from bench.cli.action_shards import BranchInputs, PlanDigest, artifact_of, plan_in, plan_of_rounds, work_folder
from bench.github import add_summary, annotate_error, annotate_warning, commands_stopped, set_outputs, summary_room

if TYPE_CHECKING:
    from bench.cli.results_collect import Report
    from bench.formats.plan import PlanFile
    from bench.store import Artifact, Refusal


_MOST_NAMED = 5


class _CollectInputs(BranchInputs):
    plan: Path
    plan_digest: PlanDigest = Field("", alias="plan-digest")
    artifacts: Path
    fail_on_lost: bool = Field(True, alias="fail-on-lost")
    machines: Path | None = None
    """The machines file, where shards ran without GitHub: what they left is fetched to `artifacts` first."""
    wait_minutes: float = Field(330.0, ge=0, alias="wait-minutes")
    of_run: str = Field("", alias="of-run", pattern=r"^[0-9]*$")
    """Id of the workflow run whose plan it is; empty: this one."""


@dataclass(frozen=True)
class _Result:
    """What the shards of a plan came to."""

    cells: int
    graded: int
    succeeded: int
    missing: Sequence[str]
    refused: int

    @property
    def lost(self) -> int:
        """Planned cells without a verdict."""
        return self.cells - self.graded


@click.command("collect")
@annotated
def collect_shards() -> None:
    """Check what the shards of a plan left, as untrusted data, and store it; the only step that writes."""
    from bench.cli.console import Ticker
    from bench.cli.results_collect import Rules, Target, collect_artifacts, show
    from bench.formats.plan import read_plan_file
    from bench.report import render

    token = os.environ.pop("MLDB_TOKEN", "")
    told = read_inputs(_CollectInputs)
    file = plan_in(told.plan, told.plan_digest)
    document = read_plan_file(file)
    stored = told.results_repository != KEEP_LOCAL
    repository = told.open(token) if stored else KEEP_LOCAL
    attempt = int(os.environ.get("GITHUB_RUN_ATTEMPT") or 1)
    kept = work_folder("kept")
    run_id = told.of_run or runner_variable("GITHUB_RUN_ID")
    run_url = f"{own_repository()}/actions/runs/{run_id}"
    rules = Rules(file, run_url=run_url, attempt=attempt, kept=kept, dry_run=not stored)
    if told.machines is not None:
        _fetch(told, told.machines, document, run_id)
    found = _artifacts_of(document, told.artifacts)
    reports: list[Report] = []
    try:
        with commands_stopped(), Ticker(quiet=False) as ticker:
            reports += collect_artifacts(*found, rules, Target(repository, told.results_branch), ticker)
            show(reports, told.results_branch, dry_run=rules.dry_run, as_json=False)
    finally:
        # Also where the branch refused the first of several runs: what lies there is complete, and not stored.
        pending = _tell_pending(kept, repository, told.results_branch)
    result = _result_of(reports)
    commits = [report.committed.commit for report in reports if report.committed is not None]
    decided = not stored or _decided(file, repository, told.results_branch)
    _set_outputs(result, reports, commits, decided=decided)
    records = [taken.record for report in reports for taken in report.collected.taken]
    add_summary(render(records, commit=commits[-1] if commits else "", limit=summary_room()))
    faults = _faults(result, told)
    for fault in faults:
        annotate_error(fault)
    if faults or pending:
        sys.exit(EXIT_FAILED)


def _fetch(told: _CollectInputs, machines: Path, document: PlanFile, run_id: str) -> None:
    """Bring what shards left on machines to where the artifacts of the others lie."""
    from bench.cli.action_batch import fetch_from_machines

    def place(shard: str) -> Path:
        return told.artifacts / artifact_of(document, shard)

    for line in fetch_from_machines(machines, run_id, place, 60 * told.wait_minutes):
        annotate_warning(line)


def _set_outputs(result: _Result, reports: Sequence[Report], commits: Sequence[str], *, decided: bool) -> None:
    set_outputs(
        {
            "commit": commits[-1] if commits else "",
            "graded": str(result.graded),
            "succeeded": str(result.succeeded),
            "lost": str(result.lost),
            "refused": str(result.refused),
            "checksums": _checksums(reports),
            "decided": str(decided).lower(),
        }
    )


def _decided(plan: Path, repository: str, branch: str) -> bool:
    """Whether no round is to follow: the look at the rounds that are stored is made here, by the job that may write."""
    from bench.base.text import escape
    from bench.cli.plan_earlier import make_looks

    first = plan_of_rounds(plan)
    if first is None:
        return True
    lines, due = make_looks(first, repository, branch)
    for line in lines:
        click.echo(line)
    add_summary("\n".join(["## Looks", "", *(f"- {escape(line, 400)}" for line in lines), "", ""]))
    return not due


def _checksums(reports: Sequence[Report]) -> str:
    """A file with the digest and the path of each file of records that the branch holds now; empty where none is."""
    from bench.base.files import write_atomic

    lines = [f"{file.digest.removeprefix('sha256:')}  {file.path}\n" for it in reports for file in it.stored]
    if not lines:
        return ""
    path = work_folder("checksums") / "records.txt"
    write_atomic(path, "".join(lines).encode())
    return str(path)


def _artifacts_of(document: PlanFile, folder: Path) -> tuple[list[Artifact], list[Refusal]]:
    """The run folders that the shards were to bring, each from the artifact of its own shard; the rest is refused."""
    from bench.store import Artifact, Caps, Refusal

    artifacts: list[Artifact] = []
    refused: list[Refusal] = []
    most = Caps().lines
    wanted = {
        artifact_of(document, shard.id): {f"{part.run}-{shard.id}" for part in shard.parts} for shard in document.shards
    }
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        parts = wanted.get(path.name)
        if parts is None or path.is_symlink() or not path.is_dir():
            refused.append(Refusal(path.name, "is not the artifact of a planned shard"))
            continue
        own = [part for part in (path / name for name in sorted(parts)) if part.is_dir() and not part.is_symlink()]
        artifacts += [Artifact(part.name, part) for part in own]
        foreign = sorted({part.name for part in path.iterdir()} - {part.name for part in own})
        refused += [Refusal(f"{path.name}/{name}", "was given to another job, or to none") for name in foreign[:most]]
        if len(foreign) > most:
            more = f"{len(foreign) - most:,} more"
            refused.append(Refusal(path.name, f"holds {more} that were given to another job, or to none"))
    return artifacts, refused


def _result_of(reports: Sequence[Report]) -> _Result:
    records = [taken.record for report in reports for taken in report.collected.taken]
    missing = [cell for report in reports for cell in report.collected.missing]
    graded = [record for record in records if record.outcome == "graded"]
    return _Result(
        cells=len(records) + len(missing),
        graded=len(graded),
        succeeded=sum(bool(record.success) for record in graded),
        missing=missing,
        refused=sum(len(report.refused) + report.collected.untold for report in reports),
    )


def _faults(result: _Result, told: _CollectInputs) -> list[str]:
    """Why the job fails; empty when it does not."""
    faults = []
    if result.refused:
        faults.append(f"{result.refused} files of the shards were refused: the log and the summary name each")
    # What never started is no less lost than what was: without this, a job that was skipped would pass for done.
    if result.missing or (result.lost and told.fail_on_lost):
        named = ", ".join([*result.missing[:_MOST_NAMED], *(["..."] if len(result.missing) > _MOST_NAMED else [])])
        faults.append(
            f"{result.lost} of {result.cells} cells have no verdict; {len(result.missing)} have no record"
            f"{f' ({named})' if named else ''}: start this workflow anew with missing-from "
            f"{runner_variable('GITHUB_RUN_ID')}, which runs just these"
        )
    return faults


def _tell_pending(kept: Path, repository: str, branch: str) -> bool:
    """Name what could not be stored, and the one command that stores it later; whether there is anything."""
    from bench.store import digests_of_pending

    digests = digests_of_pending(kept)
    if not digests:
        return False
    number, attempt = runner_variable("GITHUB_RUN_ID"), os.environ.get("GITHUB_RUN_ATTEMPT") or "1"
    name = f"mldb-kept-{number}-{attempt}"
    set_outputs({"kept": str(kept), "kept-artifact": name})
    own = shlex.quote(runner_variable("GITHUB_REPOSITORY"))
    rest = shlex.join([*(f"--digest={it}" for it in digests), "--results", repository, "--branch", branch])
    annotate_error(
        f"the records could not be stored, and are kept in the artifact {name}; resume with: gh run download {number} "
        f"--repo {own} --name {name} --dir {name} && ml-dev-bench results push {name}/* {rest}"
    )
    return True
