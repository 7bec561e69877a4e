"""What task.md names is judged, and what is judged is named: each gap has its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.authoring.lint import lint
from bench.authoring.promises import code_spans
from bench.base.errors import UserError
from bench.base.install import find_data_folders
from bench.formats.case import load_cases
from tests.helpers.cells import CHECK, make_case

TASK = "# Double it\n\nComplete `double(x)` in\n`answer.py`. `python answer.py 3` prints 6.\n"
RUNS = '''

@check(required=True)
def script_prints(ws):
    """The script prints the double."""
    assert run(ws).stdout == "6\\n", "it does not print 6"


ANSWER, TIMES = "answer.py", 3


def run(ws):
    return ws.run(["python", ANSWER, "3"]).ok()
'''
CALL = {"quote": "Complete `double(x)` in `answer.py`.", "checks": ["doubles"]}
COMMAND = {"quote": "`python answer.py 3`", "checks": ["script_prints"]}


def faults(folder: Path, *promises: dict[str, Any], check: str = CHECK + RUNS, task: str = TASK) -> list[str]:
    return lint(make_case(folder, {"task.md": task, "check.py": check}, promises=list(promises)))


def test_quotes_may_cross_lines_and_cover_every_span(tmp_path: Path) -> None:
    assert faults(tmp_path, CALL, COMMAND) == []


def test_a_case_that_promises_nothing_is_not_asked_about_spans(tmp_path: Path) -> None:
    assert faults(tmp_path) == []


@pytest.mark.parametrize(
    ("promises", "said"),
    [
        ([COMMAND], "`double(x)` is not in any promise"),
        ([CALL], "`python answer.py 3` is not in any promise"),
        ([CALL, COMMAND, {"quote": "in the file", "excused": "x"}], "'in the file' is not in task.md"),
        ([{**CALL, "checks": ["triples"]}, COMMAND], "names the check triples, which does not exist"),
        ([CALL, {**COMMAND, "checks": ["doubles"]}], "`python answer.py 3` is not run by the checks"),
        ([CALL, {"quote": "`python answer.py 3` prints 6", "excused": "x"}], "`python answer.py 3` is not run"),
    ],
)
def test_a_gap_between_task_and_checks_is_named(tmp_path: Path, promises: list[dict[str, Any]], said: str) -> None:
    assert [fault for fault in faults(tmp_path, *promises) if said in fault]


def test_a_command_is_excused_by_its_own_name_alone(tmp_path: Path) -> None:
    assert faults(tmp_path, CALL, {"quote": "`python answer.py 3`", "excused": "a hint"}, check=CHECK) == []


def test_a_promised_name_is_called(tmp_path: Path) -> None:
    task = TASK + "And `halve(x)`.\n"
    halves = {"quote": "And `halve(x)`.", "checks": ["doubles"]}
    said = faults(tmp_path / "1", CALL, COMMAND, halves, task=task)
    assert ["no check calls halve" in fault for fault in said] == [True]
    check = CHECK + RUNS + "\nHALVE = 'answer:halve'\n"
    assert faults(tmp_path / "2", CALL, COMMAND, halves, task=task, check=check) == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('P = Probe("double(x)", target="answer:double")', []),
        ('P = Probe("double(x, twice=True)", target="answer:double")', ["'double(x, twice=True)' has no promise"]),
        ('P = Probe("double(x)", target="a:b", promised={"sizes": "any size"})', ["'any size' has no promise"]),
        ('P = Probe("double" + "(x)", target="a:b")', ["needs its words as plain strings"]),
        ('P = Probe("double(x)", target="a:b", promised=dict(sizes="any"))', ["needs its words as plain strings"]),
        ("def f(ws): return run_command(ws, 'python answer.py')", []),
        ("def f(ws): return run_command(ws, 'python other.py')", ["the command 'python other.py' has no promise"]),
    ],
)
def test_a_probe_that_no_promise_backs_is_refused(tmp_path: Path, line: str, said: list[str]) -> None:
    found = faults(tmp_path, CALL, COMMAND, check=f"{CHECK}{RUNS}\n{line}\n")
    assert len(found) == len(said) and all(part in fault for part, fault in zip(said, found, strict=True))


def test_an_excuse_backs_no_probe(tmp_path: Path) -> None:
    probe = CHECK + RUNS + '\nP = Probe("double(x)", target="answer:double")\n'
    excused = {"quote": "`double(x)`", "excused": "an example"}
    answer = {"quote": "`answer.py`", "checks": ["doubles"]}
    assert "has no promise" in "".join(faults(tmp_path, excused, answer, COMMAND, check=probe))


@pytest.mark.parametrize("extra", [{}, {"checks": ["doubles"], "excused": "x"}, {"excused": " "}])
def test_a_promise_is_backed_or_excused(tmp_path: Path, extra: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"promises\.0"):
        make_case(tmp_path, promises=[{"quote": "Double it", **extra}])


def test_spans_are_inline_fenced_and_indented_code() -> None:
    task = (
        "Use `a`, ``b`c`` and `d\ne`.\n\n```console\n$ python x.py\nout `f`\n```\n\nThen\n\n    indented `g`\n"
        "    twice\n\n- item\n  goes on `h`\n"
    )
    spans = code_spans(task)
    assert [span.text for span in spans] == [
        "a", "b`c", "d e", "python x.py", "out `f`", "indented `g`", "twice", "h",
    ]  # fmt: skip
    assert [span.text for span in spans if span.is_command] == ["python x.py"]
    assert all(" ".join(task[it.start : it.end].split()).removeprefix("$ ") == it.text for it in spans)


def test_every_case_of_the_benchmark_covers_its_task() -> None:
    cases = load_cases(find_data_folders().cases)
    assert [case.id for case in cases if not case.spec.promises] == []
    assert [fault for case in cases for fault in lint(case)] == []
