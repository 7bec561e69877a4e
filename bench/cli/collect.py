"""`ml-dev-bench results collect` and `push`: artifacts of many jobs to one commit."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.ticker import Ticker
from bench.errors import EXIT_FAILED, UserError

if TYPE_CHECKING:
    from bench.store.admission import Admission
    from bench.store.artifacts import Refusal
    from bench.store.branch import Committed, ResultsBranch
    from bench.store.bundle import Bundle
    from bench.store.collect import Collected

EXIT_GIVEN_UP = 3
"""Others were quicker, or the network failed, for too long; the bundle is kept."""

_FOLDER = click.Path(path_type=Path)


def _target(command: Any) -> Any:
    """Where to store; the same for everything that stores."""
    for option in (
        click.option("--results", "repository", metavar="REPOSITORY", required=True, help="Path or URL."),
        click.option("--branch", default="mldb-results", show_default=True),
        click.option(
            "--via",
            type=click.Choice(["git", "api"]),
            default="git",
            show_default=True,
            help="api: GitHub's REST API, without git's transport; the token is MLDB_TOKEN or GITHUB_TOKEN.",
        ),
        click.option("--patience", type=click.FloatRange(1), default=300, show_default=True, help="Seconds of trying."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("folders", metavar="ARTIFACT_DIR...", nargs=-1, required=True, type=_FOLDER)
@click.option("--plan", type=_FOLDER, required=True, help="run.json of the job that planned, never one of an artifact.")
@click.option("--shards", type=_FOLDER, help="JSON of that job: which artifact may bring which cells.")
@click.option("--run-url", help="Address that every record must name.")
@click.option("--attempt", type=click.IntRange(1), envvar="GITHUB_RUN_ATTEMPT", default=1, show_default=True)
@click.option("--traces", "trace_place", metavar="FOLDER|URL", help="Where traces go; default: small ones inline.")
@click.option("--trace-sample", type=click.FloatRange(0, 1), default=0.1, show_default=True, help="Of successes.")
@click.option("--keep", "kept", type=_FOLDER, default=Path("mldb-kept"), show_default=True, help="Until it is stored.")
@click.option("--dry-run", is_flag=True, help="Read and report; store nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@_target
def collect(**options: Any) -> None:
    """Merge what the jobs of a run left, as untrusted data, and store it in one commit.

    ARTIFACT_DIR is a folder of artifacts as actions/download-artifact lays them out, or one run folder. Whatever does
    not agree with the plan is refused by name, and everything else is stored. Repeating the command is harmless.

    Exit status: 0 every planned cell is stored and nothing was refused; 1 something was refused or is missing, the
    rest is stored; 2 the command or the set-up is wrong, nothing was stored; 3 the branch could not be reached for
    five minutes or twelve tries, the bundle is kept and the command that resumes is printed.
    """
    from bench.store.artifacts import Caps
    from bench.store.collect import collect as merge

    admission = _admission(options)
    with Ticker(options["as_json"]) as ticker:
        collected = merge(options["folders"], admission, Caps(), ticker)
        report = _Report(collected, options["as_json"])
        if collected.taken:
            bundle, refused = _bundle(collected, admission, options, ticker)
            report.refused += refused
            report.traces = len(bundle.traces)
            if not options["dry_run"]:
                report.committed, report.kept = _store(bundle, options)
    report.show(options["branch"], options["dry_run"])
    sys.exit(report.status)


@click.command()
@click.argument("folders", metavar="KEPT_BUNDLE...", nargs=-1, required=True, type=_FOLDER)
@_target
def push(folders: tuple[Path, ...], repository: str, branch: str, via: Any, patience: float) -> None:
    """Store bundles that `collect` kept when it could not store them. Stored ones are removed from disk.

    Exit status: 0 all are stored; 2 a bundle is not whole or cannot be stored; 3 given up once more, they are kept.
    """
    from bench.store.kept import discard, load
    from bench.store.landing import GivenUp

    for folder in folders:
        bundle = load(folder)
        try:
            done = _branch(repository, branch, via, patience).commit(bundle)
        except GivenUp as error:
            click.echo(f"error: {error}\nkept in {folder}", err=True)
            sys.exit(EXIT_GIVEN_UP)
        discard(folder)
        click.echo(_stored(done, branch))


class _Report:
    """What is said at the end, to people and to programs."""

    def __init__(self, collected: Collected, as_json: bool) -> None:
        self.collected = collected
        self.as_json = as_json
        self.refused: list[Refusal] = list(collected.refused)
        self.traces = 0
        self.committed: Committed | None = None
        self.kept = ""
        """The command that resumes, where the bundle could not be stored."""

    @property
    def status(self) -> int:
        if self.kept:
            return EXIT_GIVEN_UP
        return EXIT_FAILED if self.refused or self.collected.untold or self.collected.missing else 0

    def show(self, branch: str, dry_run: bool) -> None:
        if self.as_json:
            click.echo(json.dumps(self._document(), indent=1))
            return
        for refusal in self.refused:
            click.echo(f"refused: {refusal}", err=True)
        click.echo(self.headline())
        if self.committed is not None:
            click.echo(_stored(self.committed, branch))
        elif self.kept:
            click.echo(f"not stored, and kept; resume with\n  {self.kept}", err=True)
        else:
            click.echo("nothing was stored" + (" (--dry-run)" if dry_run else ""))
        _add_summary(self)

    def headline(self) -> str:
        taken, missing = len(self.collected.taken), len(self.collected.missing)
        refused = len(self.refused) + self.collected.untold
        return (
            f"{taken} of {taken + missing} planned cells; {missing} missing; {refused} refused"
            f"{f' ({self.collected.untold} not shown)' if self.collected.untold else ''}; {self.traces} traces kept"
        )

    def _document(self) -> dict[str, object]:
        from bench.store.shown import shown

        return {
            "commit": self.committed.commit if self.committed else None,
            "new": self.committed.new if self.committed else False,
            "records": len(self.collected.taken),
            "missing": self.collected.missing,
            "refused": [{"where": shown(it.where), "why": shown(it.why)} for it in self.refused],
            "refused_not_shown": self.collected.untold,
            "traces": self.traces,
            "resume": self.kept or None,
        }


def _admission(options: dict[str, Any]) -> Admission:
    from bench.rundir import RunPlan
    from bench.store.admission import Admission, Shards

    plan = _read(options["plan"], RunPlan, "--plan")
    shards = _read(options["shards"], Shards, "--shards") if options["shards"] else None
    return Admission.to(plan, shards, options["run_url"])


def _read(path: Path, model: Any, option: str) -> Any:
    from pydantic import ValidationError

    from bench.schema import explain

    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=path, remedy=f"correct {option}") from None
    except ValidationError as error:
        raise UserError(explain(error, model), where=path, remedy=f"correct {option}") from None


def _bundle(
    collected: Collected, admission: Admission, options: dict[str, Any], ticker: Ticker
) -> tuple[Bundle, list[Refusal]]:
    """The bundle with its traces, and what of these was refused."""
    from dataclasses import replace

    from bench.store.keeping import keep_traces
    from bench.store.traceplace import open_trace_place

    bundle = collected.bundle(admission, options["attempt"])
    if options["dry_run"]:
        return bundle, []
    place = open_trace_place(options["trace_place"]) if options["trace_place"] else None
    kept = keep_traces(collected.taken, place, options["trace_sample"], ticker)
    return replace(bundle, traces=kept.traces, inline=kept.inline), kept.refused


def _store(bundle: Bundle, options: dict[str, Any]) -> tuple[Committed | None, str]:
    """Store a bundle that lies on disk until it is stored; else the command that resumes."""
    from bench.store.kept import discard, keep
    from bench.store.landing import GivenUp

    branch = _branch(options["repository"], options["branch"], options["via"], options["patience"])
    folder = keep(bundle, options["kept"])
    places = ["--results", options["repository"], "--branch", options["branch"], "--via", options["via"]]
    resume = shlex.join(["ml-dev-bench", "results", "push", str(folder), *places])
    try:
        branch.ensure()
        done = branch.commit(bundle)
    except GivenUp as error:
        click.echo(f"error: {error}", err=True)
        return None, resume
    except UserError:
        click.echo(f"not stored, and kept; when that is mended, resume with\n  {resume}", err=True)
        raise
    discard(folder)
    return done, ""


def _branch(repository: str, branch: str, via: Any, patience: float) -> ResultsBranch:
    from bench.store.branch import ResultsBranch
    from bench.store.landing import Patience

    return ResultsBranch(repository, branch, via=via, patience=Patience(seconds=patience))


def _stored(done: Committed, branch: str) -> str:
    return f"results: {'commit' if done.new else 'already stored in commit'} {done.commit} on branch {branch}"


def _add_summary(report: _Report) -> None:
    """The same, below the page of the job."""
    if not os.environ.get("GITHUB_STEP_SUMMARY"):
        return
    from bench.cli.summary import escape
    from bench.cli.workflow import add_summary

    lines = ["## Collected", "", escape(report.headline(), 500), ""]
    lines += [f"- refused: {escape(str(refusal), 500)}" for refusal in report.refused[:200]]
    lines += [f"- missing: {escape(cell, 200)}" for cell in report.collected.missing[:200]]
    add_summary("\n".join(lines) + "\n")
