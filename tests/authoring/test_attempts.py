"""`cases grade`: answers that somebody wrote are run and judged as an agent's are."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bench.base.errors import UserError
from bench.cli.cases import cases
from tests.helpers.cells import CHECK, RIGHT, ROOT, make_case

_SEED = "8353659f40eb6222"


def run_grade(folder: Path, answers: Mapping[str, str], *words: str) -> Result:
    """Grade answers, given by name and text of answer.py."""
    for name, text in answers.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "answer.py").write_text(text)
    options = ["--cases", str(folder / "cases"), "--sandbox", "process", "--seed", _SEED]
    named = [str(folder / name) for name in answers]
    return CliRunner().invoke(
        cases, ["grade", "double_it", *named, *words, *options], env={"ML_DEV_BENCH_CACHE": str(folder / "cache")}
    )


def documents(done: Result) -> list[dict[str, Any]]:
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)["gradings"]
    return found


def test_each_answer_has_its_verdict_on_each_seed(tmp_path: Path) -> None:
    make_case(tmp_path / "cases")
    found = documents(
        run_grade(tmp_path, {"right": RIGHT, "near": "def double(x):\n    return x + 2\n"}, "--seeds", "2", "--json")
    )
    told = {(Path(it["folder"]).name, it["fate"], it["score"]) for it in found}
    assert told == {("right", "success", 1.0), ("near", "failure", 0.0)}
    assert len(found) == 4 and len({it["seed"] for it in found}) == 2
    assert {it["seed"] for it in found} >= {_SEED}


def test_a_failure_says_which_check_and_why_and_a_side_check_that_success_does_not_need_it(tmp_path: Path) -> None:
    more = '\n\n@check()\ndef is_short(ws):\n    """Short."""\n    assert len(ws.text("answer.py")) < 9, "is long"\n'
    make_case(tmp_path / "cases", {"check.py": CHECK + more})
    done = run_grade(tmp_path, {"near": "def double(x):\n    return x + 2\n", "right": RIGHT})
    lines = done.output.splitlines()
    assert lines[0].startswith(f"seed {_SEED}")
    assert any(line.startswith("    doubles (0): double(") and " is " in line for line in lines)
    assert "    is_short (0, which success does not need): is long" in lines
    assert lines[-1] == "2 gradings: 1 success, 1 failure, 0 lost"


def test_the_command_may_be_another_and_its_bad_end_is_told_with_what_it_printed(tmp_path: Path) -> None:
    make_case(tmp_path / "cases")
    writes = f"import pathlib, sys; pathlib.Path('answer.py').write_text({RIGHT!r}); print('gone wrong'); sys.exit(3)"
    done = run_grade(tmp_path, {"late": "def double(x):\n    return 0\n"}, "--run", f'python -c "{writes}"')
    assert "success " in done.output, "what the command writes is judged"
    assert "    its command ended with exit status 3:\n    | gone wrong\n" in done.output
    assert (tmp_path / "late" / "answer.py").read_text() == "def double(x):\n    return 0\n", (
        "the folder is not touched"
    )


def test_a_folder_may_be_named_from_where_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_case(tmp_path / "cases")
    monkeypatch.chdir(tmp_path)
    done = run_grade(Path(), {"right": RIGHT}, "--json")
    assert [it["fate"] for it in documents(done)] == ["success"]


def test_a_limit_that_ends_the_command_is_named(tmp_path: Path) -> None:
    make_case(tmp_path / "cases", limits={"agent_s": 1})
    (found,) = documents(
        run_grade(tmp_path, {"slow": RIGHT}, "--run", "python -c 'import time; time.sleep(60)'", "--json")
    )
    assert found["ended"] == "time_limit"


def test_a_check_that_raises_loses_the_grading_and_decides_nothing(tmp_path: Path) -> None:
    careless = CHECK.replace("number(ws.call(", "(ws.call(").replace("found == 2 * x,", "found - 2 * x == 0,")
    make_case(tmp_path / "cases", {"check.py": careless})
    done = run_grade(tmp_path, {"text": "def double(x):\n    return 'two'\n"})
    assert "lost    " in done.output and "a check of case double_it is broken: doubles" in done.output
    assert done.output.splitlines()[-1] == "1 grading: 0 successes, 0 failures, 1 lost"


def test_a_command_without_its_last_quotation_mark_is_a_mistake(tmp_path: Path) -> None:
    make_case(tmp_path / "cases")
    done = run_grade(tmp_path, {"right": RIGHT}, "--run", "python 'train.py")
    assert isinstance(done.exception, UserError) and "close each quotation mark" in done.exception.remedy


@pytest.mark.slow
def test_ctrl_c_ends_with_what_was_found(tmp_path: Path) -> None:
    make_case(tmp_path / "cases", limits={"agent_s": 1500})
    names = ["quick", "waits"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "answer.py").write_text(RIGHT + f"# {name}\n")
    waits = "import time; time.sleep(600 if 'waits' in open('answer.py').read() else 0)"
    command = [sys.executable, "-m", "bench", "cases", "grade", "double_it", *(str(tmp_path / it) for it in names),
               "--cases", str(tmp_path / "cases"), "--sandbox", "process", "--run", f'python -c "{waits}"']  # fmt: skip
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None and running.stderr is not None
        lines = [running.stdout.readline() for _ in range(2)]
        running.send_signal(signal.SIGINT)
        rest, said = running.stdout.read(), running.stderr.read()
    assert lines[1].startswith("[1/2] success ")
    assert running.returncode == 130, said
    assert rest.splitlines()[-1] == "1 grading: 1 success, 0 failures, 0 lost; 1 not judged"
