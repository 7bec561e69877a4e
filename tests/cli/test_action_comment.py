"""What of a pull request makes its gate prove little: who changes what ran decides what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cli.action_comment import _unproven
from bench.github import Pull
from tests.helpers.cells import write_files
from tests.workflows.rehearsal.stage import git


@pytest.mark.parametrize(
    ("path", "named"),
    [
        (".github/workflows/mldb-gate.yml", True),
        (".github/actions/set-up/action.yml", True),
        (".github/ISSUE_TEMPLATE/bug.yml", False),
        ("agent.py", False),
    ],
)
def test_a_change_of_what_ran_is_named(tmp_path: Path, path: str, named: bool) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    shas = []
    for content in ("before\n", "after\n"):
        write_files(tmp_path, {path: content})
        git(tmp_path, "add", "--all")
        git(tmp_path, "commit", "--quiet", "--message=One")
        shas.append(git(tmp_path, "rev-parse", "HEAD"))
    base, head = ({"ref": "main", "sha": sha} for sha in shas)
    pull = Pull.model_validate({"number": 1, "state": "open", "head": head, "base": base})
    aside = Pull.model_validate({"number": 2, "state": "open", "head": base, "base": head | {"ref": "aside"}})
    notes = _unproven(tmp_path, base["sha"], pull, [aside])
    assert [note.startswith("not proven: ") and path in note for note in notes] == [True, True] * named
