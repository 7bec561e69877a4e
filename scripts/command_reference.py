"""Writes docs/cli.md from the commands: `python -m scripts.command_reference docs/cli.md`, or `make docs`."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from bench.base.files import write_atomic
from bench.cli.main import cli

_PROGRAM = "ml-dev-bench"
_HEAD = f"""# Command line

<!-- Written by `make docs` from the commands. Change the help texts in the program, then run it again. -->

What `--help` says of every command, on one page. `mldb` is short for `{_PROGRAM}`. Every command also takes `-h` and
`--help`."""
_USUAL = " The [usual ones](#exit-status)."
_VERBATIM = "\b"
"""What click takes as the mark of a paragraph whose line breaks stay."""


def reference() -> str:
    """The whole page, the same on every machine."""
    commands = [(path, command) for path, command in _walk(_PROGRAM, cli) if not isinstance(command, click.Group)]
    groups = {path: command for path, command in _walk(_PROGRAM, cli) if isinstance(command, click.Group)}
    rows = [(f"[`{path[len(_PROGRAM) + 1 :]}`](#{path.replace(' ', '-')})", _short(it)) for path, it in commands]
    _, usual = _help(cli)
    parts = [_HEAD, _table(("command", "what it does"), rows), f"## Exit status{usual}"]
    for path, command in commands:
        above = groups[path.rpartition(" ")[0]]
        parts.append(_section(path, command, above if above is not cli else None))
    return "\n\n".join(parts) + "\n"


def _walk(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from _walk(f"{path} {name}", child)


def _section(path: str, command: click.Command, group: click.Command | None) -> str:
    text, statuses = _help(command)
    about = _help(group)[0].split("\n\n")[1:] if group is not None else []
    arguments = [it for it in command.params if isinstance(it, click.Argument)]
    options = [it for it in command.params if isinstance(it, click.Option) and not it.hidden]
    words = " ".join([path, *["[OPTIONS]"] * bool(options), *map(_usage, arguments)])
    parts = [f"## {path}", f"```text\n{words}\n```", text, *about]
    if arguments:
        parts.append(_table(("argument", "value"), [(f"`{_name(it)}`", _argument(it)) for it in arguments]))
    if options:
        context = click.Context(command)
        rows = [(_flags(it), _value(it), _default(it, context), _escape(it.help or "")) for it in options]
        parts.append(_table(("option", "value", "default", "meaning"), rows))
    parts.append(f"**Exit status.**{statuses or _USUAL}")
    return "\n\n".join(parts)


def _short(command: click.Command) -> str:
    return _escape(command.get_short_help_str(limit=200))


def _help(command: click.Command) -> tuple[str, str]:
    """Its text, and the paragraph about the exit status, each as Markdown."""
    texts, statuses = [], ""
    for paragraph in re.split(r"\n{2,}", inspect.cleandoc(command.help or "")):
        verbatim = paragraph.startswith(_VERBATIM)
        body = paragraph.removeprefix(_VERBATIM).strip("\n")
        if body.startswith("Exit status"):
            statuses = _statuses(body)
        elif verbatim:
            texts.append(f"```text\n{body}\n```")
        else:
            texts.append(_escape(body))
    return "\n\n".join(texts), statuses


def _statuses(text: str) -> str:
    """A table from "Exit status: 0 done; 1 not done." or from one line a status."""
    title, _, rest = text.partition(":")
    flat = " ".join(re.sub(r"\n(?= +\d+ )", "; ", rest).split()).removeprefix("; ").removesuffix(".")
    rows = [(f"`{code}`", _escape(meaning.strip())) for code, meaning in re.findall(r"(\d+) (.+?)(?=; \d+ |$)", flat)]
    note = title.removeprefix("Exit status").strip(", ")
    table = _table(("status", "meaning"), rows)
    return f" {note[:1].upper()}{note[1:]}.\n\n{table}" if note else f"\n\n{table}"


def _name(argument: click.Argument) -> str:
    return (argument.metavar or (argument.name or "").upper()).replace("...", "").strip("[]")


def _usage(argument: click.Argument) -> str:
    name = _name(argument) if argument.required else f"[{_name(argument)}]"
    return f"{name}..." if argument.nargs == -1 else name


def _argument(argument: click.Argument) -> str:
    many = ", one or more" if argument.required else ", any number"
    return f"{_type(argument.type)}{many if argument.nargs == -1 else '' if argument.required else ', optional'}"


def _flags(option: click.Option) -> str:
    return ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))


def _value(option: click.Option) -> str:
    if option.is_flag or option.count:
        return ""
    return f"{_type(option.type)}{'; several' * option.multiple}"


def _default(option: click.Option, context: click.Context) -> str:
    if option.required:
        return "required"
    value = option.get_default(context)
    shown = isinstance(value, str | int | float | Path) and not isinstance(value, bool) and str(value)
    return f"`{value}`" if shown else ""


def _type(kind: click.ParamType[Any]) -> str:
    if isinstance(kind, click.Choice):
        return ", ".join(f"`{choice}`" for choice in kind.choices)
    if isinstance(kind, click.IntRange | click.FloatRange):
        return f"{'integer' if isinstance(kind, click.IntRange) else 'number'}{_range(kind)}"
    return {"integer": "integer", "float": "number", "text": "text"}.get(kind.name, "path")


def _range(kind: click.IntRange | click.FloatRange) -> str:
    low = "" if kind.min is None else f", {'above' if kind.min_open else 'at least'} {kind.min:g}"
    high = "" if kind.max is None else f", {'below' if kind.max_open else 'at most'} {kind.max:g}"
    return low + high


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [[" ".join(cell.split()) for cell in line] for line in (head, ["---"] * len(head), *rows)]
    return "\n".join(f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in line)}|" for line in lines)


def _escape(text: str) -> str:
    """Help is plain text: outside of backticks, what Markdown would act on gets a backslash."""
    pieces = text.split("`")
    return "`".join(it if number % 2 else re.sub(r"([<*|\[\]])", r"\\\1", it) for number, it in enumerate(pieces))


if __name__ == "__main__":
    write_atomic(Path(sys.argv[1]), reference().encode())
