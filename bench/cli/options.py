"""Options that several commands share, and how a command gets what several of them make together."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from bench.base.install import DataFolders
    from bench.formats.step_snapshots import SnapshotRule

Command = Callable[..., None]
Decorator = Callable[[Command], Command]


class _Place(click.Path):
    """A path; an empty text, as of a variable that is not set, is not one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty; is a variable not set?", param, ctx)
        return super().convert(value, param, ctx)


class Number(click.FloatRange):
    """A finite number in a range; comparisons alone let `nan` through, and often `inf`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value} is not a finite number", param, ctx)
        return found


PATH = _Place(path_type=Path)
NO_SEED_SECRET = click.option(
    "--no-seed-secret", is_flag=True, help="Take public seeds: anyone can compute the data, and the results are marked."
)
CHECK = click.option(
    "--check", is_flag=True, help="Only look whether anything is missing for this on this machine; run nothing."
)
FILE = _Place(dir_okay=False, path_type=Path)


def _snapshot_rule(context: click.Context, parameter: click.Parameter, given: str) -> SnapshotRule:
    from bench.formats.step_snapshots import SnapshotRule

    del context, parameter
    return SnapshotRule.parse(given)


SNAPSHOTS = click.option(
    "--snapshots",
    default="",
    metavar="RULE",
    callback=_snapshot_rule,
    help="Copy each workspace while its agent works: every=N (steps), milestones, or both with a comma; judge the"
    " copies later with `results score-steps`.",
)
EVENTS = click.option(
    "--events", type=FILE, metavar="FILE", help="Write the course of the run to this file, a JSON object a line."
)


def _folders(name: str, context: click.Context, parameter: click.Parameter, given: Path | None) -> DataFolders:
    from bench.base.install import find_data_folders

    del context, parameter
    return find_data_folders(**{name: given})


RUN_FOLDERS = click.option("--out", type=PATH, default=Path("runs"), show_default=True, help="Folder of run folders.")


def _data(name: str) -> Decorator:
    """An option that replaces one data folder; the command gets all of them as `folders`."""
    about = f"Folder of {name}; default: those that ship with the benchmark."
    return click.option(f"--{name}", "folders", type=PATH, callback=partial(_folders, name), help=about)


CASES, AGENTS = _data("cases"), _data("agents")
VIA = click.option(
    "--via",
    type=click.Choice(["git", "api"]),
    default="git",
    show_default=True,
    help="api: GitHub's REST API, without git's transport; the token is MLDB_TOKEN or GITHUB_TOKEN.",
)


def as_json(about: str = "For programs.") -> Decorator:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help=about)


def branch(about: str | None = None) -> Decorator:
    """`--branch` of a results repository."""
    return click.option("--branch", default="mldb-results", show_default=True, help=about)


def repository(about: str = "Path or URL.", *, required: bool = False) -> Decorator:
    """`--results`: a repository; the empty text where the option is not given and not required."""
    # click takes even an empty default for a value, so a required option must not have one.
    default = None if required else ""
    return click.option("--results", "repository", metavar="REPOSITORY", required=required, default=default, help=about)


def sandbox(about: str | None = None) -> Decorator:
    """`--sandbox`."""
    kinds = click.Choice(["auto", "docker", "bubblewrap", "process"])
    return click.option("--sandbox", default="auto", show_default=True, type=kinds, help=about)


def profile(about: str) -> Decorator:
    """`--profile`; None where it is not given."""
    return click.option("--profile", type=click.Choice(["mini", "full"]), help=about)


def fraction(name: str, default: float, about: str | None, *, most: float | None = 1) -> Decorator:
    """An option for a positive number up to `most`."""
    kind = Number(0, most, min_open=True)
    return click.option(name, type=kind, default=default, show_default=True, help=about)


def alpha(about: str | None = None) -> Decorator:
    """`--alpha`, the level of a test."""
    kind = Number(0, 0.5, min_open=True, max_open=True)
    return click.option("--alpha", type=kind, default=0.05, show_default=True, help=about)


def _completed(find: Callable[[DataFolders], Iterable[Path]]) -> Callable[..., list[str]]:
    """Names for the shell to complete: of the files or folders that `find` yields."""

    def names(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
        from bench.base.install import find_data_folders

        del context, parameter
        return sorted(name for path in find(find_data_folders()) if (name := path.stem).startswith(begun))

    return names


case_names = _completed(lambda folders: (path.parent for path in folders.cases.glob("*/*/case.yaml")))
agent_names = _completed(lambda folders: (path.parent for path in folders.agents.glob("[!_]*/agent.yaml")))
suite_names = _completed(lambda folders: folders.cases.glob("suites/*.yaml"))


def gathered(argument: str, make: Callable[..., object] | str, options: str = "") -> Decorator:
    """Give the command one `argument`, made by `make` of these options; default: of those that it has parameters for.

    make: or where it is, as `bench.stats:Rules`. Only the command's call imports it, so that --help stays quick.
    """
    names = options.split() if isinstance(make, str) else list(signature(make).parameters)

    def decorate(command: Command) -> Command:
        @wraps(command)
        def called(**values: object) -> None:
            made = _imported(make) if isinstance(make, str) else make
            values[argument] = made(**{name: values.pop(name) for name in names})
            command(**values)

        return called

    return decorate


def _imported(name: str) -> Callable[..., object]:
    module, _, attribute = name.partition(":")
    found: Callable[..., object] = getattr(importlib.import_module(module), attribute)
    return found


def filters(of: str) -> Decorator:
    """Options that narrow records to one agent with its models; the command gets them as `filters`."""

    def decorate(command: Command) -> Command:
        command = gathered("filters", "bench.stats:Filters", "agent model profile suite")(command)
        command = click.option("--suite", default="", help="Take records of this suite only.")(command)
        command = profile(f"Take this profile, where {of} holds both.")(command)
        for name in ("model", "agent"):
            about = f"Take this {name}, where {of} holds several."
            command = click.option(f"--{name}", default="", help=about)(command)
        return command

    return decorate


def safe_name(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Check the run's name, which becomes a folder here and a file name on the results branch."""
    from pydantic import TypeAdapter, ValidationError

    from bench.formats.names import Name

    try:
        return None if value is None else TypeAdapter(Name).validate_python(value)
    except ValidationError:
        message = f"{value!r} is not 1 to 64 of a-z, 0-9, _ and -, starting with a letter or digit"
        raise click.BadParameter(message, context, parameter) from None
