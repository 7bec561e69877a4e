"""`demo --suite`: the three agents that prove the cases over a suite, with a leaderboard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.cell.run import run_cell
from bench.cli.demo import tell_what_is_proven
from bench.formats.agent_lookup import find_agent
from bench.formats.run_folder import RunFolder
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import ROOT, WRONG, make_case, make_cell, make_context
from tests.helpers.command import mldb
from tests.helpers.records import make_record

CASES = ["hello_world", "parse_logs"]


def outcome(case_root: Path, files: dict[str, str], **facts: Any) -> tuple[object, ...]:
    case = make_case(case_root / "cases", files, **facts)
    record = run_cell(make_cell(find_agent("wrong", ROOT / "agents"), case), make_context(case_root, ProcessSandbox()))
    failed = [check.id for check in record.checks if not check.passed]
    return record.outcome, record.success, record.score, failed, record.error


def test_the_wrong_agent_gives_the_answer_that_the_original_accepts(tmp_path: Path) -> None:
    """Here that answer is the starter's with a fault that its own command makes."""
    wrong = {
        "first": {"about": "one", "fails": ["doubles"]},
        "told": {
            "about": "two", "fails": ["doubles"], "original": "accepts",
            "run": ["python", "-c", f"open('answer.py', 'w').write({WRONG!r}); open('ran', 'w')"],
        },
    }  # fmt: skip
    files = {"wrong/first/answer.py": "not python", "wrong/told/note.txt": "laid last"}
    found = outcome(tmp_path, files, wrong=wrong)
    assert found == ("graded", False, 0.0, ["doubles", "doubles_in_a_driver"], "")
    changed = json.loads(next((tmp_path / "run" / "traces").glob("*/workspace.json")).read_bytes())
    assert {"ran", "note.txt"} <= set(changed["added"])


def test_a_case_without_wrong_answers_is_a_fault_of_its_own(tmp_path: Path) -> None:
    found = outcome(tmp_path, {}, wrong={})
    assert found[0] == "infra" and "does not have a wrong answer" in str(found[4])


@pytest.mark.slow
def test_the_demo_of_a_suite_has_a_leaderboard_of_what_proves_it(tmp_path: Path) -> None:
    named = [word for name in CASES for word in ("--case", name)]
    out = tmp_path / "demo"
    done = mldb("demo", "--suite", "ml-dev-bench-extended", *named, "--sandbox", "process", "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("oracle: 2 of 2 succeeded\nnop: 0 of 2 succeeded\nwrong: 0 of 2 succeeded\n")
    (run,) = (out / "runs").iterdir()
    records = RunFolder(run).records()
    assert sorted((it.agent.id, it.case.id) for it in records) == sorted(
        (agent, case) for agent in ("nop", "oracle", "wrong") for case in CASES
    )
    front = (out / "site" / "index.html").read_text(encoding="utf-8")
    assert "ml-dev-bench-extended" in front and "wrong" in front


def test_a_case_that_does_not_prove_itself_fails_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    sound = [make_record(agent=agent, success=agent == "oracle") for agent in ("oracle", "nop", "wrong", "react")]
    tell_what_is_proven(sound)
    assert capsys.readouterr().out == "oracle: 1 of 1 succeeded\nnop: 0 of 1 succeeded\nwrong: 0 of 1 succeeded\n"
    for agent, success in (("oracle", False), ("nop", True), ("wrong", True)):
        with pytest.raises(SystemExit):
            tell_what_is_proven([*sound, make_record(agent=agent, success=success)])
        assert f"error: {agent}/" in capsys.readouterr().err
