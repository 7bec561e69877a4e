"""Mutants of a case are run and judged: caught, alive or lost, and what the command says of each."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bench.authoring.edit_answers import save_answer
from bench.authoring.mutants import MutantHunt, MutantOutcome, lay_out_mutant, open_hunt, solution_mutants
from bench.authoring.mutation import Mutant
from bench.authoring.proof_seeds import ProofSeed
from bench.base.errors import UserError
from bench.base.install import DataFolders
from bench.cli.cases import cases
from bench.formats.case import Case
from bench.formats.wrong_answers import patched
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import CHECK, ROOT, STARTER, make_case

_SOLUTION = """def double(x):
    if x is None:
        raise ValueError("no number")
    return 2 * x


def unused(x):
    return x + 1
"""
_EXTRA = """

@check()
def is_plain(ws):
    \"\"\"Counts, and is not needed.\"\"\"
    assert "return 2 * x" in ws.text("answer.py"), "is written in another way"
"""
_SEEDS = [ProofSeed("7"), ProofSeed("7").later(1)]


def case_with(folder: Path, answer: str = _SOLUTION, **more: Any) -> Case:
    files: dict[str, str | bytes | None] = {"solution/answer.py": answer, **more.pop("files", {})}
    return make_case(folder / "cases", files, **more)


@pytest.fixture
def hunt(tmp_path: Path) -> Iterator[MutantHunt]:
    with open_hunt(case_with(tmp_path), places(tmp_path), ProcessSandbox(), _SEEDS) as found:
        yield found


def places(folder: Path) -> DataFolders:
    return DataFolders(folder / "cases", ROOT / "agents", ROOT / "site", folder / "cache")


def mutant_of(case: Case, after: str, name: str = "made_up") -> Mutant:
    before = case.part("solution/answer.py").read_bytes()
    return Mutant("made_up", "answer.py", 1, "double", False, before, after.encode(), name)


def run_mutants(folder: Path, *words: str) -> Result:
    options = ["--cases", str(folder / "cases"), "--sandbox", "process"]
    return CliRunner().invoke(
        cases, ["mutants", "double_it", *words, *options], env={"ML_DEV_BENCH_CACHE": str(folder / "cache")}
    )


@pytest.mark.slow
def test_four_mutants_of_a_small_case_from_end_to_end(tmp_path: Path) -> None:
    """Those that compute another double are caught; a change of what no check looks at lives, as a wrong answer."""
    case = case_with(tmp_path)
    every = solution_mutants(case)
    done = run_mutants(tmp_path, "--count", "4", "--seed", "5", "--jobs", "2", "--out", str(tmp_path / "out"), "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    told = {name: value for name, value in document.items() if name != "outcomes"}
    assert told == {
        "case": "double_it",
        "seed": "5",
        "seeds": 2,
        "mutants": len(every),
        "drawn": 4,
        "interrupted": False,
    }
    outcomes = document["outcomes"]
    assert len(outcomes) == 4 and {it["fate"] for it in outcomes} == {"caught", "alive"}
    alive = [it["name"] for it in outcomes if it["fate"] == "alive"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(alive)
    for outcome in outcomes:
        (mutant,) = [it for it in every if it.name == outcome["name"]]
        assert outcome["diff"] == mutant.diff
        doubled: dict[str, Any] = {}
        exec(mutant.after, doubled)
        assert (outcome["fate"] == "alive") == _is_double(doubled), outcome
        assert (outcome["score"] == 1) == (outcome["fate"] == "alive")
        if outcome["fate"] == "caught":
            assert "doubles" in outcome["failed"] and "score 0, doubles (0): " in outcome["detail"]
        else:
            (patch,) = save_answer(case, mutant.name, "solution", tmp_path / "out" / mutant.name)
            assert patch.name == f"{mutant.name}.patch"
    again = json.loads(run_mutants(tmp_path, "--count", "4", "--seed", "5", "--json").stdout)
    assert {(it["name"], it["fate"]) for it in again["outcomes"]} == {(it["name"], it["fate"]) for it in outcomes}


def _is_double(module: dict[str, Any]) -> bool:
    try:
        return bool(module["double"](21) == 42)
    except Exception:
        return False


@pytest.mark.slow
def test_what_is_alive_is_told_with_its_diff_and_the_way_to_a_wrong_answer(tmp_path: Path) -> None:
    case_with(tmp_path, "def double(x):\n    unused = 5\n    return 2 * x\n", files={"check.py": CHECK + _EXTRA})
    done = run_mutants(tmp_path, "--count", "16", "--seed", "1", "--seeds", "1", "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0] == "seed 1: of the draw, of data and of the judge's inputs"
    assert "-    unused = 5" in lines and "+    unused = 6" in lines
    (told,) = [line for line in lines if line.startswith("wrote") and "constant_off_by_one_line_2;" in line]
    assert told.endswith(
        f"cases patch double_it constant_off_by_one_line_2 --from {tmp_path}/out/constant_off_by_one_line_2"
    )
    assert lines[-1].endswith(" lost") and sum(line.startswith("ALIVE") for line in lines) >= 2
    taken = run_mutants(tmp_path, "--out", str(tmp_path / "out"))
    assert isinstance(taken.exception, UserError) and "exists already" in str(taken.exception)


def test_a_mutant_fails_what_success_does_not_need_and_is_alive(tmp_path: Path) -> None:
    case = case_with(tmp_path, files={"check.py": CHECK + _EXTRA})
    with open_hunt(case, places(tmp_path), ProcessSandbox(), _SEEDS) as hunt:
        outcome = hunt.judge(mutant_of(case, _SOLUTION.replace("2 * x", "x * 2")))
    assert outcome.fate == "alive" and outcome.score == 0.75 and outcome.failed == ("is_plain",)
    assert outcome.detail == "succeeds on 2 seeds with score 0.75; fails only what success does not need: is_plain"


def test_a_mutant_that_takes_too_long_is_caught_by_the_limit(tmp_path: Path) -> None:
    run = ["python", "-c", "import answer; answer.double(1)"]
    case = case_with(tmp_path, solution={"run": run}, limits={"agent_s": 2})
    with open_hunt(case, places(tmp_path), ProcessSandbox(), _SEEDS[:1]) as hunt:
        hunt.require_solution()
        outcome = hunt.judge(mutant_of(case, "while True:\n    pass\n"))
    assert (outcome.fate, outcome.score) == ("caught", None)
    assert outcome.detail == "time_limit: the solution's command was ended by it"


def test_what_was_not_judged_is_lost_and_not_caught(tmp_path: Path) -> None:
    """A check that raises, and any exception of ours."""
    careless = CHECK.replace("number(ws.call(", "(ws.call(").replace("found == 2 * x,", "found - 2 * x == 0,")
    case = case_with(tmp_path, files={"check.py": careless})
    with open_hunt(case, places(tmp_path), ProcessSandbox(), _SEEDS) as hunt:
        raising = hunt.judge(mutant_of(case, "def double(x):\n    return 'two'\n"))
        nowhere = hunt.judge(replace(mutant_of(case, ""), path="answer.py/inside.py"))
        away = replace(hunt, answers=replace(hunt.answers, answering=replace(hunt.answers.answering, place=case.task)))
        gone = [away.judge(mutant_of(case, text)) for text in (_SOLUTION, "def double(x):\n    return 0\n")]
    assert (raising.fate, raising.score) == ("lost", None)
    assert "InfraError: a check of case double_it is broken: doubles" in raising.detail
    assert nowhere.fate == "lost" and [it.fate for it in gone] == ["lost", "lost"]


def test_caught_on_a_later_seed_is_caught_and_lost_on_one_is_not_alive(hunt: MutantHunt) -> None:
    broken = ProofSeed("no hexadecimal digits are needed here")

    class Failing(MutantHunt):
        def _graded(self, mutant: Mutant, seed: ProofSeed) -> Any:
            if seed == broken:
                raise OSError("no space left")
            return super()._graded(mutant, seed)

    seeds = [broken, _SEEDS[0]]
    failing = Failing(hunt.answers, seeds)
    assert failing.judge(mutant_of(hunt.answers.case, STARTER)).fate == "caught"
    lost = failing.judge(mutant_of(hunt.answers.case, _SOLUTION))
    assert lost.fate == "lost" and "OSError: no space left" in lost.detail


def test_a_solution_that_fails_is_a_mistake_and_not_a_reason_to_call_everything_caught(tmp_path: Path) -> None:
    case_with(tmp_path, "def double(x):\n    return 3 * x\n")
    done = run_mutants(tmp_path, "--count", "2")
    assert isinstance(done.exception, UserError)
    assert "the solution itself does not succeed on seed" in str(done.exception) and "doubles" in str(done.exception)


def test_a_case_without_python_to_change_is_a_mistake(tmp_path: Path) -> None:
    case = case_with(tmp_path, "# nothing\n")
    with pytest.raises(UserError, match="holds no Python that could be changed"):
        solution_mutants(case)


@pytest.mark.slow
def test_functions_of_the_starter_can_be_left_out(tmp_path: Path) -> None:
    starter = STARTER + "\n\ndef unused(x):\n    return x + 1\n"
    case_with(tmp_path, files={"workspace/answer.py": starter})
    options = ("--count", "8", "--seed", "5", "--seeds", "1")
    told = [run_mutants(tmp_path, *options, *words).output.splitlines() for words in ((), ("--changed",))]
    every, own = (int(lines[1].split()[1]) for lines in told)
    assert 0 < own < every
    given = sum("(given by the starter)" in line for line in told[0] if line.startswith("ALIVE"))
    assert given and f"alive ({given} in what the starter gives), " in told[0][-1]
    assert "starter" not in told[1][-1]


def test_a_living_mutant_becomes_a_patch_of_its_one_place(tmp_path: Path) -> None:
    case = case_with(tmp_path)
    (mutant,) = [it for it in solution_mutants(case) if it.name == "constant_off_by_one_line_8"]
    lay_out_mutant(case, mutant, tmp_path / "laid")
    save_answer(case, "alive", "solution", tmp_path / "laid")
    entry = case.spec.wrong["same"]
    named = replace(case, spec=case.spec.model_copy(update={"wrong": {"alive": entry}}))
    assert patched(named, "alive").files["answer.py"] == mutant.after


def test_an_interruption_waits_for_no_mutant(hunt: MutantHunt) -> None:
    """What is found is there, and the mutants that are at work are left."""
    held, begun = threading.Event(), threading.Event()

    class Waiting(MutantHunt):
        def judge(self, mutant: Mutant) -> MutantOutcome:
            if mutant.name != "first":
                begun.set()
                held.wait()
            return MutantOutcome(mutant, "alive", "", 1.0, (), 0.0)

    mutants = [mutant_of(hunt.answers.case, _SOLUTION, name) for name in ("first", "second", "third")]
    outcomes = Waiting(hunt.answers, _SEEDS).judge_all(mutants, 1)
    found = [next(outcomes)]
    begun.wait()
    with pytest.raises(KeyboardInterrupt):
        outcomes.throw(KeyboardInterrupt())  # type: ignore[attr-defined]
    held.set()
    assert [it.mutant for it in found] == mutants[:1]


@pytest.mark.slow
def test_ctrl_c_ends_the_command_with_what_was_found(tmp_path: Path) -> None:
    slow = ["python", "-c", "import time; time.sleep(600 if 'pass' in open('answer.py').read() else 0)"]
    case_with(tmp_path, solution={"run": slow}, limits={"agent_s": 1500})
    command = [sys.executable, "-m", "bench", "cases", "mutants", "double_it", "--cases", str(tmp_path / "cases"),
               "--sandbox", "process", "--seed", "5", "--seeds", "1", "--count", "100"]  # fmt: skip
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None and running.stderr is not None
        lines = [running.stdout.readline() for _ in range(3)]
        running.send_signal(signal.SIGINT)
        rest, said = running.stdout.read(), running.stderr.read()
    assert lines[2].startswith("[1/")
    assert running.returncode == 130, said
    last = rest.splitlines()[-1]
    assert " caught, " in last and last.endswith(" not judged") and "interrupted" in said


def test_help_loads_no_models() -> None:
    code = """
import sys
from bench.cli.main import cli
try:
    cli.main(["cases", "mutants", "--help"])
finally:
    print([name for name in ("pydantic", "yaml", "bench.cell", "rich") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout
