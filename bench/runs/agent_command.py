"""An agent's command on this machine: the files that it names, the program that starts it, and what runs a script."""

from __future__ import annotations

import difflib
import os
import posixpath
import re
import shutil
from collections.abc import Sequence

from bench.base.errors import UserError
from bench.formats.agent import Agent
from bench.formats.case import Case
from bench.sandbox import Sandbox

_AGENT = "{agent}/"
_NAMED = re.compile(r"\{([A-Za-z_]+)\}/")
_STARTS = re.compile(r"(python|ba|da|z)?sh|(python|pypy|node|ruby|perl|Rscript|deno|bun)[0-9.]*")
"""Programs whose first argument is a script."""
_SCRIPT = (".py", ".sh", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".R")
_BEGINNING = 4096
"""Bytes of a program that tell what kind it is."""


def require_command(agent: Agent, sandbox: Sandbox | None, cases: Sequence[Case]) -> None:
    """Raise `UserError` for files of the command that the agent does not have, and for a program that is not here."""
    require_command_files(agent, cases)
    program, environment = agent.spec.command[0], agent.spec.environment
    # An image has programs of its own, and so has an environment.
    elsewhere = sandbox is not None and sandbox.name == "docker"
    if program.startswith(_AGENT):
        _require_runnable(agent, posixpath.normpath(program.removeprefix(_AGENT)), elsewhere=elsewhere)
        return
    if not program.strip():
        fault = "field `command`: its first part is empty"
        raise UserError(fault, where=agent.file, remedy="begin it with a program, such as python")
    if "{" in program or program.startswith("python") or environment.requirements or elsewhere:
        return
    if shutil.which(program) is None:
        raise UserError(
            f"field `command`: the program {program!r} is not on this machine",
            where=agent.file,
            remedy="install it, or use --sandbox docker with an image that has it",
        )


def _require_runnable(agent: Agent, name: str, *, elsewhere: bool) -> None:
    """Raise `UserError` for a script that no kernel starts. elsewhere: not with the programs of this machine."""
    try:
        with (agent.folder / name).open("rb") as file:
            beginning = file.read(_BEGINNING)
    except OSError:
        return
    first = beginning.partition(b"\n")[0]
    if first.startswith(b"#!"):
        interpreter = os.fsdecode(first[2:]).strip(" \t")
        program, _, argument = interpreter.partition(" ")
        if program.endswith("/env") and not elsewhere and not agent.spec.environment.requirements:
            program = argument.split()[-1] if argument.split() else program
            program = shutil.which(program) or program
        if interpreter.endswith("\r"):
            fault, remedy = "has the line ends of Windows", f"`sed -i 's/\\r$//' {name}`, and commit that"
        elif program and (elsewhere or os.path.exists(program)):
            return
        else:
            fault = f"begins with #!{interpreter[:100]}, and {program[:100] or 'nothing'} is not a program here"
            remedy = "correct its first line, such as #!/usr/bin/env python3"
    elif _is_text(beginning):
        fault, remedy = "does not say what runs it", "begin it with a line such as #!/bin/sh"
    else:
        return
    raise UserError(f"field `command`: {name!r} {fault}", where=agent.file, remedy=remedy)


def _is_text(beginning: bytes) -> bool:
    return b"\0" not in beginning and not beginning.startswith((b"\x7fELF", b"MZ"))


def require_command_files(agent: Agent, cases: Sequence[Case]) -> None:
    """Raise `UserError` for a file of the command that the agent does not have; looks at no program of this machine."""
    for number, part in enumerate(agent.spec.command):
        if (named := _NAMED.match(part)) and difflib.get_close_matches(named[1], ["agent"]) and named[1] != "agent":
            fault = f"field `command`: nothing takes the place of {{{named[1]}}} in {part!r}"
            raise UserError(fault, where=agent.file, remedy=f"did you mean {_AGENT}?")
        if part.startswith(_AGENT):
            _require_file(agent, posixpath.normpath(part.removeprefix(_AGENT)), is_program=number == 0)
    _refuse_in_workspace(agent, cases)


def _refuse_in_workspace(agent: Agent, cases: Sequence[Case]) -> None:
    """Raise `UserError` for a script that is named as if the command started in the agent's folder."""
    command = agent.spec.command
    names = [command[0]] if "/" in command[0] else command[1:2] if _STARTS.fullmatch(command[0]) else []
    for part in names:
        name = posixpath.normpath(part)
        is_script = part == command[0] or part.endswith(_SCRIPT)
        if part.startswith(("/", "{", "-")) or not is_script or name.startswith("../"):
            continue
        own = name in agent.files.names
        # What data.py makes is not known before the cell.
        if any(
            case.part("workspace").joinpath(name).exists() or (not own and case.part("data.py").exists())
            for case in cases
        ):
            continue
        raise UserError(
            f"field `command`: {part!r} is looked for in the workspace, where the command starts, and is not there",
            where=agent.file,
            remedy=f"write `{_AGENT}{name}`" + ("" if own else f", and add {name} to the agent's folder"),
        )


def _require_file(agent: Agent, name: str, *, is_program: bool) -> None:
    names = agent.files.names
    if name == "." or name.startswith("../") or any(it == name or it.startswith(f"{name}/") for it in names):
        if not is_program or os.access(agent.folder / name, os.X_OK):
            return
        fault, remedy = "may not be executed", f"`chmod +x {name}`, and commit that"
    elif (agent.folder / name).exists():
        fault, remedy = "is not one of the agent's files, as git ignores it", "add it to git, or to `include`"
    else:
        fault, remedy = "does not exist in the agent's folder", "add the file, or correct the command"
    raise UserError(f"field `command`: {name!r} {fault}", where=agent.file, remedy=remedy)
