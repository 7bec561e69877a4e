"""`ml-dev-bench results collect` and `push`: store what the jobs of a run left, and report to people and programs."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import EXIT_FAILED, UserError
from bench.cli.console import Ticker
from bench.cli.options import PATH, VIA, Command, Number, as_json, branch, gathered, repository
from bench.cli.printing import print_json

if TYPE_CHECKING:
    from bench.store import Appended, Artifact, Bundle, Collected, Refusal, ResultsBranch, StoredFile, Taken, Via


EXIT_GIVEN_UP = 3
"""Other writers were faster, or the network failed, for too long; the bundle is kept."""
_LISTED = 200
"""Lines of the job's summary."""
_LISTED_BYTES = 200_000
"""Of these lines in all: names that others chose leave room there for what the run has found."""


class Report:
    """The result of collecting one run."""

    def __init__(self, run: str, collected: Collected) -> None:
        self.run = run
        self.collected = collected
        self.refused: list[Refusal] = list(collected.refused)
        self.traces = 0
        self.committed: Appended | None = None
        self.stored: Sequence[StoredFile] = ()
        """What the branch holds of it, once it is committed."""
        self.warnings: list[str] = []
        """What makes its cells hard to compare with each other."""
        self.kept = ""
        """The command that resumes, where the bundle could not be stored."""

    @property
    def status(self) -> int:
        if self.kept:
            return EXIT_GIVEN_UP
        return EXIT_FAILED if self.refused or self.collected.untold or self.collected.missing else 0

    def headline(self) -> str:
        taken, missing = len(self.collected.taken), len(self.collected.missing)
        refused = len(self.refused) + self.collected.untold
        return (
            f"run {self.run}: {taken} of {taken + missing} planned cells; {missing} missing; {refused} refused"
            f"{f' ({self.collected.untold} not shown)' if self.collected.untold else ''}; {self.traces} traces kept"
        )

    def document(self) -> dict[str, object]:
        from bench.base.text import printable
        from bench.store import LONGEST_WHY

        return {
            "run": self.run,
            "commit": self.committed.commit if self.committed else None,
            "new": self.committed.new if self.committed else False,
            "records": len(self.collected.taken),
            "missing": self.collected.missing,
            "refused": [
                {"where": printable(it.where, 300), "why": printable(it.why, LONGEST_WHY)} for it in self.refused
            ],
            "refused_not_shown": self.collected.untold,
            "traces": self.traces,
            "warnings": [printable(it, LONGEST_WHY) for it in self.warnings],
            "resume": self.kept or None,
        }


def show(reports: Sequence[Report], branch: str, *, dry_run: bool, as_json: bool) -> None:
    """Print the reports, and add them to the job's summary where there is one."""
    from bench.base.text import printable

    _add_summary(reports)
    if as_json:
        print_json({"runs": [report.document() for report in reports]})
        return
    for report in reports:
        for refusal in report.refused:
            click.echo(f"refused: {refusal}", err=True)
        for warning in report.warnings:
            click.echo(f"warning: {printable(warning)}", err=True)
        click.echo(report.headline())
        if report.committed is not None:
            click.echo(stored_line(report.committed, branch))
        elif report.kept:
            click.echo(f"not stored, and kept; resume with\n  {report.kept}", err=True)
        else:
            click.echo("nothing was stored" + (" (--dry-run)" if dry_run else ""))


def stored_line(done: Appended, branch: str) -> str:
    """One line about a stored bundle."""
    return f"results: {'commit' if done.new else 'already stored in commit'} {done.commit} on branch {branch}"


