"""Scripts that need PyTorch: an interpreter that has imported it once runs each in a fork of its own."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from multiprocessing import get_context
from pathlib import Path

_PRINTED = "printed.txt"


def run_script(folder: Path, text: str) -> str:
    """What `text` prints; it runs in `folder`, whose modules it may import, and what it changes ends with it."""
    forks = get_context("forkserver")
    forks.set_forkserver_preload(["torch"])
    script = forks.Process(target=_run, args=(folder, text))
    script.start()
    script.join(300)
    if script.exitcode is None:
        script.kill()
        script.join()
    assert script.exitcode == 0, f"status {script.exitcode}"
    return (folder / _PRINTED).read_text()


def _run(folder: Path, text: str) -> None:
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    with (folder / _PRINTED).open("w") as printed, redirect_stdout(printed):
        exec(compile(text, "<script>", "exec"), {"__name__": "__main__"})
