"""The verbs of `ml-dev-bench action` for machines, and for the site."""

from __future__ import annotations

import http.client
import json
import os
import re
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import click
from pydantic import Field

from bench.base.errors import UserError
from bench.base.model import Model
from bench.cli.action_engine_inputs import ProvisionInputs, ReleaseInputs, SweepInputs, take_credential
from bench.cli.action_engines import QUEUE_HOURS, make_machines, release_machines, sweep_machines
from bench.cli.action_inputs import Words, annotated, own_repository, read_inputs, runner_variable, use_token
from bench.cli.action_shards import artifact_of, plan_in, work_folder
from bench.github import add_summary, annotate_error, annotate_warning, set_outputs

_ABOUT_BYTES = 65536
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


class _SiteInputs(Model):
    results_repository: str = Field("", alias="results-repository")
    results_branch: str = Field("mldb-results", alias="results-branch")
    suite: Words = ["smoke"]
    site: Path = Path("_site")
    base_url: str = Field("", alias="base-url")


@click.command()
@annotated
def provision() -> None:
    """Say what machines the plan wants and what they cost, check what can be checked, and make what is to be made."""
    from bench.formats.plan import read_plan_file

    credential = take_credential()
    told = read_inputs(ProvisionInputs)
    document = read_plan_file(plan_in(told.plan, told.plan_digest))
    if told.matrix:
        # Before anything is made: a matrix of another plan is a mistake that would cost.
        told.matrix_for({shard.id: shard.labels for shard in document.shards})
    lines, labels = make_machines(told, document, credential)
    add_summary("\n".join(["## Machines", "", *lines, "", ""]))
    for line in lines:
        click.echo(line)
    # A later attempt finds the runners of this one gone, where each served one job.
    attempt = os.environ.get("GITHUB_RUN_ATTEMPT") or "1"
    single_use = told.single_use or told.makes_machines
    set_outputs(
        {
            "attempt": attempt,
            "single-use": str(single_use).lower(),
            "matrix-runs": str(bool(labels)).lower(),
            "labels": json.dumps(labels, separators=(",", ":")),
            **({"matrix": told.matrix_for(labels)} if told.matrix and labels else {}),
        }
    )


@click.command()
@annotated
def release() -> None:
    """Give back what the plan's shards used: machines, or what killed cells left; for `label` nothing."""
    from bench.formats.plan import read_plan_file

    credential = take_credential()
    told = read_inputs(ReleaseInputs)
    if told.engine == "label":
        click.echo("label: runners of others are released by what started them; nothing to do")
        return
    if told.engine == "local":
        document = read_plan_file(plan_in(told.plan or Path(), told.plan_digest))
        _clean_up([path for shard in document.shards for path in _shard_folders(artifact_of(document, shard.id))])
        return
    release_machines(told, credential)


@click.command()
@annotated
def sweep() -> None:
    """Find what earlier runs left behind: machines and runners, or what killed cells left; for `label` nothing."""
    credential = take_credential()
    told = read_inputs(SweepInputs)
    if told.engine == "label":
        click.echo("label: this project started no machine, so there is nothing to find")
        return
    if told.engine == "local":
        _clean_up(_shard_folders("*"))
        return
    sweep_machines(told, credential)


@click.command("refuse-rerun")
@annotated
def refuse_rerun() -> None:
    """Fail a repeated attempt whose single-use runners are gone, with what to do instead."""
    annotate_error(
        "the runners of the first attempt served one job each and are gone, so these jobs would wait for "
        f"{QUEUE_HOURS} hours: start this workflow anew with missing-from {runner_variable('GITHUB_RUN_ID')}, which "
        "plans just the cells without a verdict"
    )
    raise SystemExit(1)


@click.command("site")
@annotated
def build_site() -> None:
    """Build the leaderboard from the tip of the results branch, and say whether it may replace the deployed one."""
    from bench.cli.pages import write_site
    from bench.cli.results import suite_cases
    from bench.cli.stored import stored_results
    from bench.store import is_earlier

    token = os.environ.pop("MLDB_TOKEN", "")
    told = read_inputs(_SiteInputs)
    source = told.results_repository or own_repository()
    use_token(token, source)
    cases = {case for suite in told.suite for case in suite_cases(suite)}
    with stored_results(source, told.results_branch, may_be_new=True) as results:
        index = write_site(results, sorted(cases), told.site)
    deployed = _deployed(told.base_url, told.results_branch, results.tip)
    older = bool(deployed) and bool(results.tip) and is_earlier(source, told.results_branch, results.tip, deployed)
    if older:
        annotate_warning(f"not to be published: the deployed site is of {deployed[:12]}, newer than {results.tip[:12]}")
    folder = str(index.parent.resolve())
    set_outputs({"site": folder, "commit": results.tip, "publish": str(not older).lower()})
    click.echo(f"site: {index}, from commit {results.tip or 'none'} of {told.results_branch}")


def _deployed(base_url: str, branch: str, own: str) -> str:
    """The commit that the deployed site was built from; empty where that cannot be told."""
    if not base_url:
        return ""
    if not base_url.startswith(("https://", "http://")):
        raise UserError(f"field `base-url`: {base_url!r} is not a web address", where="action inputs")
    # The query keeps caches between here and there from answering with an earlier deployment.
    address = f"{base_url.rstrip('/')}/data/site.json?for={own}"
    try:
        with urllib.request.urlopen(address, timeout=20) as answer:  # noqa: S310  the scheme was checked
            found = json.loads(answer.read(_ABOUT_BYTES))["built_from"]
        commit = str(found["commit"]) if found["branch"] == branch else ""
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, RecursionError):
        click.echo(f"no site of this program is known to be deployed at {base_url}")
        return ""
    return commit if _COMMIT.fullmatch(commit) else ""


def _shard_folders(pattern: str) -> list[Path]:
    """Run folders that shards left on this machine."""
    return sorted(path.parent for path in work_folder("shards").glob(f"{pattern}/*/run.json"))


def _clean_up(folders: Sequence[Path]) -> None:
    """End what killed cells left in folders on which no runner works."""
    from bench.machines import LocalEngine, Scope

    engine = LocalEngine(lambda: folders, _clean, {})
    released = engine.release(engine.find(Scope("")).machines)
    for fault in released.faults:
        click.echo(fault, err=True)
    click.echo(f"local: cleaned {len(released.machines)} of {len(folders)} run folders")


def _clean(folder: Path) -> None:
    from bench.formats.run_folder import RunFolder
    from bench.sandbox import end_orphans

    with RunFolder(folder).locked(end_orphans):
        pass
