"""`ml-dev-bench cases new`, `answer` and `patch`: cases to start from, and wrong answers as folders and as patches."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.base.errors import UserError
from bench.cli.options import CASES, PATH

if TYPE_CHECKING:
    from bench.base.install import DataFolders
    from bench.formats.case_parts import Base

_BASE = click.option(
    "--base",
    type=click.Choice(["solution", "starter"]),
    help="Of an answer that case.yaml does not name yet.  [default: solution]",
)


@click.command()
@click.argument("name", metavar="CATEGORY/ID")
@click.option(
    "--like",
    type=click.Choice(["function", "training", "service", "tabular"]),
    help="A working example of this kind to put your own content into. Default: the smallest case.",
)
@click.option(
    "--cases",
    "root",
    type=PATH,
    help="Folder of cases that gets it; default: that of the checkout you stand in, outside of one ./cases.",
)
def new(name: str, like: str | None, root: Path | None) -> None:
    """Make a working case to start from; `cases verify` is green at once.

    A category is one of a closed list, which docs/adding-a-case.md explains. Outside of a checkout of the benchmark the
    case is yours: name its folder with --cases wherever you name the case.

    function: a module that is called in every way that the task promises. training: a script that is run on other data,
    its claim beside the measurement, with marks in the validation data. service: a program that talks to an HTTP
    service, whose journal is judged. tabular: predictions as CSV, joined on ids, with a metric.
    """
    from bench.authoring import SMALLEST, scaffold_case

    root, option = _place_of_new(root)
    folder = scaffold_case(root, name, like or SMALLEST)
    verify = shlex.join(["ml-dev-bench", "cases", "verify", folder.name, *option])
    click.echo(f"made {folder}")
    click.echo(f"next: edit task.md, workspace/, solution/ and check.py, then `{verify}`")


def _place_of_new(asked: Path | None) -> tuple[Path, list[str]]:
    """The folder of cases for a new one, and the option that names it: a checkout's own only for who stands in it."""
    from bench.base.install import find_data_folders, is_installed

    own = find_data_folders().cases
    if asked is None and not is_installed(own) and Path.cwd().is_relative_to(own.parent):
        return own, []
    root = asked or Path("cases")
    if is_installed(root):
        raise UserError("belongs to the installed package", where=root, remedy="name a folder of yours with --cases")
    return root, ["--cases", str(root)]


def _require_own(folders: DataFolders) -> None:
    """Raise `UserError` where files of a case would be written into the installed package."""
    from bench.base.install import is_installed

    if is_installed(folders.cases):
        remedy = "copy the case into a folder of yours, and name that with --cases"
        raise UserError("belongs to the installed package", where=folders.cases, remedy=remedy)


@click.command()
@click.argument("case_id", metavar="CASE")
@click.argument("name", metavar="[ANSWER]", required=False)
@click.option("--out", type=PATH, required=True, help="A new folder for the files.")
@_BASE
@CASES
def answer(case_id: str, name: str | None, out: Path, base: Base | None, folders: DataFolders) -> None:
    """Lay a wrong answer out as a folder to look at or to edit; without a name, what a new one begins with.

    Data that data.py makes is not laid out, and the answer's command is not run.
    """
    from bench.authoring import lay_out_answer
    from bench.formats.case import load_one_case

    case = load_one_case(folders.cases, case_id)
    lay_out_answer(case, name, base or "solution", out)
    click.echo(f"made {out}")
    again = name or "ANSWER"
    click.echo(f"next: edit it, then `ml-dev-bench cases patch {case.id} {again} --from {out}`")


@click.command()
@click.argument("case_id", metavar="CASE")
@click.argument("name", metavar="[ANSWER]", required=False)
@click.option("--from", "source", type=PATH, help="The edited folder.")
@click.option("--move", is_flag=True, help="Instead: move the stale hunks of all patches to where their lines are now.")
@_BASE
@CASES
def patch(
    case_id: str, name: str | None, source: Path | None, move: bool, base: Base | None, folders: DataFolders
) -> None:
    """Make a wrong answer of a case from an edited folder: wrong/ANSWER.patch.

    Binary and executable files, which a patch cannot hold, are copied into the folder wrong/ANSWER.
    """
    from bench.authoring import move_patches, save_answer
    from bench.formats.case import load_one_case

    case = load_one_case(folders.cases, case_id)
    _require_own(folders)
    if move:
        if name or source or base:
            raise UserError("--move takes the case alone", where="cases patch", remedy="leave the rest out")
        for path in move_patches(case):
            click.echo(f"moved {path}")
        return
    if name is None or source is None:
        raise UserError("ANSWER or --from is missing", where="cases patch", remedy="give both, or --move alone")
    entry = case.spec.wrong.get(name)
    if entry is not None and base not in (None, entry.base):
        raise UserError(
            f"the base of {name} is {entry.base}", where="case.yaml", remedy="change its field `base` first"
        )
    if not source.is_dir():
        raise UserError("is not a folder", where=source, remedy="make it with `ml-dev-bench cases answer --out`")
    chosen: Base = entry.base if entry is not None else base or "solution"
    for path in save_answer(case, name, chosen, source):
        click.echo(f"wrote {path}")
    if entry is None:
        field = "" if chosen == "solution" else f", base: {chosen}"
        click.echo(f'next: add `{name}: {{about: "...", fails: [...]{field}}}` to `wrong` in case.yaml')
