"""`ml-dev-bench cases`."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import EXIT_FAILED, UserError
from bench.cli.options import CASES, as_json, interrupt_on_sigterm, sandbox

if TYPE_CHECKING:
    from bench.attack import Result
    from bench.authoring import Proof
    from bench.base.install import DataFolders
    from bench.formats.case import Case
    from bench.sandbox import Sandbox


_MAX_BYTES = 1_000_000


@click.group()
def cases() -> None:
    """List, show, verify and make cases."""


@cases.command("list")
@CASES
@as_json()
def list_(case_root: Path | None, as_json: bool) -> None:
    """All cases, one a line."""
    from bench.base.install import find_data_folders
    from bench.report import table

    root = find_data_folders(cases=case_root).cases
    if as_json:
        from bench.formats.case import load_cases

        rows = [
            {
                "id": it.id,
                "category": it.spec.category,
                "title": it.spec.title,
                "tags": it.spec.tags,
                "profiles": it.spec.profiles,
                "source": it.spec.source.model_dump(),
            }
            for it in load_cases(root)
        ]
        click.echo(json.dumps(rows, indent=1))
    else:
        click.echo(table([_row(path) for path in sorted(root.glob("*/*/case.yaml"))]))


def _row(path: Path) -> tuple[str, str, str, str]:
    """What is shown of a case, read without its model: building that takes longer than all the rest."""
    from bench.base.documents import read_yaml_documents

    match list(read_yaml_documents(path, _MAX_BYTES)):
        case [{"category": str(category), "id": str(name), "title": str(title), "profiles": [*profiles]}]:
            return category, name, ",".join(map(str, profiles)), title
    from bench.formats.case import load_case

    spec = load_case(path.parent).spec
    return spec.category, spec.id, ",".join(spec.profiles), spec.title


@cases.command()
@click.argument("case_id", metavar="CASE")
@CASES
@as_json()
def show(case_id: str, case_root: Path | None, as_json: bool) -> None:
    """One case: what it asks, its limits, its wrong answers."""
    from bench.base.install import find_data_folders
    from bench.formats.case import load_cases

    case = load_cases(find_data_folders(cases=case_root).cases, [case_id])[0]
    if as_json:
        facts = case.spec.model_dump(by_alias=True)
        click.echo(
            json.dumps({**facts, "digest": case.digest, "task": case.task.read_text(encoding="utf-8")}, indent=1)
        )
        return
    spec = case.spec
    limits = spec.limits
    click.echo(f"{spec.category}/{spec.id}: {spec.title}\n")
    click.echo(case.task.read_text(encoding="utf-8").rstrip() + "\n")
    click.echo(f"source     {spec.source.benchmark} {spec.source.id}; {spec.source.thresholds}")
    click.echo(f"profiles   {', '.join(spec.profiles)}")
    click.echo(
        f"limits     agent {limits.agent_s:g} s, judge {limits.grade_s:g} s, {limits.memory_mb} MiB, "
        f"{limits.steps} steps, {limits.cost_usd:g} USD"
    )
    click.echo(f"outputs    {', '.join(item.path for item in spec.outputs.files) or 'none'}")
    click.echo(f"protected  {', '.join(spec.protected) or 'none'}")
    for name, wrong in spec.wrong.items():
        click.echo(f"wrong      {name}: {wrong.about}")


@cases.command()
@click.argument("ids", metavar="[CASE]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All cases.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Cases side by side.")
@sandbox()
@click.option("--attacks", is_flag=True, help="Try to cheat the cases and the sandbox instead.")
@click.option("--only", multiple=True, metavar="FAMILY[.ATTACK]", help="With --attacks: these alone. May be repeated.")
@click.option(
    "--matrix",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --attacks: write the table of all attacks and cases into this Markdown page.",
)
@click.option("--honest", is_flag=True, help="Let the solutions run as cells instead, and flag none.")
@click.option(
    "--trials", type=click.IntRange(1, 100), default=3, show_default=True, help="With --honest: of each case."
)
@CASES
@as_json()
def verify(
    ids: tuple[str, ...],
    every: bool,
    jobs: int,
    sandbox: str,
    attacks: bool,
    only: tuple[str, ...],
    matrix: Path | None,
    honest: bool,
    trials: int,
    case_root: Path | None,
    as_json: bool,
) -> None:
    """Let cases prove themselves.

    The untouched workspace fails, the solution succeeds with score 1.0 on two seeds, every wrong answer fails at
    the check that case.yaml names, data is the same for the same seed, and no answer of an agent's breaks a check.

    With --attacks: every generic attack is carried out against every case, in real cells. None may better a verdict,
    avoid one, reach hidden files, keys or a network, or outlive its cell.
    """
    from bench.base.install import find_data_folders
    from bench.formats.case import load_cases
    from bench.sandbox import choose_sandbox

    if bool(ids) == every:
        raise UserError("name one or more cases, or say --all", where="cases verify")
    if attacks and honest:
        raise UserError("--attacks and --honest are two commands", where="cases verify", remedy="say one of them")
    if not attacks and (only or matrix):
        raise UserError("--only and --matrix belong to --attacks", where="cases verify")
    places = find_data_folders(cases=case_root)
    chosen = load_cases(places.cases, list(ids) or None)
    if attacks:
        good = run_attacks(chosen, places, sandbox, only=only, jobs=jobs, as_json=as_json, matrix=matrix)
    elif honest:
        good = run_honest(chosen, places, choose_sandbox(sandbox), trials=trials, jobs=jobs, as_json=as_json)
    else:
        good = _prove(chosen, places, choose_sandbox(sandbox), jobs, as_json)
    if not good:
        sys.exit(EXIT_FAILED)


def _prove(chosen: list[Case], places: DataFolders, sandbox: Sandbox, jobs: int, as_json: bool) -> bool:
    """Print every proof; returns whether all hold."""
    from concurrent.futures import ThreadPoolExecutor

    from bench.authoring import Verifier
    from bench.base.text import printable

    verifier = Verifier(places, sandbox)

    def prove(case: Case) -> list[Proof]:
        proofs = []
        for proof in verifier.verify(case):
            proofs.append(proof)
            if not as_json:
                mark = click.style("ok  ", fg="green") if proof.ok else click.style("FAIL", fg="red", bold=True)
                click.echo(f"{mark} {proof.case}: {proof.name} ({proof.seconds:.1f} s): {printable(proof.detail)}")
        return proofs

    with ThreadPoolExecutor(jobs) as pool:
        proofs = [proof for found in pool.map(prove, chosen) for proof in found]
    failed = [proof for proof in proofs if not proof.ok]
    if as_json:
        click.echo(json.dumps([vars(proof) for proof in proofs], indent=1))
    else:
        count = len({proof.case for proof in proofs})
        click.echo(f"{count} cases, {len(proofs)} proofs, {len(failed)} failed")
    return not failed


@cases.command()
@click.argument("name", metavar="CATEGORY/ID")
@CASES
def new(name: str, case_root: Path | None) -> None:
    """Make a small working case to start from; `cases verify` is green at once."""
    from bench.authoring import scaffold_case
    from bench.base.install import find_data_folders

    folder = scaffold_case(find_data_folders(cases=case_root).cases, name)
    click.echo(f"made {folder}")
    click.echo(
        f"next: edit task.md, workspace/, solution/ and check.py, then `ml-dev-bench cases verify {folder.name}`"
    )


def run_attacks(
    cases: Sequence[Case],
    places: DataFolders,
    sandbox_name: str,
    *,
    only: Sequence[str],
    jobs: int,
    as_json: bool,
    matrix: Path | None,
) -> bool:
    """Carry out the attacks and print what came of each; returns whether all were held."""
    from bench.attack import (
        Campaign,
        enter_own_network,
        groups_of_this_process,
        load_catalogue,
        matrix_line,
        open_stage,
        starts,
        tasks_of,
        write_page,
    )
    from bench.base.install import find_data_folders
    from bench.sandbox import choose_sandbox

    interrupt_on_sigterm()
    # Somebody's own cases are attacked by the same programs.
    catalogue = load_catalogue(find_data_folders().cases / "attacks")
    attacks = catalogue.select(only)
    if importlib.util.find_spec("jinja2") is None:
        raise UserError("the pages are looked at, too, and Jinja2 is missing", remedy="install ml-dev-bench[site]")
    sandbox = choose_sandbox(sandbox_name)
    own_network = enter_own_network(lambda: starts(sandbox))
    notes = "with stand-ins for name server and metadata address" if own_network else "without stand-ins"
    tasks = list(tasks_of(cases, attacks))
    total = sum(len(task.attacks) for task in tasks)
    done = 0

    def tell(result: Result) -> None:
        nonlocal done
        done += 1
        if not as_json:
            click.echo(f"[{done}/{total}] {matrix_line(result)}")

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
    from bench.attack import matrix_line, matrix_summary

    for result in results:
        if not result.held:
            click.echo(matrix_line(result))
    for left in groups:
        click.echo(f"ESCAPED {left}")
    click.echo(matrix_summary(results))


def run_honest(
    cases: Sequence[Case], places: DataFolders, sandbox: Sandbox, *, trials: int, jobs: int, as_json: bool
) -> bool:
    """Run every solution as a real cell, several times, and print what was flagged; returns whether nothing was."""
    from bench.attack import honest_cells

    interrupt_on_sigterm()
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
