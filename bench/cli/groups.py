"""Groups of commands, which know the names of their commands before they import one."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from bench.base.errors import UserError
from bench.base.text import meant


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
