"""A check that raises: on the agent's files alone it is failed; on the starter's or the solution's it is broken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.cell.context import CellContext
from bench.cell.run import run_cell
from bench.formats.case import Case
from bench.formats.record import Record
from bench.guest.trees import remove_tree
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import RIGHT, make_agent, make_case, make_cell, make_context

_CHECK = '''
from bench.judge import check, number


@check(required=True)
def doubles(ws):
    """Numbers the agent has not seen are doubled."""
    {careless}
    found = number(ws.call("answer:double", 4))
    assert found == 8, f"double(4) is 8, not {{found}}"


@check()
def has_text(ws):
    """The answer is text."""
    assert ws.text("answer.py"), "it is empty"
'''
ODD = "open('answer.py', 'w').write('# odd\\n' + {text!r})\n"


@pytest.fixture
def context(tmp_path: Path) -> Iterator[CellContext]:
    made = make_context(tmp_path, ProcessSandbox())
    yield made
    remove_tree(made.sockets)


def case_of(context: CellContext, careless: str, count: str = "") -> Case:
    check = _CHECK.format(careless=careless)
    if count:
        check += f"\nopen({count!r}, 'a').write('x')\n"
    return make_case(context.folder.parent / "cases", {"check.py": check})


def run(context: CellContext, case: Case, text: str = RIGHT, trial: int = 1) -> Record:
    agent = make_agent(context.folder.parent / "agents", ODD.format(text=text))
    return run_cell(make_cell(agent, case, trial), context)


@pytest.mark.parametrize(
    ("careless", "said"),
    [
        ("assert 'odd' not in ws.text('answer.py') or 1 / 0", "ZeroDivisionError: division by zero"),
        ("'odd' in ws.text('answer.py') and __import__('ctypes').string_at(0)", "SIGSEGV"),
        ("'odd' in ws.text('answer.py') and __import__('os')._exit(0)", "ended"),
    ],
)
def test_what_only_the_agents_files_make_a_check_raise_is_a_failed_check(
    context: CellContext, careless: str, said: str
) -> None:
    record = run(context, case_of(context, careless))
    assert (record.outcome, record.success) == ("graded", False), record.error
    values = {check.id: (check.value, check.message) for check in record.checks}
    assert (values["doubles"][0], values["has_text"]) == (0, (1, ""))
    assert said in values["doubles"][1]
    flags = {note.name: note.evidence for note in record.flags}
    assert flags["check_raised"].startswith("doubles: ")
    assert said in flags["check_raised"]
    assert not list((context.folder / "scratch" / "work").glob("*"))
    assert not list(context.sockets.glob("*"))


@pytest.mark.parametrize(
    "eats", ["__import__('numpy').ones(1 << 40)", "[0 for _ in iter(int, 1)]"], ids=["memory", "time"]
)
def test_what_uses_the_judge_up_is_a_failed_check(context: CellContext, eats: str) -> None:
    careless = f"assert 'odd' not in ws.text('answer.py') or {eats}"
    case = make_case(
        context.folder.parent / "cases", {"check.py": _CHECK.format(careless=careless)}, limits={"grade_s": 3}
    )
    record = run(context, case)
    assert (record.outcome, record.success, record.stop_reason) == ("graded", False, "finished"), record.error
    message = {check.id: check.message for check in record.checks}["doubles"]
    assert "reading the workspace's files took" in message


@pytest.mark.parametrize(
    "careless",
    ["1 / 0", "'NotImplementedError' in ws.text('answer.py') or 1 / 0", "ws.hidden('absent')"],
    ids=["always", "on the solution", "for want of a file"],
)
def test_what_raises_on_the_reference_too_is_a_broken_check(context: CellContext, careless: str) -> None:
    record = run(context, case_of(context, careless))
    assert (record.outcome, record.cause, record.score) == ("infra", "judge_error", None)
    assert "a check of case double_it is broken: doubles: " in record.error


def test_the_reference_is_judged_once_for_all_cells(context: CellContext, tmp_path: Path) -> None:
    count = tmp_path / "count"
    case = case_of(context, "assert 'odd' not in ws.text('answer.py') or 1 / 0", str(count))
    assert {run(context, case, trial=trial).outcome for trial in (1, 2, 3)} == {"graded"}
    # Three cells, the starter and the solution.
    assert len(count.read_text()) == 5


def test_a_solution_that_must_run_is_run(context: CellContext) -> None:
    files = {
        "check.py": _CHECK.format(careless="assert ws.json('made.json')['x'] == 1, 'not made'"),
        "solution/solve.py": f"open('made.json', 'w').write('{{\"x\": 1}}'); open('answer.py', 'w').write({RIGHT!r})",
    }
    case = make_case(context.folder.parent / "cases", files, solution={"run": ["python", "solve.py"]})
    agent = make_agent(context.folder.parent / "agents", "open('made.json', 'w').write('[]')")
    record = run_cell(make_cell(agent, case), context)
    assert (record.outcome, record.success) == ("graded", False), record.error
    assert "TypeError" in {check.id: check.message for check in record.checks}["doubles"]
