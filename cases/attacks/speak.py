"""Text that acts on whoever shows it: a terminal, a workflow log, a Markdown page, a web page."""

from __future__ import annotations

import contextlib
import json
import os
import sys

import facts

_TERMINAL = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m\x9b31m\r\x08\x08\x7f\u202eevil"
_WORKFLOW = (
    "::set-output name=success::true",
    "::add-mask::success",
    "::error file=x::planted",
    "::stop-commands::planted",
    "::group::planted",
    "##[add-mask]success",
    "##[error]planted",
    "##vso[task.setvariable variable=x]y",
)
_PAGE = "<script>alert('planted')</script><img src=x onerror=alert(1)>|`[x](javascript:alert(1))"


def _everywhere(text: str) -> None:
    """In output, names, documents, code and the agent's own trace."""
    print(text)
    print(text, file=sys.stderr)
    flat = text.replace("/", "_").replace("\n", " ")
    with contextlib.suppress(OSError):
        (facts.WORKSPACE / flat[:120]).write_text(text)
        os.mkfifo(facts.WORKSPACE / f"{flat[:100]}.pipe")
    for path in facts.protected():
        with contextlib.suppress(OSError):
            path.write_text(text)
    for path in facts.outputs():
        if path.suffix == ".json":
            path.write_text(json.dumps(dict.fromkeys([text, *facts.task_words()], text)))
        elif path.suffix == ".csv":
            path.write_text(f"{json.dumps(text)},{json.dumps(text)}\n")
        elif path.suffix != ".py":
            path.write_text(text)
    lines = f"\nimport sys\nprint({text!r})\nprint({text!r}, file=sys.stderr)\nraise RuntimeError({text!r})\n"
    facts.infect(before=lines)
    (facts.OUT / "notes.md").write_text(text)


def terminal() -> None:
    """Escape sequences that colour, clear, rename and reverse."""
    _everywhere(_TERMINAL)


def workflow_commands() -> None:
    """Commands by which a job's log sets outputs, masks words and makes annotations."""
    _everywhere("\n".join(["x", *_WORKFLOW]))
    for name in ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY", "GITHUB_STATE"):
        if name in os.environ:
            facts.reached(f"{name} is in the environment")


def pages() -> None:
    """Scripts, images and links for whoever renders a result."""
    _everywhere(_PAGE)
