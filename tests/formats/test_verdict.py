"""What makes a verdict: checks are read off a case without running it, and a score is what they come to."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from bench.base.errors import UserError
from bench.base.install import find_data_folders
from bench.formats.case import Case, case_folders, load_case
from bench.formats.record import CheckResult
from bench.formats.verdict import declared_checks, is_overclaim, score_of, success_of, unreadable_checks
from tests.helpers.records import make_check
from tests.helpers.sampling import every_third

CASES = case_folders(find_data_folders().cases)
_LOADED = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from bench.judge.process import load_checks
checks = load_checks(Path(sys.argv[1]))
print(json.dumps([[it.id, it.about, it.weight, it.required, it.guard] for it in checks]))
"""


@pytest.mark.parametrize("name", every_third(CASES))
def test_the_checks_read_off_a_case_are_those_that_its_judge_runs(name: str) -> None:
    case = load_case(CASES[name])
    command = [sys.executable, "-c", _LOADED, str(case.part("check.py")), str(case.part("hidden"))]
    loaded = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout)
    declared = [asdict(it) for it in declared_checks(case) if it.origin == "case"]
    assert [[it[name] for name in ("id", "about", "weight", "required", "guard")] for it in declared] == loaded


def faults_of(source: str) -> list[str]:
    return [fault for _, fault in unreadable_checks(ast.parse(source))]


@pytest.mark.parametrize(
    "source",
    [
        "W = 2\n@check(weight=W)\ndef a(ws): ...",
        "@check(weight=1 + 1)\ndef a(ws): ...",
        "@check(required=bool(1))\ndef a(ws): ...",
        "@check(weight=True)\ndef a(ws): ...",
        "@check(required=1)\ndef a(ws): ...",
        "@check(**FACTS)\ndef a(ws): ...",
        "@check(2)\ndef a(ws): ...",
        "a = check(weight=1)(lambda ws: None)",
        "for n in range(3):\n    @check(weight=1)\n    def a(ws): ...",
        "from bench.judge import check as judged\n@judged(weight=1)\ndef a(ws): ...",
        "from bench.judge.checks import Check\na = Check(f, 1.0, True, False)",
        "import bench.judge\n@bench.judge.check(weight=1)\ndef a(ws): ...",
        "class A:\n    @check(weight=1)\n    def a(ws): ...",
    ],
)
def test_a_check_whose_facts_only_running_tells_is_named(source: str, tmp_path: Path) -> None:
    assert faults_of(source)
    (tmp_path / "check.py").write_text(source)
    with pytest.raises(UserError, match="line "):
        declared_checks(Case(tmp_path, load_case(CASES["hello_world"]).spec))


def test_plain_decorators_have_no_fault() -> None:
    source = (
        "from bench.judge import check\n@check()\ndef a(ws): ...\n@check(weight=0.5, required=True)\ndef b(ws): ..."
    )
    assert faults_of(source) == []
    assert faults_of("@check(guard=True)\ndef a(ws): ...\n@functools.cache\ndef helper(): ...") == []


def results(*values: float, guard: float | None = None) -> list[CheckResult]:
    found = [make_check(f"c{number}", value) for number, value in enumerate(values)]
    return [*found, make_check("g", guard, weight=0, guard=True, required=False)] if guard is not None else found


def test_a_score_is_the_passed_weight_and_a_failed_guard_takes_it() -> None:
    assert score_of(results(1, 0)) == 0.5
    assert score_of(results(1, 0.5, guard=1)) == 0.75
    assert score_of(results(1, 1, guard=0)) == 0
    assert score_of([]) == 0
    files = make_check("outputs_present", 1.0, origin="framework")
    assert score_of([files, *results(0)]) == 0, "files with nothing right in them"


def test_success_needs_all_required_checks_and_guards_and_at_least_one() -> None:
    assert success_of(results(1, 1, guard=1))
    assert not success_of(results(1, 0.9))
    assert not success_of(results(1, guard=0))
    assert not success_of([])
    assert not success_of([make_check("a", 1.0, required=False)])


def test_an_overclaim_is_better_than_measured_by_more_than_the_tolerance() -> None:
    assert is_overclaim(0.9, 0.8, 0.05, higher_is_better=True)
    assert not is_overclaim(0.7, 0.8, 0.05, higher_is_better=True)
    assert is_overclaim(0.7, 0.8, 0.05, higher_is_better=False)
    assert not is_overclaim(None, 0.8, 0.05, higher_is_better=True)
