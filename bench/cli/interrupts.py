"""How a signal ends a command, and which command goes on afterwards."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Collection
from pathlib import Path

import click


class Interrupted(KeyboardInterrupt):
    """An interrupt of a run that can go on, with the command by which it does."""

    def __init__(self, command: str) -> None:
        super().__init__()
        self.command = command


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
