"""What `provision`, `release` and `sweep` of `ml-dev-bench action` do with an engine."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

import click

from bench.base.errors import EXIT_FAILED, UserError
from bench.cli.action_batch import work_of
from bench.cli.action_engine_inputs import EngineInputs, ProvisionInputs, ReleaseInputs, SweepInputs
from bench.cli.action_inputs import runner_variable
from bench.cli.action_shards import plan_in, work_folder
from bench.cli.interrupts import interrupt_on_sigterm
from bench.github import add_summary, annotate_error, annotate_warning

if TYPE_CHECKING:
    from bench.formats.plan import PlanFile
    from bench.formats.shards import Shard
    from bench.github import AppKey
    from bench.machines import Demand, Engine, MachineSettings, Quote, Registration, Registry, Run, RunnerRecord, Work

QUEUE_HOURS = 24
"""GitHub ends a job that no runner has taken by then."""
_BOOT_HOURS = 0.5
"""From the launch of a machine to the start of its job, at most."""


def make_machines(
    told: ProvisionInputs, document: PlanFile, credential: str | AppKey | None
) -> tuple[list[str], dict[str, list[str]]]:
    """Lines for people, and what `runs-on` of each shard asks for."""
    if told.makes_machines:
        return _launch(told, document, credential)
    from bench.machines import LabelEngine, LocalEngine

    prices = {it.name: it.usd_per_hour for it in document.fleet.machines} if document.fleet else {}
    lines = _asked(document)
    if told.engine == "local":
        LocalEngine(list, lambda folder: None, prices).quote(_demands(document, QUEUE_HOURS))
    else:
        LabelEngine(prices).quote(_demands(document, QUEUE_HOURS))
        lines += [
            "",
            "Nothing is started here: the runners with these labels are yours. A job that none of them takes waits, "
            f"and GitHub ends it after {QUEUE_HOURS} hours; then start the workflow anew with missing-from.",
        ]
    return lines, {shard.id: shard.labels for shard in document.shards}


def release_machines(told: ReleaseInputs, credential: str | AppKey | None) -> None:
    """End all machines of this workflow run, of every attempt; status 1 where something could not be ended."""
    from bench.machines import Scope, release_all

    settings = told.settings()
    run = _this_run(told)
    with _registry(settings, credential, strict=False) as registry:
        report = release_all(_engine(told, settings), Scope(run.repository, run.id), registry)
    for machine in report.machines:
        click.echo(f"{told.engine}: ended {machine.kind} {machine.id} of shard {machine.lease.shard}")
    for name in report.records:
        click.echo(f"{told.engine}: removed runner record {name}")
    for name in report.busy:
        click.echo(f"{told.engine}: runner record {name} still has a job; GitHub removes it after that, or the sweep")
    add_summary(f"Released: {len(report.machines)} of machines and the like, {len(report.records)} runner records.\n\n")
    if report.faults:
        _fail(report.faults, "not released")


def sweep_machines(told: SweepInputs, credential: str | AppKey | None) -> None:
    """End what earlier runs left. Status 1 where there was something, because a leak is a fault, or a look failed."""
    settings = told.settings()
    with _registry(settings, credential, strict=False) as registry:
        report = _engine(told, settings).sweep(runner_variable("GITHUB_REPOSITORY"), registry, pause_s=told.pause_s)
    for ending in report.ended:
        annotate_warning(f"swept {ending.what}: {ending.why}")
    add_summary(f"Swept: {len(report.ended)} left behind, {report.kept} in order, {len(report.faults)} faults.\n\n")
    click.echo(f"{told.engine}: {len(report.ended)} left behind, {report.kept} in order")
    if report.faults:
        _fail(report.faults, "not swept")
    if report.ended:
        sys.exit(EXIT_FAILED)


def _launch(
    told: ProvisionInputs, document: PlanFile, credential: str | AppKey | None
) -> tuple[list[str], dict[str, list[str]]]:
    from bench.machines import provision_all

    if told.budget_usd is None:
        raise UserError(
            "field `budget-usd`: machines cost money, so a limit is needed",
            where="action inputs",
            remedy="say how many USD the machines of this run may cost together",
        )
    settings = told.settings()
    engine = _engine(told, settings, work_of(document, plan_in(told.plan, told.plan_digest)))
    run = _this_run(told)
    demands = _demands(document, settings.max_hours)
    quotes: list[Quote] = []
    # GitHub ends a cancelled job with SIGINT, then SIGTERM, then by force: in between, machines are released.
    interrupt_on_sigterm()
    with _registry(settings, credential, strict=engine.registers) as registry:
        provision_all(
            engine,
            run,
            demands,
            budget_usd=told.budget_usd,
            registry=registry,
            leases=work_folder("machines") / "leases.jsonl",
            tell=click.echo,
            quoted=quotes.extend,
        )
    labels = {demand.shard: [run.lease(demand).label] for demand in demands}
    return _quoted(quotes), labels if engine.registers else {}


def _engine(told: EngineInputs, settings: MachineSettings, work: Work | None = None) -> Engine:
    from bench.machines import Work, open_engine

    return open_engine(told.engine, settings, work or Work(), told.machines or "machines file")


def _this_run(told: EngineInputs) -> Run:
    from bench.machines import Run

    attempt = int(os.environ.get("GITHUB_RUN_ATTEMPT") or 1)
    return Run(told.engine, runner_variable("GITHUB_REPOSITORY"), runner_variable("GITHUB_RUN_ID"), attempt)


@contextlib.contextmanager
def _registry(settings: MachineSettings, credential: str | AppKey | None, *, strict: bool) -> Iterator[Registry]:
    """GitHub's side; where it cannot be opened and need not be, each question about it is a fault, and no more."""
    from bench.github import API, open_runners

    with contextlib.ExitStack() as stack:
        registry: Registry
        try:
            if credential is None:
                remedy = "pass `runner-token`, or `app-id` and `app-key` (docs/machines.md)"
                raise UserError("the right to register runners is missing", where="action inputs", remedy=remedy)
            registry = stack.enter_context(
                open_runners(
                    runner_variable("GITHUB_REPOSITORY"),
                    credential,
                    organisation=settings.runners.organisation,
                    group=settings.runners.group,
                    api=os.environ.get("GITHUB_API_URL") or API,
                )
            )
        except UserError as error:
            if strict:
                raise
            registry = _Unknown(error)
        yield registry


