"""What the program says when a user, a case author or the machine got something wrong."""

from __future__ import annotations

from pathlib import Path

from bench.base.text import printable, within

EXIT_OK = 0
"""Everything asked for was done."""
EXIT_FAILED = 1
"""The work was done and its answer is no: a case does not verify, cells were lost to infrastructure."""
EXIT_USAGE = 2
"""The command, a file or the set-up is wrong; nothing was started."""
EXIT_INTERRUPTED = 130
"""Stopped by the user; `--resume` goes on."""
_LONGEST_PLACE = 400
_LONGEST_LINE = 1400


class UserError(Exception):
    """A mistake that the user can fix: one line that names the place, the fault and the remedy.

    variable: the environment variable that is missing, where that is the fault. `fault` and `remedy` are parts of the
    line, for those who set them apart.
    """

    def __init__(self, message: str, *, where: Path | str | None = None, remedy: str = "", variable: str = "") -> None:
        place = f"{where}: " if where is not None else ""
        hint = f" ({remedy})" if remedy else ""
        self.fault = printable(f"{place[-_LONGEST_PLACE:]}{within(message, _LONGEST_LINE)}")
        self.remedy = printable(remedy)
        super().__init__(f"{self.fault}{printable(hint)}")
        self.variable = variable


class InfraError(Exception):
    """Something of ours, of the machine or of a provider failed: never the agent's fault.

    `cause` is a key of the table in `bench.formats.failures`.
    """

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause
