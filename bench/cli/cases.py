"""`ml-dev-bench cases`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import EXIT_FAILED, UserError
from bench.base.text import counted
from bench.cli.cases_answers import answer, new, patch
from bench.cli.cases_data import build_data, fetch, original
from bench.cli.cases_grade import grade
from bench.cli.cases_mutants import mutants
from bench.cli.groups import Group
from bench.cli.interrupts import interrupt_on_sigterm
from bench.cli.options import CASES, FILE, as_json, case_names, gathered, sandbox
from bench.cli.printing import print_json

if TYPE_CHECKING:
    from bench.attack import Result
    from bench.base.install import DataFolders
    from bench.formats.case import Case


@click.group(cls=Group)
def cases() -> None:
    """List, show, verify and make cases."""


@cases.command("list")
@click.argument("selectors", metavar="[CASE]...", nargs=-1)
@CASES
@as_json()
def list_(selectors: tuple[str, ...], folders: DataFolders, as_json: bool) -> None:
    """All cases, or those selected, one a line; what this machine lacks for one stands in its last column.

    CASE, here and wherever cases are named: an id, a pattern such as 'debugging/*', tag:vision, category:training,
    canonical or open-ended.
    """
    from bench.cli.case_lines import case_facts, case_row
    from bench.report import table

    if as_json:
        from bench.formats.case import load_cases

        print_json([case_facts(case) for case in load_cases(folders.cases, list(selectors) or None)])
        return
    if selectors:
        from bench.formats.case import select_cases

        paths = [folder / "case.yaml" for folder in select_cases(folders.cases, list(selectors))]
    else:
        paths = sorted(folders.cases.glob("*/*/case.yaml"))
    click.echo(table([case_row(path) for path in paths]))


@cases.command()
@click.argument("selector", metavar="CASE", shell_complete=case_names)
@CASES
@as_json("For programs; of several cases a list.")
def show(selector: str, folders: DataFolders, as_json: bool) -> None:
    """One case, or those selected: what it asks, its limits, its wrong answers."""
    from bench.formats.case import load_cases

    found = load_cases(folders.cases, [selector])
    if as_json:
        documents = [
            {**it.spec.model_dump(by_alias=True), "digest": it.digest, "task": it.task.read_text(encoding="utf-8")}
            for it in found
        ]
        print_json(documents[0] if len(documents) == 1 else documents)
        return
    for number, case in enumerate(found):
        if number:
            click.echo(f"\n{'-' * 80}\n")
        _show(case)


def _show(case: Case) -> None:
    from bench.cli.case_lines import profile_facts

    spec = case.spec
    click.echo(f"{spec.category}/{spec.id}: {spec.title}\n")
    click.echo(case.task.read_text(encoding="utf-8").rstrip() + "\n")
    click.echo(f"source     {spec.source.benchmark} {spec.source.id}; {spec.source.thresholds}")
    click.echo(f"profiles   {', '.join(spec.profiles)}")
    for profile in case.profiles:
        head = f"{profile}: " if len(case.profiles) > 1 else ""
        for name, text in profile_facts(case.for_profile(profile).spec):
            click.echo(f"{name:11}{head}{text}")
        for name, source in spec.sources.get(profile, {}).items():
            click.echo(f"{'data':11}{head}{name}, {source.bytes / 1e6:,.1f} MB ({source.licence}): {source.url}")
    if spec.milestones:
        click.echo(f"milestones {', '.join(spec.milestones)}")
    click.echo(f"protected  {', '.join(spec.protected) or 'none'}")
    for name, wrong in spec.wrong.items():
        click.echo(f"wrong      {name}: {wrong.about}")


@dataclass(frozen=True)
class _Way:
    """How cases are verified, and for whom the results are printed."""

    sandbox: str
    jobs: int
    as_json: bool
    only: Sequence[str]
    matrix: Path | None
    trials: int
    changed: bool
    shard: str | None
    seed: str | None
    repeat: int | None
    complete: bool
    write_locks: bool

    def say(self, line: str) -> None:
        """Print a line for people."""
        if not self.as_json:
            click.echo(line)

    def conclude(self, document: object, line: str) -> None:
        """Print everything for programs, or the last line for people."""
        if self.as_json:
            print_json(document)
        else:
            click.echo(line)


@cases.command()
@click.argument("ids", metavar="[CASE]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All cases.")
@click.option("--changed", is_flag=True, help="Cases without a lock for their files, and a drawn part of the others.")
@click.option("--shard", metavar="K/N", help="With --all: one of N parts of about equal CPU time.")
@click.option("--seed", metavar="HEX", help="Data, judge's inputs and draws of the run that printed this seed.")
@click.option(
    "--repeat", type=click.IntRange(1, 1000), help="Seeds for each solution and wrong answer, all of which must hold."
)
@click.option("--complete", is_flag=True, help="A profile that is skipped for want of a library is a failure.")
@click.option("--write-locks", is_flag=True, help="Write the lock of each case whose proofs all ran and hold.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Cases side by side.")
@sandbox()
@click.option("--attacks", is_flag=True, help="Try to cheat the cases and the sandbox instead.")
@click.option("--only", multiple=True, metavar="FAMILY[.ATTACK]", help="With --attacks: these alone. May be repeated.")
@click.option("--matrix", type=FILE, help="With --attacks: write the table of attacks and cases to this Markdown page.")
@click.option("--honest", is_flag=True, help="Run the solutions as cells instead; none of them may be flagged.")
@click.option(
    "--trials", type=click.IntRange(1, 100), default=3, show_default=True, help="With --honest: of each case."
)
@CASES
@as_json()
@gathered("way", _Way)
def verify(ids: tuple[str, ...], every: bool, attacks: bool, honest: bool, folders: DataFolders, way: _Way) -> None:
    """Let cases prove themselves.

    The untouched workspace fails, the solution succeeds with score 1.0 on two seeds, every wrong answer fails at
    the checks that case.yaml names, data is the same for the same seed, and no answer of an agent can break a check.
    A case takes at most 120 seconds of CPU time. A lock in proofs/ that claims another outcome is a failure.

    Everything that is drawn derives from one seed, which the first line prints and each failure names. A wrong answer
    that takes little is tried on a second seed; --repeat tries the solution and all wrong answers on so many.

    With --attacks: every generic attack is carried out against every case, in real cells. No attack may improve a
    verdict, avoid one, reach hidden files, keys or a network, or outlive its cell.
    """
    from bench.formats.case import load_cases

    if bool(ids) + every + way.changed != 1:
        fault = "cases, --all and --changed exclude each other" if ids or every else "no case is named"
        raise UserError(fault, where="cases verify", remedy="name one or more cases, or say --all or --changed")
    _require_fitting(every, attacks or honest, way)
    if attacks and honest:
        raise UserError("--attacks and --honest are two commands", where="cases verify", remedy="say one of them")
    if not attacks and (way.only or way.matrix):
        raise UserError("--only and --matrix belong to --attacks", where="cases verify", remedy="add --attacks")
    carry_out = _run_attacks if attacks else _run_honest if honest else _prove
    if not carry_out(load_cases(folders.cases, list(ids) or None), folders, way):
        sys.exit(EXIT_FAILED)


def _require_fitting(every: bool, other: bool, way: _Way) -> None:
    """Raise `UserError` for an option that means nothing beside the others; other: cases are not to be proven."""
    for given, name, needs, there in (
        (way.shard, "--shard", "--all", every),
        (other and way.shard, "--shard", "proofs", False),
        (other and way.changed, "--changed", "proofs", False),
        (other and way.seed, "--seed", "proofs", False),
        (other and way.repeat, "--repeat", "proofs", False),
        (other and way.complete, "--complete", "proofs", False),
        (other and way.write_locks, "--write-locks", "proofs", False),
        # A lock says what one round takes.
        (way.repeat and way.write_locks, "--repeat", "proofs without --write-locks", False),
    ):
        if given and not there:
            raise UserError(f"{name} belongs to {needs}", where="cases verify", remedy=f"leave {name} out")


def _prove(cases: Sequence[Case], folders: DataFolders, way: _Way) -> bool:
    """Print every proof; returns whether all hold."""
    from bench.cli.proving import ProofOptions, prove

    names = (field.name for field in fields(ProofOptions))
    return prove(cases, folders, ProofOptions(**{name: getattr(way, name) for name in names}))


def _run_attacks(cases: Sequence[Case], folders: DataFolders, way: _Way) -> bool:
    """Carry out the attacks and print what came of each; returns whether all were held."""
    from bench import attack
    from bench.base.install import find_data_folders
    from bench.sandbox import choose_sandbox

    interrupt_on_sigterm()
    # The installation's own: a user's --cases has no attacks, and is attacked by the same programs.
    catalogue = attack.load_catalogue(find_data_folders().cases / "attacks")
    attacks = catalogue.select(way.only)
    if importlib.util.find_spec("jinja2") is None:
        raise UserError(
            "Jinja2 is missing, and the attacks on web pages need it",
            where="cases verify --attacks",
            remedy="install ml-dev-bench[site]",
        )
    if way.matrix is not None:
        attack.read_matrix(way.matrix)  # a damaged one is told of now, not after hours
    sandbox = choose_sandbox(way.sandbox)
    # Before any thread starts: a process with threads cannot enter another user namespace.
    own_network = attack.enter_own_network(lambda: attack.starts(sandbox))
    notes = "with stand-ins for name server and metadata address" if own_network else "without stand-ins"
    tasks = list(attack.tasks_of(cases, attacks))
    total = sum(len(task.attacks) for task in tasks)
    done = 0

    def tell(result: Result) -> None:
        nonlocal done
        done += 1
        way.say(f"[{done}/{total}] {attack.matrix_line(result)}")

    way.say(
        f"{counted(len(attacks), 'attack')}, {counted(len(cases), 'case')}, {counted(total, 'trial')}; "
        f"sandbox: {sandbox.name}, {notes}"
    )
    with attack.open_stage(catalogue, folders, sandbox, own_network) as stage:
        results = attack.Campaign(stage).run(tasks, way.jobs, tell)
    groups = attack.groups_of_this_process()
    if way.matrix is not None:
        from bench.formats.case import load_cases

        every = [case.id for case in load_cases(folders.cases)]
        matrix = attack.with_results(attack.read_matrix(way.matrix), results, notes)
        attack.write_matrix(way.matrix, matrix, attack.Everything(catalogue.attacks, every))
    escaped = [result for result in results if not result.held]
    # Repeated together, because they may stand far apart in a long log.
    for line in (*map(attack.matrix_line, escaped), *(f"ESCAPED {left}" for left in groups)):
        way.say(line)
    way.conclude([asdict(result) for result in results], attack.matrix_summary(results))
    return not (groups or escaped)


def _run_honest(cases: Sequence[Case], folders: DataFolders, way: _Way) -> bool:
    """Run every solution as a real cell, several times, and print what was flagged; returns whether nothing was."""
    from bench.attack import honest_cells
    from bench.sandbox import choose_sandbox

    interrupt_on_sigterm()
    alarms = []
    count = 0
    for found in honest_cells(cases, folders, choose_sandbox(way.sandbox), way.trials, way.jobs):
        count += 1
        alarms += [found] if found.alarms else []
        way.say(found.line())
    way.conclude(
        [asdict(found) for found in alarms],
        f"{counted(len(cases), 'solution')} x {counted(way.trials, 'trial')}: {counted(count, 'cell')}, "
        f"{counted(len(alarms), 'false alarm')}",
    )
    return not alarms


cases.add_command(new)
cases.add_command(answer)
cases.add_command(patch)
cases.add_command(grade)
cases.add_command(mutants)
cases.add_command(build_data)
cases.add_command(original)
cases.add_command(fetch)