class _Unknown:
    """A registry that could not be opened: machines are ended all the same."""

    def __init__(self, error: UserError) -> None:
        self._error = error

    def register(self, name: Callable[[], str], label: str) -> Registration:
        raise self._error

    def records(self) -> Sequence[RunnerRecord]:
        raise self._error

    def remove(self, record: int) -> None:
        raise self._error

    def has_ended(self, run: str, attempt: int) -> bool:
        raise self._error


def _demands(document: PlanFile, max_hours: float) -> list[Demand]:
    """What each shard asks for: twice the time that it is promised to take, for that may be wrong, and the boot."""
    from bench.machines import Demand

    classes = {it.name: it for it in document.fleet.machines} if document.fleet else {}
    demands = []
    for shard in document.shards:
        known = classes.get(shard.machine)
        if shard.seconds / 3600 + _BOOT_HOURS > max_hours:
            raise UserError(
                f"shard {shard.id} may take {shard.seconds / 3600:.1f} hours, and machines live for {max_hours:g}",
                where="provision",
                remedy="shorten `shard_minutes` in the experiment file, or raise `max_hours` in the machines file",
            )
        demands.append(
            Demand(
                shard=shard.id,
                machine=shard.machine,
                cpus=known.cpus if known else 0,
                memory_mb=known.memory_mb if known else 0,
                gpus=known.gpus if known else 0,
                hours=min(max_hours, 2 * shard.seconds / 3600 + _BOOT_HOURS),
            )
        )
    return demands


def _asked(document: PlanFile) -> list[str]:
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


def _quoted(quotes: Sequence[Quote]) -> list[str]:
    """What the machines can cost at most, as a table in Markdown."""
    by_kind: dict[tuple[str, float, str], list[Quote]] = defaultdict(list)
    for quote in quotes:
        by_kind[quote.kind, quote.usd_per_hour, quote.source].append(quote)
    rows = [
        f"| {kind} | {len(found)} | {price:.4f} | {sum(it.hours for it in found):.1f} "
        f"| {sum(it.usd for it in found):.2f} | {source} |"
        for (kind, price, source), found in sorted(by_kind.items())
    ]
    head = "| at most | machines | USD an hour | hours, together | USD | price from |"
    return [head, "|---|--:|--:|--:|--:|---|", *rows]


def _fail(faults: Sequence[str], what: str) -> NoReturn:
    for fault in faults:
        annotate_error(f"{what}: {fault}")
    sys.exit(EXIT_FAILED)
