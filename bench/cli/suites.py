"""`ml-dev-bench suites`."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from bench.cli.groups import Group
from bench.cli.options import CASES, as_json
from bench.cli.options import suite_names as completed
from bench.cli.printing import print_json

if TYPE_CHECKING:
    from bench.base.install import DataFolders


@click.group(cls=Group)
def suites() -> None:
    """List and show suites: what `run --suite` and `plan suites=` name."""


@suites.command("list")
@CASES
@as_json()
def list_(folders: DataFolders, as_json: bool) -> None:
    """All suites, one a line: name, version, profile, number of cases, trials, title."""
    from bench.base.text import counted
    from bench.formats.case import select_cases
    from bench.formats.suite import load_suites
    from bench.report import table

    found = load_suites(folders.cases)
    if as_json:
        print_json([it.model_dump(by_alias=True) for it in found])
        return
    rows = [
        (
            it.id,
            it.version,
            it.profile,
            counted(len(select_cases(folders.cases, it.cases)), "case"),
            counted(it.trials, "trial"),
            it.title,
        )
        for it in found
    ]
    click.echo(table(rows))


@suites.command()
@click.argument("name", metavar="SUITE", shell_complete=completed)
@CASES
@as_json()
def show(name: str, folders: DataFolders, as_json: bool) -> None:
    """One suite: its cases, and who runs on them where no agent is named."""
    from bench.base.text import counted
    from bench.formats.case import select_cases
    from bench.formats.suite import load_suite

    suite = load_suite(folders.cases, name)
    cases = select_cases(folders.cases, suite.cases)
    if as_json:
        print_json({**suite.model_dump(by_alias=True), "selected": [folder.name for folder in cases]})
        return
    click.echo(f"{suite.id} {suite.version}: {suite.title}\n")
    if about := suite.explained():
        click.echo(f"{textwrap.fill(about, 100)}\n")
    click.echo(f"profile  {suite.profile}")
    click.echo(f"trials   {suite.trials}")
    for entry in suite.entries:
        click.echo(f"agent    {entry.agent}{' on ' + ', '.join(entry.cases) if entry.cases else ''}")
    click.echo(f"\n{counted(len(cases), 'case')}:")
    for folder in cases:
        click.echo(f"  {folder.parent.name}/{folder.name}")
