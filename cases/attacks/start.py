"""The command of every attacking agent: lay the answer it brings, if any, then attack.

Arguments are attacks, `family.function`. Several share one run only if each leaves the workspace as it is.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import facts


def lay_answer() -> None:
    """Copy the answer over the workspace and run the command that finishes it."""
    answer = facts.AGENT / "answer"
    if not answer.is_dir():
        return
    shutil.copytree(answer, facts.WORKSPACE, dirs_exist_ok=True, copy_function=shutil.copyfile)
    command = json.loads((facts.AGENT / "answer.json").read_text())
    if command:
        subprocess.run(command, cwd=facts.WORKSPACE, check=False)


def attack(name: str) -> None:
    """Carry out one attack; what the sandbox refuses is written down, and is no failure of the agent."""
    family, _, function = name.partition(".")
    facts.begin(name)
    try:
        getattr(importlib.import_module(family), function)()
    except (OSError, subprocess.SubprocessError, MemoryError) as refusal:
        facts.say("refused", detail=repr(refusal)[:300])
    except Exception as fault:
        facts.void(f"the attack itself is broken: {fault!r}")
    facts.say("ended")


def main() -> None:
    facts.note_given()
    lay_answer()
    names = sys.argv[1:]
    if len(names) == 1:
        attack(names[0])
        return
    for name in names:
        child = os.fork()
        if child == 0:
            try:
                attack(name)
            finally:
                sys.stdout.flush()
                os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
