"""The verbs of `ml-dev-bench action` for machines that exist already, and for the site.

Two engines: `label`, runners that something else starts and ends, and `local`, the machine of this job.
"""

from __future__ import annotations

import json
import os
import re
import urllib.request
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from pydantic import Field

from bench.base.errors import UserError
from bench.base.model import Model
from bench.cli.action_inputs import Words, annotated, own_repository, read_inputs, runner_variable, use_token
from bench.cli.action_matrix import artifact_of, plan_in, work_folder
from bench.github import add_summary, annotate_error, annotate_warning, set_outputs

if TYPE_CHECKING:
    from bench.formats.plan import PlanFile
    from bench.formats.shards import MachineClass, Shard

_QUEUE_HOURS = 24
"""GitHub ends a job that no runner has taken by then."""
_ABOUT_BYTES = 65536
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


class _Engine(Model):
    engine: Literal["label", "local"] = "label"


class _ProvisionInputs(_Engine):
    plan: Path
    single_use: bool = Field(False, alias="single-use")


class _RunInputs(_Engine):
    plan: Path


class _SiteInputs(Model):
    results_repository: str = Field("", alias="results-repository")
    results_branch: str = Field("mldb-results", alias="results-branch")
    suite: Words = ["smoke"]
    site: Path = Path("_site")
    base_url: str = Field("", alias="base-url")


@click.command()
@annotated
def provision() -> None:
    """Say what machines the plan wants and what they cost, and check what can be checked. Starts no machine."""
    from bench.formats.plan import read_plan_file

    told = read_inputs(_ProvisionInputs)
    document = read_plan_file(plan_in(told.plan))
    lines = _quote(document)
    if told.engine == "local":
        faults = [fault for machine in _machines(document) for fault in _too_small(machine)]
        if faults:
            raise UserError("; ".join(faults), where="provision", remedy="correct `machines` in the experiment file")
    else:
        lines += [
            "",
            "Nothing is started here: the runners with these labels are yours. A job that none of them takes waits, "
            f"and GitHub ends it after {_QUEUE_HOURS} hours; then start the workflow anew with missing-from.",
        ]
    add_summary("\n".join(["## Machines", "", *lines, "", ""]))
    for line in lines:
        click.echo(line)
    # A later attempt finds the runners of this one gone, where each served one job.
    attempt = os.environ.get("GITHUB_RUN_ATTEMPT") or "1"
    set_outputs({"attempt": attempt, "single-use": str(told.single_use).lower()})


@click.command()
@annotated
def release() -> None:
    """Give back what the plan's shards used: for `local` the leftovers of killed cells, for `label` nothing."""
    from bench.formats.plan import read_plan_file

    told = read_inputs(_RunInputs)
    if told.engine == "label":
        click.echo("label: runners of others are released by what started them; nothing to do")
        return
    document = read_plan_file(plan_in(told.plan))
    folders = [path for shard in document.shards for path in _shard_folders(artifact_of(document, shard.id))]
    click.echo(f"local: cleaned {_clean(folders)} of {len(folders)} run folders")


@click.command()
@annotated
def sweep() -> None:
    """Find what earlier runs left behind: for `local` the leftovers of killed cells, for `label` nothing."""
    told = read_inputs(_Engine)
    if told.engine == "label":
        click.echo("label: this project started no machine, so there is nothing to find")
        return
    folders = _shard_folders("*")
    click.echo(f"local: cleaned {_clean(folders)} of {len(folders)} run folders")


@click.command("refuse-rerun")
@annotated
def refuse_rerun() -> None:
    """Fail a repeated attempt whose single-use runners are gone, with what to do instead."""
    annotate_error(
        "the runners of the first attempt served one job each and are gone, so these jobs would wait for "
        f"{_QUEUE_HOURS} hours: start this workflow anew with missing-from {runner_variable('GITHUB_RUN_ID')}, which "
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
    with stored_results(source, told.results_branch) as results:
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
    except (OSError, ValueError, KeyError, TypeError):
        click.echo(f"no site of this program is known to be deployed at {base_url}")
        return ""
    return commit if _COMMIT.fullmatch(commit) else ""


def _quote(document: PlanFile) -> list[str]:
    """What the shards ask for, by kind of machine, as a table in Markdown."""
    from bench.base.text import escape

    by_machine: dict[str, list[Shard]] = defaultdict(list)
    for shard in document.shards:
        by_machine[shard.machine].append(shard)
    rows = [
        f"| {escape(name, 64)} | {escape(', '.join(shards[0].labels), 300)} | {len(shards)} "
        f"| {max(shard.seconds for shard in shards) / 60:.0f} | {sum(shard.machine_usd for shard in shards):.2f} |"
        for name, shards in sorted(by_machine.items())
    ]
    return ["| machine | labels | shards | longest, minutes | USD |", "|---|---|--:|--:|--:|", *rows]


def _machines(document: PlanFile) -> Sequence[MachineClass]:
    used = {shard.machine for shard in document.shards}
    return [machine for machine in document.fleet.machines if machine.name in used] if document.fleet else []


def _too_small(machine: MachineClass) -> list[str]:
    """What this machine lacks of what its class promises."""
    cpus = len(os.sched_getaffinity(0))
    memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20)
    gpus = len(list(Path("/dev").glob("nvidia[0-9]*")))
    facts = (
        ("CPUs", machine.cpus, cpus),
        ("MiB of memory", machine.memory_mb, memory_mb),
        ("GPUs", machine.gpus, gpus),
    )
    return [
        f"machine {machine.name!r} promises {promised} {what}, and this one has {has}"
        for what, promised, has in facts
        if has < promised
    ]


def _shard_folders(pattern: str) -> list[Path]:
    """Run folders that shards left on this machine."""
    return sorted(path.parent for path in work_folder("shards").glob(f"{pattern}/*/run.json"))


def _clean(folders: Sequence[Path]) -> int:
    """End what killed cells left in folders on which no runner works; how many these are."""
    from bench.formats.run_folder import RunFolder
    from bench.sandbox import end_orphans

    cleaned = 0
    for folder in folders:
        try:
            with RunFolder(folder).locked(end_orphans):
                cleaned += 1
        except UserError as error:
            click.echo(f"left alone: {error}", err=True)
    return cleaned
