"""`ml-dev-bench plan`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import UserError
from bench.cli.options import CASES, CHECK, NO_SEED_SECRET, PATH, Number, as_json, branch, gathered, repository, sandbox
from bench.cli.plan_cells import Past, Wanted, plan_wanted
from bench.cli.plan_earlier import fleet_of, look_and_tell, refuse_look_of_check
from bench.cli.plan_text import show_plan
from bench.cli.printing import tell_ready

if TYPE_CHECKING:
    from bench.base.install import DataFolders
    from bench.formats.plan import PlanFile
    from bench.formats.seeds import SeedSecret
    from bench.plan import Experiment

_DAY = click.DateTime(["%Y-%m-%d"])


@click.command()
@click.argument("words", metavar="[EXPERIMENT.yaml] [KEY=VALUE]...", nargs=-1)
@repository("Measured times and costs from this results branch.")
@branch("Branch of --results.")
@click.option("--runs", "run_folders", multiple=True, type=PATH, help="Measured times and costs from this run folder.")
@click.option(
    "--missing-from",
    type=PATH,
    metavar="RUN",
    help="Plan only what has no verdict: of a run folder, or of a plan.json among the records of --results or --runs.",
)
@click.option(
    "--next-round",
    type=PATH,
    metavar="PLAN",
    help="Look, once, at the round of this plan.json that --results holds, and plan the next one.",
)
@click.option("--date", "day", type=_DAY, metavar="YYYY-MM-DD", help="Day of mode=rotating; default: today, UTC.")
@sandbox("What every shard runs in; auto: what works here, or bubblewrap for shards on other machines.")
@click.option(
    "--runner",
    type=click.Choice(["auto", "hosted", "self-hosted", "local"]),
    default="auto",
    show_default=True,
    help="What ends a shard: hosted after 6 hours, self-hosted after 5 days, local: nothing. auto: as in the plan of "
    "--missing-from, else self-hosted for machines with that label, and hosted for the others.",
)
@click.option(
    "--budget",
    type=Number(0, min_open=True),
    default=None,
    metavar="USD",
    help="Choose trials and cases for the best chance of a verdict at this price, which needs --results or --runs.",
)
@click.option(
    "--detect",
    type=Number(0, 100, min_open=True),
    default=10.0,
    show_default=True,
    metavar="POINTS",
    help="With --budget: the drop of the mean success that the verdict must show.",
)
@click.option("--out", type=PATH, help="Write plan.json here, for `run-shard`.")
@click.option("--github-output", is_flag=True, help="Also write `matrix` and `shards` to the file $GITHUB_OUTPUT.")
@NO_SEED_SECRET
@CHECK
@CASES
@as_json("Print the plan as JSON.")
@gathered("past", Past)
def plan(
    words: tuple[str, ...],
    past: Past,
    missing_from: Path | None,
    next_round: Path | None,
    day: datetime | None,
    sandbox: str,
    out: Path | None,
    github_output: bool,
    no_seed_secret: bool,
    folders: DataFolders,
    as_json: bool,
) -> None:
    """Turn an experiment into shards of cells, and say what they will take and cost before anything runs.

    An experiment file names suites, agents, models, settings, profiles, trials, machines and a budget; each may be
    given or changed on the command line, as in `plan nightly.yaml trials=5 agents=react,aide budget.usd=40`. Those
    of the papers ship with it: `plan paper/react-gpt-4o`.

    In a job of GitHub Actions the names of the runs begin with the id and the attempt of the workflow run, so that one
    file serves every night, and agents of the repository are named as seen from there.

    What --missing-from plans runs under the name of the earlier run, on its data, in its sandbox and on the machines of
    that plan.json, where the experiment does not name others.

    `plan base=OLD agents=NEW until_decided=true` makes rounds of the trials, which end when a look has decided. Shards
    of the first round run; after their `results collect`, `plan --next-round PLAN --results R` makes the look, writes
    it onto the results branch, and plans the round that follows, until nothing is left to run.

    `plan --budget 20 --detect 10 agents=mine --results R` chooses trials, and cases within strata of category,
    difficulty and length, by the chance of a verdict per dollar. It says price and chance with intervals, for the
    chosen cases.

    Times are promised for 95 of 100 such plans. A shard that GitHub would end before that is split, or refused
    (--runner).

    The seeds of the data derive from MLDB_SEED_SECRET. Where it is not set, --out draws a secret and keeps it beside
    the plan, for `run-shard` on this machine. Shards on other machines, as on GitHub, need it set for plan and shards.

    Exit status: 0 planned; 2 nothing was planned: a mistake, or more than the budget.
    """
    from bench.github import set_outputs
    from bench.plan import find_experiment

    file = find_experiment(words[0], folders.cases) if words and "=" not in words[0] else None
    due = _due(next_round, past, missing_from, github_output=github_output)
    missing_from = next_round or missing_from
    experiment, past = _asked(file, words, past, missing_from)
    today = (day or datetime.now(UTC)).date()
    secret = _secret(no_seed_secret, elsewhere=github_output or out is None, earlier=missing_from)
    elsewhere = github_output or out is None
    made = plan_wanted(Wanted(
        experiment, folders, past, missing_from, due, today, sandbox, secret,
        where=str(file or "plan"), quiet=as_json, elsewhere=elsewhere,
    ))  # fmt: skip
    if made is None:
        _tell_nothing(github_output)
        return
    document, matrix = made
    if past.check:
        tell_ready(document.expected.cells)
        return
    if out is not None:
        document = _written(document, out, secret, missing_from)
    if github_output:
        set_outputs({"matrix": matrix, "shards": str(len(document.shards))})
    if as_json:
        click.echo(document.model_dump_json(by_alias=True, indent=1))
    else:
        show_plan(document)


def _due(
    next_round: Path | None, past: Past, missing_from: Path | None, *, github_output: bool
) -> Mapping[str, int] | None:
    """The trial that is due of each run after a look at the last round; None where no round was asked for."""
    if next_round is None:
        return None
    refuse_look_of_check(past.check)
    return look_and_tell(next_round, missing_from, past.repository, past.branch, github_output=github_output)


def _tell_nothing(github_output: bool) -> None:
    from bench.github import set_outputs

    click.echo("nothing to run: every cell has a verdict already, or no case has its turn")
    if github_output:
        set_outputs({"matrix": '{"include":[]}', "shards": "0"})


def _asked(file: Path | None, words: Sequence[str], past: Past, earlier: Path | None) -> tuple[Experiment, Past]:
    """The experiment of the command line, with what it inherits of an earlier plan."""
    from bench.plan import load_experiment

    fleet = fleet_of(earlier, replaced=file is not None)
    if file is not None and file.suffix not in (".yaml", ".yml") and not file.exists():
        remedy = f"name an experiment file, or write key=value, such as agents={file}"
        raise UserError("no such file", where=file, remedy=remedy)
    experiment = load_experiment(file, words[1:] if file is not None else words, fleet)
    if fleet is not None and past.runner == "auto":
        past = replace(past, runner=fleet.runner)
    return _named_for_workflow(experiment), past


def _written(document: PlanFile, out: Path, secret: SeedSecret, earlier: Path | None) -> PlanFile:
    """The plan as it now stands in the file `out`, with its secret beside it."""
    from bench.base.files import write_atomic
    from bench.plan import with_agents_below

    if workspace := os.environ.get("GITHUB_WORKSPACE"):
        document = with_agents_below(document, Path(workspace).resolve())
    _keep_secret(secret, out, earlier)
    write_atomic(out, document.model_dump_json(by_alias=True, indent=1).encode() + b"\n")
    return document


def _named_for_workflow(experiment: Experiment) -> Experiment:
    """On GitHub a name that no other workflow run, and no other attempt at it, gives to its runs."""
    from bench.plan import bounded_name

    number, attempt = os.environ.get("GITHUB_RUN_ID", ""), os.environ.get("GITHUB_RUN_ATTEMPT") or "1"
    if not number.isdigit() or not attempt.isdigit():
        return experiment
    return experiment.model_copy(update={"name": bounded_name(f"gh-{number}-{attempt}-{experiment.name}")})


def _secret(refused: bool, *, elsewhere: bool, earlier: Path | None) -> SeedSecret:
    """The secret of a new plan; elsewhere: it could not be kept where the shards run. Missing cells keep their own."""
    from bench.formats.seeds import SeedSecret
    from bench.runs import new_secret

    if earlier is not None:
        return SeedSecret()
    # On GitHub shards are jobs, which share nothing but artifacts, and these are public.
    elsewhere = elsewhere or bool(os.environ.get("GITHUB_ACTIONS"))
    secret = new_secret("" if refused else None, draw=not elsewhere)
    if not secret.secret and not refused:
        click.echo("note: without MLDB_SEED_SECRET, the data's seeds are public, and the results are marked", err=True)
    return secret


def _keep_secret(secret: SeedSecret, out: Path, earlier: Path | None) -> None:
    """Keep a drawn secret beside the plan, also that of the plan or run whose missing cells it has."""
    from bench.formats.run_folder import SECRET
    from bench.runs import keep_secret, secret_beside

    if earlier is None:
        keep_secret(secret, out)
        return
    kept = earlier / SECRET if earlier.is_dir() else secret_beside(earlier)
    if kept.is_file():
        from bench.base.files import write_atomic

        write_atomic(secret_beside(out), kept.read_bytes(), 0o600)
