"""`ml-dev-bench results collect` and `push`: artifacts of many jobs to one commit."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.collected import EXIT_GIVEN_UP, Report, show, stored_line
from bench.cli.ticker import Ticker
from bench.errors import UserError

if TYPE_CHECKING:
    from bench.store.admission import Admission
    from bench.store.artifacts import Refusal
    from bench.store.branch import Committed, ResultsBranch
    from bench.store.bundle import Bundle
    from bench.store.collect import Collected

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
@click.option(
    "--plan", type=_FOLDER, required=True, help="run.json or plan.json of the job that planned, never of an artifact."
)
@click.option("--shards", type=_FOLDER, help="For run.json: JSON of which artifact may bring which cells.")
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
    A plan.json says itself which artifact may bring which cells, by the name RUN-SHARD; each of its runs is a commit.

    Exit status: 0 every planned cell is stored and nothing was refused; 1 something was refused or is missing, the
    rest is stored; 2 the command or the set-up is wrong, nothing was stored; 3 the branch could not be reached for
    five minutes or twelve tries, the bundle is kept and the command that resumes is printed.
    """
    from bench.store.admission import read_admissions
    from bench.store.artifacts import Caps, find_artifacts
    from bench.store.collect import collect as merge

    admissions = read_admissions(options["plan"], options["shards"], options["run_url"])
    artifacts, refused = find_artifacts(options["folders"], Caps())
    reports: list[Report] = []
    with Ticker(options["as_json"]) as ticker:
        for number, admission in enumerate(admissions):
            theirs = {name for other in admissions if other is not admission for name in other.artifacts}
            # What no run knows is the first one's to refuse.
            mine = [it for it in artifacts if it.name in admission.artifacts or not (number or it.name in theirs)]
            report = Report(admission.plan.run, merge(mine, admission, Caps(), ticker))
            report.refused += [] if number else refused
            if report.collected.taken:
                bundle, unfit = _bundle(report.collected, admission, options, ticker)
                report.refused += unfit
                report.traces = len(bundle.traces)
                if not options["dry_run"]:
                    report.committed, report.kept = _store(bundle, options)
            reports.append(report)
    show(reports, options["branch"], dry_run=options["dry_run"], as_json=options["as_json"])
    sys.exit(max(report.status for report in reports))


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
        click.echo(stored_line(done, branch))


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
