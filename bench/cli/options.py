"""Options that several commands share, and the one way in which a signal ends a command."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from bench.formats.record import Profile
    from bench.stats import Filters

Command = Callable[..., None]
Decorator = Callable[[Command], Command]

PATH = click.Path(path_type=Path)
RUN_FOLDERS = click.option("--out", type=PATH, default=Path("runs"), show_default=True, help="Folder of run folders.")
CASES = click.option(
    "--cases", "case_root", type=PATH, help="Folder of cases; default: those that ship with the benchmark."
)


def as_json(about: str = "For programs.") -> Decorator:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help=about)


def branch(about: str | None = None) -> Decorator:
    """`--branch` of a results repository."""
    return click.option("--branch", default="mldb-results", show_default=True, help=about)


def repository(about: str = "Path or URL.", *, required: bool = False) -> Decorator:
    """`--results`: a repository, empty where it is not given."""
    if required:
        return click.option("--results", "repository", metavar="REPOSITORY", required=True, help=about)
    return click.option("--results", "repository", metavar="REPOSITORY", default="", help=about)


def sandbox(about: str | None = None) -> Decorator:
    """`--sandbox`."""
    kinds = click.Choice(["auto", "docker", "bubblewrap", "process"])
    return click.option("--sandbox", default="auto", show_default=True, type=kinds, help=about)


def profile(about: str) -> Decorator:
    """`--profile`; None where it is not given."""
    return click.option("--profile", type=click.Choice(["mini", "full"]), help=about)


def margin(about: str) -> Decorator:
    """`--margin`, a difference of success or score."""
    kind = click.FloatRange(0, 1, min_open=True)
    return click.option("--margin", type=kind, default=0.05, show_default=True, help=about)


def alpha(about: str | None = None) -> Decorator:
    """`--alpha`, the level of a test."""
    kind = click.FloatRange(0, 0.5, min_open=True, max_open=True)
    return click.option("--alpha", type=kind, default=0.05, show_default=True, help=about)


def gathered(argument: str, make: Callable[..., object]) -> Decorator:
    """Give the command one `argument`, made by `make` of the options that its parameters name."""
    names = list(signature(make).parameters)

    def decorate(command: Command) -> Command:
        @wraps(command)
        def called(**values: object) -> None:
            values[argument] = make(**{name: values.pop(name) for name in names})
            command(**values)

        return called

    return decorate


def filters(of: str) -> Decorator:
    """Options that narrow records to one agent with its models; the command gets them as `filters`."""

    def decorate(command: Command) -> Command:
        command = gathered("filters", _filters)(command)
        command = click.option("--suite", default="", help="Take records of this suite only.")(command)
        command = profile(f"Take this profile, where {of} holds both.")(command)
        for name in ("model", "agent"):
            about = f"Take this {name}, where {of} holds several."
            command = click.option(f"--{name}", default="", help=about)(command)
        return command

    return decorate


def _filters(agent: str, model: str, profile: Profile | None, suite: str) -> Filters:
    from bench.stats import Filters

    return Filters(agent, model, profile, suite)


def interrupt_on_sigterm() -> None:
    """Let SIGTERM end this command as Ctrl-C does, so that what is under way is written down."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
