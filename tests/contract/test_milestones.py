"""A long task says how far it came: in the record, in reports, and where results are collected."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from bench.authoring.lint import lint
from bench.base.errors import UserError
from bench.cell import run_cell
from bench.formats.verdict import reached_text
from bench.report import outcome_line, render
from bench.sandbox.process import ProcessSandbox
from bench.store.recompute_verdict import milestones
from tests.helpers.cells import CHECK, make_agent, make_case, make_cell, make_context

LAST = '''

@check()
def is_documented(ws):
    """The function says what it does."""
    assert '"""' in ws.text("answer.py"), "no docstring"
'''
ORDER = ["doubles", "doubles_in_a_driver", "is_documented"]


class Basis:
    """As much of a planned cell as the rule looks at."""

    def __init__(self, case: object) -> None:
        self.case = case


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("def double(x):\n    return 2 * x\n", "reached 2 of 3: doubles_in_a_driver"),
        ('def double(x):\n    """x"""\n    return x\n', "reached 0 of 3"),
    ],
)
def test_a_record_says_how_far_the_agent_came(tmp_path: Path, answer: str, said: str) -> None:
    case = make_case(tmp_path / "cases", {"check.py": CHECK + LAST}, milestones=ORDER)
    assert lint(case) == []
    agent = make_agent(tmp_path, f"open('answer.py', 'w').write({answer!r})")
    record = run_cell(make_cell(agent, case), make_context(tmp_path, ProcessSandbox()))
    assert (record.outcome, record.milestones, reached_text(record)) == ("graded", ORDER, said)
    assert said in click.unstyle(outcome_line(record))
    assert record.success or said in render([record])
    assert list(milestones(record, Basis(case))) == []  # type: ignore[arg-type]
    forged = record.model_copy(update={"milestones": ORDER[1:]})
    assert "must be" in next(milestones(forged, Basis(case)))  # type: ignore[arg-type]


def test_a_milestone_that_is_not_a_check_is_named(tmp_path: Path) -> None:
    case = make_case(tmp_path / "cases", milestones=["outputs_present", "double"])
    assert lint(case) == ["case.yaml: the milestone 'double' is not a check; did you mean 'doubles'?"]
    with pytest.raises(UserError, match=r"`milestones`.*names an entry twice"):
        make_case(tmp_path / "cases", milestones=["doubles", "doubles"])
