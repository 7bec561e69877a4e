"""What templates and pages say of our own actions: each exists, and has the inputs that it is given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.workflows.rehearsal.documents import documented_workflows
from tests.workflows.rehearsal.stage import ROOT

OURS = "ml-dev-bench/action"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def uses() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Where one of our actions or reusable workflows is used, which, and with what."""
    texts = [(path.name, path.read_text(encoding="utf-8")) for path in WORKFLOWS]
    for name, text in [*texts, *documented_workflows()]:
        for job in yaml.safe_load(text)["jobs"].values():
            for user in [job, *job.get("steps", [])]:
                action, _, _ = str(user.get("uses", "")).partition("@")
                if action == OURS or action.startswith(f"{OURS}/"):
                    yield name, action.removeprefix(OURS).strip("/"), user


FOUND = list(uses())


@pytest.mark.parametrize(("page", "action", "user"), FOUND, ids=[f"{page}-{action}" for page, action, _ in FOUND])
def test_it_exists_and_takes_what_it_is_given(page: str, action: str, user: dict[str, Any]) -> None:
    path = ROOT / action if action.endswith(".yml") else ROOT / action / "action.yml"
    assert path.is_file(), f"{page} uses {action}, which does not exist"
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    # YAML reads the key `on` as true.
    declared = document[True]["workflow_call"] if action.endswith(".yml") else document
    inputs = declared.get("inputs", {})
    given = set(user.get("with", {}))
    assert given <= set(inputs), f"{page} gives {action} what it does not take"
    required = {name for name, facts in inputs.items() if facts.get("required") and "default" not in facts}
    assert required <= given, f"{page} does not give {action} what it needs"
    assert set(user.get("secrets", {})) <= set(declared.get("secrets", {}))


def test_everything_that_is_written_here_is_used_somewhere() -> None:
    """An action that no workflow, template or page shows is one that no reader finds."""
    actions = {path.parent.name for path in (ROOT / ".github" / "actions").glob("*/action.yml")}
    shown = {action.rsplit("/", 1)[-1] for _, action, _ in FOUND}
    assert actions - shown <= {"sweep"}
