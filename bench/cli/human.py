"""`ml-dev-bench human`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import UserError
from bench.cli.groups import Group
from bench.cli.interrupts import interrupt_on_sigterm
from bench.cli.options import CASES, PATH, RUN_FOLDERS, profile, sandbox

if TYPE_CHECKING:
    from bench.base.install import DataFolders
    from bench.formats.record import Profile
    from bench.runs import Desk

_FOLDER = click.argument("folder", required=False, type=PATH)


@click.group(cls=Group)
def human() -> None:
    """Solve a case yourself, judged and recorded like an agent.

    The clock runs from `start` to `submit`. You work without isolation: the record says so, and is not ranked.
    """


@human.command()
@click.argument("case")
@profile("Default: the case's first.")
@click.option("--trial", type=click.IntRange(1, 1000), default=1, show_default=True, help="Another one has other data.")
@click.option("--suite", default="smoke", show_default=True, help="Its version is part of the seed of the data.")
@RUN_FOLDERS
@click.option("--shell", is_flag=True, help="Open a shell in the workspace; services run until you leave it.")
@CASES
def start(
    case: str, profile: Profile | None, trial: int, suite: str, out: Path, shell: bool, folders: DataFolders
) -> None:
    """Prepare a workspace, start the clock, and say where it is and what to do."""
    from bench.formats.case import load_one_case
    from bench.runs import open_shell
    from bench.runs import start_attempt as begin

    interrupt_on_sigterm()
    services = sorted(load_one_case(folders.cases, case).spec.services)
    if services and not shell:
        raise UserError(
            f"case {case} has services ({', '.join(services)}), which run only while a shell is open",
            where="human start",
            remedy="add --shell; leave the shell when you are done, then submit",
        )
    desk = begin(case, profile, trial, suite, out, folders)
    click.echo(desk.cell.case.task.read_text(encoding="utf-8"))
    click.echo("-" * 80)
    _describe(desk)
    click.echo("judge          `ml-dev-bench human submit` in the workspace")
    if shell:
        open_shell(desk)
        left = "; the services have ended" if services else ""
        click.echo(f"left the shell{left}. Judge it with: ml-dev-bench human submit {desk.folder}")


@human.command()
@_FOLDER
@CASES
def status(folder: Path | None, folders: DataFolders) -> None:
    """Time and limits of the attempt in FOLDER, or in the current folder."""
    _describe(_desk(folder, folders))


@human.command()
@_FOLDER
@CASES
@sandbox("In which the judge runs what you wrote.")
def submit(folder: Path | None, folders: DataFolders, sandbox: str) -> None:
    """Stop the clock, judge the workspace in FOLDER or the current one, and store the record.

    Exit status: 0 it succeeded; 1 it did not; 2 nothing was judged.
    """
    from bench.base.text import printable
    from bench.report import outcome_line
    from bench.runs import submit_attempt as hand_in
    from bench.sandbox import choose_sandbox

    interrupt_on_sigterm()
    desk = _desk(folder, folders)
    record = hand_in(desk, choose_sandbox(sandbox))
    for check in record.checks:
        mark = "passed" if check.passed else f"{check.value:.2f}"
        click.echo(f"{mark:8}{check.about}{f': {printable(check.message)}' if check.message else ''}")
    click.echo(outcome_line(record))
    click.echo(f"record in {desk.folder / 'cells'}; time {desk_time(record.phases[1].seconds)}")
    if not record.success:
        sys.exit(1)


def _desk(folder: Path | None, folders: DataFolders) -> Desk:
    from bench.runs import find_desk, open_desk

    return open_desk(find_desk((folder or Path()).absolute()), folders)


def _describe(desk: Desk) -> None:
    limits = desk.cell.case.spec.limits
    over = "over" if desk.left_s < 0 else "left"
    click.echo(f"case           {desk.cell.case.id}, profile {desk.cell.profile}, trial {desk.cell.trial}")
    click.echo(f"workspace      {desk.workspace.absolute()}")
    click.echo(f"task           {desk.cell.case.task}")
    click.echo(f"python         {sys.executable}")
    click.echo(f"time           {desk_time(desk.elapsed_s)} of {desk_time(limits.agent_s)}")
    click.echo(f"               {desk_time(abs(desk.left_s))} {over}")
    click.echo(
        f"limits         {limits.memory_mb} MB memory, {limits.cpus} cores, {limits.disk_mb} MB disk (yours to keep)"
    )
    record = desk.record
    if record is not None:
        verdict = "succeeded" if record.success else "did not succeed"
        click.echo(f"submitted      {verdict}, score {record.score}")


def desk_time(seconds: float) -> str:
    """Hours, minutes and seconds."""
    whole = int(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {whole % 60:02} s"
