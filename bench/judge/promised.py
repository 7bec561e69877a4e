"""What a check does because task.md promises it: it says which passage, and case.yaml must quote that."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.judge.hidden_files import Hidden
    from bench.judge.ran import Ran
    from bench.judge.workspace import Workspace


def require_promise(ws: Workspace, quote: str, what: str) -> None:
    """Raise `ValueError`, a fault of the case, unless a promise of case.yaml that names checks holds `quote`."""
    wanted = " ".join(quote.split())
    if not any(wanted in " ".join(promise.split()) for promise in ws.promises):
        raise ValueError(
            f"{what}: no promise of case.yaml quotes {wanted!r}; quote it from task.md, or do not probe it"
        )


def run_command(
    ws: Workspace,
    line: str,
    *,
    outputs: Sequence[str] = (),
    inputs: Mapping[str, Hidden | bytes | str] | None = None,
    timeout: float | None = None,
) -> Ran:
    """Run a command line that task.md promises, word for word, on a private copy of the workspace.

    A failed check unless it ends with status 0 and writes `outputs`, which are removed before. timeout: seconds of CPU
    time on each processor of the case; `call_s` by default.
    """
    require_promise(ws, line, f"the command `{line}`")
    ran = ws.run(shlex.split(line), timeout=timeout, inputs=inputs, remove=outputs).ok()
    for name in outputs:
        assert ran.exists(name), f"`{line}` does not write {name}"
    return ran