def _add_summary(reports: Sequence[Report]) -> None:
    if not os.environ.get("GITHUB_STEP_SUMMARY"):
        return
    from bench.base.text import escape, first_lines
    from bench.github import add_summary

    parts = ["## Collected\n"]
    for report in reports:
        lines = [f"- warning: {escape(it, 700)}" for it in report.warnings]
        lines += [f"- refused: {escape(str(refusal), 700)}" for refusal in report.refused[:_LISTED]]
        lines += [f"- missing: {escape(cell, 200)}" for cell in report.collected.missing[:_LISTED]]
        parts += [f"{escape(report.headline(), 500)}\n", first_lines("\n".join(lines), _LISTED_BYTES // len(reports))]
    add_summary("\n".join([*parts, ""]))


@dataclass(frozen=True)
class Target:
    """The branch to store in, and how long to try."""

    repository: str
    branch: str
    via: Via = "git"
    patience: float = 300.0

    def open(self) -> ResultsBranch:
        from bench.store import ResultsBranch, RetryPolicy

        return ResultsBranch(self.repository, self.branch, via=self.via, retry=RetryPolicy(seconds=self.patience))


@dataclass(frozen=True)
class Rules:
    """What artifacts are checked against, and what of them is kept."""

    plan: Path
    shards: Path | None = None
    run_url: str | None = None
    cases: Path | None = None
    agents: Path | None = None
    attempt: int = 1
    trace_place: str | None = None
    sample: float = 0.1
    kept: Path = Path("mldb-kept")
    dry_run: bool = False


def _target(command: Command) -> Command:
    """Options of everything that stores; the command gets them as `target`."""
    for option in (
        gathered("target", Target),
        repository(required=True),
        branch(),
        VIA,
        click.option("--patience", type=Number(1), default=300, show_default=True, help="Seconds of trying."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("folders", metavar="ARTIFACT_DIR...", nargs=-1, required=True, type=PATH)
@click.option(
    "--plan", type=PATH, required=True, help="run.json or plan.json of the job that planned, never of an artifact."
)
@click.option("--shards", type=PATH, help="For run.json: JSON of which artifact may bring which cells.")
@click.option("--run-url", help="Address that every record must name.")
@click.option("--cases", type=PATH, help="Folder of the planned cases; default: those that ship with the benchmark.")
@click.option("--agents", type=PATH, help="Folder of the planned agents; default: those that ship with the benchmark.")
@click.option("--attempt", type=click.IntRange(1), envvar="GITHUB_RUN_ATTEMPT", default=1, show_default=True)
@click.option("--traces", "trace_place", metavar="FOLDER|URL", help="Where traces go; default: small ones inline.")
@click.option("--trace-sample", "sample", type=Number(0, 1), default=0.1, show_default=True, help="Of successes.")
@click.option("--keep", "kept", type=PATH, default=Path("mldb-kept"), show_default=True, help="Until it is stored.")
@click.option("--dry-run", is_flag=True, help="Read and report; store nothing.")
@as_json("Print the report as JSON.")
@_target
@gathered("rules", Rules)
def collect(folders: tuple[Path, ...], rules: Rules, as_json: bool, target: Target) -> None:
    """Merge what the jobs of a run left, as untrusted data, and store it in one commit.

    ARTIFACT_DIR is a folder of artifacts as actions/download-artifact lays them out, or one run folder. Whatever does
    not agree with the plan is refused by name, and everything else is stored. Score, success, cost, ranking and limits
    are recomputed from the record's own parts, from the case, which must be here as it was planned, and from the price
    table: a record that contradicts them is refused, too. Repeating the command is harmless.
    A plan.json says itself which artifact may bring which cells, by the name RUN-SHARD; each of its runs is a commit.

    Exit status: 0 every planned cell is stored and nothing was refused; 1 something was refused or is missing, the
    rest is stored; 2 the command or the set-up is wrong, nothing was stored; 3 the branch could not be reached for
    five minutes or twelve tries, the bundle is kept and the command that resumes is printed.
    """
    from bench.store import Caps, find_artifacts

    with Ticker(as_json) as ticker:
        reports = collect_artifacts(*find_artifacts(folders, Caps()), rules, target, ticker)
    show(reports, target.branch, dry_run=rules.dry_run, as_json=as_json)
    # Of several runs the worst status counts: given up (3), then refused or missing (1).
    sys.exit(max(report.status for report in reports))


def collect_artifacts(
    artifacts: Sequence[Artifact], refused: Sequence[Refusal], rules: Rules, target: Target, ticker: Ticker
) -> list[Report]:
    """Check the artifacts against the plan, and store what passes, each run in one commit; raises `UserError`.

    refused: what was not taken before; the first report has it.
    """
    from bench.runs import cells_not_due, needless_cells
    from bench.stats import RecordResults, mixed_conditions
    from bench.store import Caps, Sources, measurement_of, read_plan_checks, stored_files
    from bench.store import collect_bundle as merge

    plan_checks = read_plan_checks(
        rules.plan, rules.shards, rules.run_url, Sources.installed(rules.cases, rules.agents)
    )
    reports: list[Report] = []
    measured: dict[str, str] = {}
    for number, plan_check in enumerate(plan_checks):
        theirs = {name for other in plan_checks if other is not plan_check for name in other.artifacts}
        # An artifact that belongs to none of the runs is refused once, with the first run.
        mine = [it for it in artifacts if it.name in plan_check.artifacts or not (number or it.name in theirs)]
        report = Report(plan_check.plan.run, merge(mine, plan_check, Caps(), ticker, measured))
        taken = [it.record for it in report.collected.taken]
        report.warnings += mixed_conditions(RecordResults(taken).conditions())
        spared = needless_cells(plan_check.plan, taken) | cells_not_due(plan_check.plan, taken)
        report.collected.missing[:] = [cell for cell in report.collected.missing if cell not in spared]
        theirs_now = {measurement_of(it.record): it.record.cell for it in report.collected.taken}
        measured |= {key: f"cell {cell} of run {report.run}" for key, cell in theirs_now.items() if key}
        report.refused += [] if number else refused
        if report.collected.taken and not rules.dry_run:
            bundle = report.collected.bundle(plan_check, rules.attempt)
            bundle, unfit = _with_traces(bundle, report.collected.taken, rules, ticker)
            report.refused += unfit
            report.traces = len(bundle.traces)
            report.committed, report.kept = _store(bundle, target, rules.kept)
            report.stored = stored_files(bundle) if report.committed is not None else ()
        reports.append(report)
    return reports


@click.command()
@click.argument("folders", metavar="KEPT_BUNDLE...", nargs=-1, required=True, type=PATH)
@click.option(
    "--digest", "digests", multiple=True, help="Of a bundle that was kept, once for each: no other is stored."
)
@_target
def push(folders: tuple[Path, ...], digests: tuple[str, ...], target: Target) -> None:
    """Store bundles that `collect` kept when it could not store them. Stored ones are removed from disk.

    Exit status: 0 all are stored; 2 a bundle is not whole or cannot be stored; 3 given up once more, they are kept.
    """
    from bench.store import RetriesExhausted, discard_pending, load_pending

    for folder in folders:
        bundle = load_pending(folder, digests)
        try:
            done = target.open().commit(bundle)
        except RetriesExhausted as error:
            click.echo(f"error: {error}\nkept in {folder}", err=True)
            sys.exit(EXIT_GIVEN_UP)
        discard_pending(folder)
        click.echo(stored_line(done, target.branch))


def _with_traces(bundle: Bundle, taken: Sequence[Taken], rules: Rules, ticker: Ticker) -> tuple[Bundle, list[Refusal]]:
    """The bundle with its traces, and what of these was refused."""
    from bench.store import open_trace_storage, store_traces

    place = open_trace_storage(rules.trace_place) if rules.trace_place else None
    kept = store_traces(taken, place, rules.sample, ticker)
    return replace(bundle, traces=kept.traces, inline=kept.inline), kept.refused


def _store(bundle: Bundle, target: Target, kept: Path) -> tuple[Appended | None, str]:
    """Store a bundle that lies on disk until it is stored; else the command that resumes."""
    from bench.store import RetriesExhausted, discard_pending, save_pending

    branch = target.open()
    # On disk before the first try, so that a killed process loses nothing.
    folder = save_pending(bundle, kept)
    where = ["--results", target.repository, "--branch", target.branch, "--via", target.via]
    resume = shlex.join(["ml-dev-bench", "results", "push", str(folder), *where])
    try:
        branch.ensure()
        done = branch.commit(bundle)
    except RetriesExhausted as error:
        click.echo(f"error: {error}", err=True)
        return None, resume
    except UserError:
        click.echo(f"not stored, and kept; when that is fixed, resume with\n  {resume}", err=True)
        raise
    discard_pending(folder)
    return done, ""
