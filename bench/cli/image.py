"""`ml-dev-bench image`."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import click

from bench.base.errors import UserError
from bench.cli.groups import Group
from bench.cli.options import CASES

if TYPE_CHECKING:
    from bench.base.install import DataFolders


@click.group(cls=Group)
def image() -> None:
    """The image that jobs of the docker sandbox see as their system."""


@image.command()
@click.option("--base", default="", metavar="IMAGE", help="Start from this image; default: the one in the Dockerfile.")
@click.option("--python", default="3.11", show_default=True, help="Version of the base's Python.")
@click.option("--network", default="", help="Network of the build, such as `host`; default: the engine's own.")
@click.option("--case", "case_id", default="", help="Build the additions of this case to the shared image instead.")
@CASES
def build(base: str, python: str, network: str, case_id: str, folders: DataFolders) -> None:
    """Build the shared image from cases/environment/, or with --case that of a case with its environment/.

    pip fetches the packages on this machine, with its own settings. An image of the same definition is replaced.
    What happens is shown as it does; the last line is the image.
    """
    from bench.formats.case import load_one_case
    from bench.sandbox import Build, build_case, build_shared

    began = time.monotonic()
    how = Build(base=base, python=python, network=network)
    if case_id:
        environment = load_one_case(folders.cases, case_id).part("environment")
        if not environment.is_dir():
            raise UserError("does not exist: the case uses the shared image", where=environment, remedy="drop --case")
        made = build_case(environment, how)
    else:
        made = build_shared(how)
    click.echo(f"took {time.monotonic() - began:.0f} s", err=True)
    click.echo(made)


@image.command()
def show() -> None:
    """Print the name and the content id of the shared image; fails where the engine has none."""
    from bench.sandbox import image_id, open_client, shared_image, shared_tag

    with open_client() as client:
        click.echo(f"{shared_tag()} {shared_image(partial(image_id, client))}")
