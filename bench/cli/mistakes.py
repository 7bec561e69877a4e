"""A mistake of the command line or of the machine as one line: place, fault and remedy."""

from __future__ import annotations

import difflib
import errno
import itertools
import os
import re
import sys
from collections.abc import Sequence

import click

from bench.base.errors import UserError
from bench.base.text import printable

_REMEDIES = {
    errno.ENOENT: "create it, or correct the path",
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR), "a file is in the way; name another path"),
    errno.EISDIR: "name a file, not a folder",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "allow yourself to use it, or name another path"),
    errno.EROFS: "make it writable, or name another path",
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room, or name a place on another disk"),
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "remove the link that leads to itself",
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit with `ulimit -n`"),
    errno.ENOEXEC: "begin the script with a line such as #!/bin/sh",
}
_CHOICE = re.compile(r"'([^']*)' is not one of ")


def open_standard_streams() -> None:
    """Give a process whose standard streams were closed empty ones, and let no character end a command."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number, which is this one: files that are opened later never take its place.
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or os.fdopen(0, "r", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def colours_wanted() -> bool:
    """Whether a terminal may get colours: https://no-color.org, and a terminal that cannot show any."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def silence_output() -> None:
    """Drop what is left in the streams: the reader is gone, and Python would fail once more on flushing at exit."""
    for descriptor in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def usage_line(error: click.ClickException, words: Sequence[str] = ()) -> str:
    """What click found wrong, in one line with the name of the command and what to do.

    words: the command line without the program, which names the command where click does not.
    """
    context = getattr(error, "ctx", None)
    # An option without its value is found before the command has a context of its own.
    named = [*itertools.takewhile(lambda it: not it.startswith("-"), words)][:1]
    command = context.command_path if context is not None else " ".join(["ml-dev-bench", *named])
    said = error.format_message().strip().rstrip(".")
    hint = f"`{command} --help` explains"
    if isinstance(error, click.NoSuchOption):
        said = f"no such option {error.option_name}"
        near = [*(error.possibilities or ())][:1]
        hint = f"did you mean {near[0]}?" if near else f"`{command} --help` lists all options"
    elif isinstance(error, click.BadParameter) and (found := _CHOICE.search(said)):
        known = list(getattr(error.param and error.param.type, "choices", []))
        near = difflib.get_close_matches(found[1], known, n=1)
        said, hint = said[: said.index(" is not one of ")], f"did you mean {near[0]}?" if near else hint
        said += f" is not one of {', '.join(map(str, known))}"
    elif isinstance(error, click.MissingParameter) and error.param and isinstance(error.param.type, click.Choice):
        said, hint = "missing argument", f"name one of {', '.join(map(str, error.param.type.choices))}"
    elif isinstance(error, click.BadOptionUsage) and said.endswith("requires an argument"):
        said, hint = f"option {error.option_name} has no value", "write one after it"
    elif said.startswith("Got unexpected extra argument"):
        hint = f"remove it, or put the name of its option before it; `{command} --help` lists all options"
    return printable(f"{command}: {said[:1].lower()}{said[1:]} ({hint})")


def system_fault(error: OSError) -> UserError:
    """What the system refused, about the file that was meant: of a file made beside it and renamed, that one."""
    try:
        os.getcwd()
    except OSError:
        return UserError("was removed", where="the current folder", remedy="change to a folder that exists")
    name = error.filename2 or error.filename
    if isinstance(name, bytes):
        name = os.fsdecode(name)
    remedy = _REMEDIES.get(error.errno or 0, "look at it, then try again")
    where = str(name) if isinstance(name, str) else "output" if error.errno in (errno.ENOSPC, errno.EIO) else None
    return UserError(error.strerror or str(error) or type(error).__name__, where=where, remedy=remedy)


def name_fault(error: UnicodeEncodeError) -> UserError:
    """A name on the command line or the disk that is not text."""
    return UserError(
        "holds bytes that are not UTF-8", where=error.object[:200], remedy="rename it, or name another path"
    )
