"""What several commands share: options, ways to print, and the way in which a signal ends a command."""

from __future__ import annotations

import importlib
import json
import math
import os
import shlex
import signal
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from bench.base.errors import UserError
from bench.base.text import counted, meant

if TYPE_CHECKING:
    from bench.base.install import DataFolders
    from bench.formats.step_snapshots import SnapshotRule

Command = Callable[..., None]
Decorator = Callable[[Command], Command]


class Group(click.Group):
    """A group of commands that says which one was meant where a name is misspelt."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            raise UserError(f"no such command {args[0]!r}", where=ctx.command_path, remedy=meant(args[0], known))
        return super().resolve_command(ctx, args)


class LazyGroup(Group):
    """A group that knows its commands' names and summaries, and imports one only when it is called.

    commands_of: module, attribute and summary of each command.
    """

    def __init__(self, *args: Any, commands_of: Mapping[str, tuple[str, str, str]], **more: Any) -> None:
        super().__init__(*args, **more)
        self.commands_of = commands_of

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.commands_of)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands_of:
            return None
        module, name, _ = self.commands_of[cmd_name]
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.commands_of[name][2]) for name in self.list_commands(ctx)])


class Interrupted(KeyboardInterrupt):
    """An interrupt of a run that can go on, with the command by which it does."""

    def __init__(self, command: str) -> None:
        super().__init__()
        self.command = command


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


def print_json(document: object) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(document, indent=1))


def print_text(text: str) -> None:
    """Lines for people; a terminal too narrow for a line gets it broken between words, not inside of one."""
    for line in text.splitlines():
        click.echo(fitted(line, sys.stdout))


def fitted(line: str, stream: TextIO) -> str:
    """The line in as many as it takes on the terminal that `stream` is; elsewhere as it is."""
    if not stream.isatty():
        return line
    width = terminal_width(stream)
    if len(click.unstyle(line)) <= width:
        return line
    return "\n".join(textwrap.wrap(line, width, subsequent_indent="  ", break_on_hyphens=False))


def terminal_width(stream: TextIO) -> int:
    """Columns of the terminal that `stream` is: that of this stream, since the other one may be a pipe."""
    return os.get_terminal_size(stream.fileno()).columns or 80


def tell_ready(cells: int) -> None:
    """What `--check` says where nothing is missing."""
    click.echo(f"ready: nothing is missing for {counted(cells, 'cell')}")


def continuing(folder: Path, decided: Collection[str]) -> str:
    """The command that goes on with the run in `folder`: this one, without what the run itself says.

    decided: names of the parameters that only begin a run.
    """
    context = click.get_current_context()
    words = ["ml-dev-bench", "run", "--resume", str(folder)]
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if not given or name in decided or not isinstance(parameter, click.Option):
            continue
        value = context.params[name]
        # The command gets its folders resolved; the option was given one of them.
        value = getattr(value, parameter.opts[0].removeprefix("--"), value) if name == "folders" else value
        words += [parameter.opts[0]] if parameter.is_flag else [parameter.opts[0], str(value)]
    return shlex.join(words)


def interrupt_on_sigterm() -> None:
    """Let SIGTERM end this command as Ctrl-C does, so that cells under way still get their records."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
