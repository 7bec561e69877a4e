"""What a GitHub workflow runner reads: commands on standard output, and files for outputs and the summary."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from bench.base.errors import UserError
from bench.base.text import first_lines

_SUMMARY_BYTES = (1 << 20) - 4096
"""Of a step, with some for the notes about what was left out."""


def annotate_error(message: str) -> None:
    """An error annotation of the job; line breaks and the marks of commands are encoded."""
    click.echo(f"::error title=ml-dev-bench::{_escape(message)}")


def annotate_warning(message: str) -> None:
    """A warning annotation of the job."""
    click.echo(f"::warning title=ml-dev-bench::{_escape(message)}")


@contextlib.contextmanager
def commands_stopped() -> Iterator[None]:
    """A context in which the runner takes no printed text for a command."""
    word = secrets.token_hex(16)
    click.echo(f"::stop-commands::{word}")
    try:
        yield
    finally:
        click.echo(f"::{word}::")


def set_outputs(outputs: Mapping[str, str]) -> None:
    """Outputs of the step. A value of several lines is refused: its other lines would be outputs too."""
    for name, value in outputs.items():
        # The full stop makes a line break at the end count as a second line.
        if len(f"{value}.".splitlines()) != 1:
            raise UserError(f"output `{name}` has several lines", where="GITHUB_OUTPUT")
    _append("GITHUB_OUTPUT", "".join(f"{name}={value}\n" for name, value in outputs.items()))


def summary_room() -> int:
    """How many bytes of Markdown GitHub still shows below this step: of more than 1 MiB in all it shows nothing."""
    file = Path(os.environ.get("GITHUB_STEP_SUMMARY") or os.devnull)
    return max(_SUMMARY_BYTES - (file.stat().st_size if file.is_file() else 0), 0)


def add_summary(text: str) -> None:
    """Markdown below the job's page; the lines for which there is no room are left out, and counted."""
    _append("GITHUB_STEP_SUMMARY", first_lines(text, summary_room()))


def _append(variable: str, text: str) -> None:
    path = os.environ.get(variable)
    if not path:
        raise UserError("is not set", where=variable, remedy="call this from a workflow")
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(text)


def _escape(text: str) -> str:
    # The per cent sign first, or the codes of the others would be encoded again.
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
