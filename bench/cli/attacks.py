"""What `cases verify --attacks` and `cases verify --honest` print."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.errors import UserError

if TYPE_CHECKING:
    from bench.attack.trial import Result
    from bench.case import Case
    from bench.places import Places
    from bench.sandbox.job import Sandbox


def run_attacks(
    cases: Sequence[Case],
    places: Places,
    sandbox: Sandbox,
    *,
    only: Sequence[str],
    jobs: int,
    as_json: bool,
    matrix: Path | None,
) -> bool:
    """Carry out the attacks and print what came of each; returns whether all were held."""
    from bench.attack.campaign import Campaign, tasks_of
    from bench.attack.catalogue import load_catalogue
    from bench.attack.listeners import enter_own_network
    from bench.attack.matrix import line, write_page
    from bench.attack.stage import open_stage
    from bench.attack.survivors import groups_of_this_process
    from bench.attack.trial import starts
    from bench.places import find_places

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Somebody's own cases are attacked by the same programs.
    catalogue = load_catalogue(find_places().cases / "attacks")
    attacks = catalogue.select(only)
    if importlib.util.find_spec("jinja2") is None:
        raise UserError("the pages are looked at, too, and Jinja2 is missing", remedy="install ml-dev-bench[site]")
    own_network = enter_own_network(lambda: starts(sandbox))
    notes = "with stand-ins for name server and metadata address" if own_network else "without stand-ins"
    tasks = list(tasks_of(cases, attacks))
    total = sum(len(task.attacks) for task in tasks)
    done = 0

    def tell(result: Result) -> None:
        nonlocal done
        done += 1
        if not as_json:
            click.echo(f"[{done}/{total}] {line(result)}")

    if not as_json:
        click.echo(f"{len(attacks)} attacks, {len(cases)} cases, {total} trials; sandbox: {sandbox.name}, {notes}")
    with open_stage(catalogue, places, sandbox, own_network) as stage:
        results = Campaign(stage).run(tasks, jobs, tell)
    groups = groups_of_this_process()
    if matrix is not None:
        write_page(matrix, results, attacks, notes)
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(result) for result in results], indent=1))
    else:
        _conclude(results, groups)
    return not groups and all(result.held for result in results)


def _conclude(results: Sequence[Result], groups: Sequence[str]) -> None:
    """What got through, once more and together, and the counts."""
    from bench.attack.matrix import line, summary

    for result in results:
        if not result.held:
            click.echo(line(result))
    for left in groups:
        click.echo(f"ESCAPED {left}")
    click.echo(summary(results))


def run_honest(
    cases: Sequence[Case], places: Places, sandbox: Sandbox, *, trials: int, jobs: int, as_json: bool
) -> bool:
    """Run every solution as a real cell, several times, and print what was flagged; returns whether nothing was."""
    from bench.attack.honest import honest_cells

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    alarms = []
    count = 0
    for found in honest_cells(cases, places, sandbox, trials, jobs):
        count += 1
        alarms += [found] if found.alarms else []
        if not as_json:
            click.echo(found.line())
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(found) for found in alarms], indent=1))
    else:
        click.echo(f"{len(cases)} solutions x {trials} trials: {count} cells, {len(alarms)} false alarms")
    return not alarms
