"""The plan among artifacts: by what the job that planned has told of it, wherever it is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from bench.base.errors import UserError
from bench.cli.action_shards import plan_digest, plan_in
from tests.helpers.store import ROOT

_DOCUMENTS = [
    *(ROOT / ".github" / "workflows" / f"{name}.yml" for name in ("matrix", "round")),
    ROOT / "caller" / "workflows" / "mldb-nightly.yml",
    *(ROOT / "docs" / f"{name}.md" for name in ("machines", "machines-batch", "machines-sky")),
]


def lay_out(folder: Path, name: str, text: str, first: str = "") -> Path:
    file = folder / name / "plan.json"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    if first:
        file.with_name("first.json").write_text(first)
    return file


def test_of_several_plans_that_one_counts_which_was_told(tmp_path: Path) -> None:
    own = lay_out(tmp_path, "mldb-plan-7-1", "{}")
    other = lay_out(tmp_path, "mldb-plan-7-9", '{"forged": 1}')
    assert plan_in(tmp_path, plan_digest(own)) == own
    assert plan_in(own, plan_digest(own)) == plan_in(own.parent, plan_digest(own)) == own
    assert plan_in(tmp_path, "") == other, "without a digest the name says it"


def test_the_plan_of_all_rounds_belongs_to_the_plan_of_a_later_one(tmp_path: Path) -> None:
    """The looks are made by it: whoever could change it would choose their boundaries."""
    own = lay_out(tmp_path, "mldb-round-2-7-1", "{}", first='{"rounds": 5}')
    digest = plan_digest(own)
    lay_out(tmp_path, "mldb-round-2-7-2", "{}", first='{"rounds": 2}')
    lay_out(tmp_path, "mldb-round-2-7-3", "{}")
    assert plan_in(tmp_path, digest) == own
    own.with_name("first.json").unlink()
    with pytest.raises(UserError, match="holds no plan with the digest"):
        plan_in(tmp_path, digest)


@pytest.mark.parametrize("path", _DOCUMENTS, ids=lambda path: path.name)
def test_no_step_of_ours_takes_a_plan_by_its_name(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"(?ms)^```yaml\n(.*?)^```", text) if path.suffix == ".md" else [text]
    found = 0
    for block in blocks:
        jobs = yaml.safe_load(re.sub(r"\{\{\w+\}\}", "x", block)).get("jobs", {}) if "jobs:" in block else {}
        for job in jobs.values():
            for step in job.get("steps", []):
                told = step.get("with", {})
                if "plan" in told and "/.github/actions/" in step.get("uses", ""):
                    assert told["plan-digest"] == "${{ needs.plan.outputs.digest }}", step
                    needed = job["needs"] if isinstance(job["needs"], list) else [job["needs"]]
                    assert "plan" in needed, "without it the expression is empty"
                    found += 1
        if "plan" in jobs:
            assert jobs["plan"]["outputs"]["digest"] == "${{ steps.plan.outputs.digest }}"
    assert found >= 2
