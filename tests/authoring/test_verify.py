"""A case that proves itself verifies; each way of being broken is told in a line of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from bench.authoring.lint import lint
from bench.authoring.scaffold import KINDS, SMALLEST, scaffold_case
from bench.authoring.verify import Proof, open_verifier
from bench.authoring.warm_answers import _libraries
from bench.authoring.wrong_answers import caught
from bench.base.errors import UserError
from bench.base.files import walk_files
from bench.base.install import DataFolders
from bench.cli.cases_answers import new
from bench.formats.case import Case, case_folders, load_case
from bench.formats.patch_writing import make_patch
from bench.judge.grade import Submission, grade_checks
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.job import Sandbox
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import CHECK, RIGHT, ROOT, WRONG, make_case, write_files, wrong_patch


def places_of(folder: Path) -> DataFolders:
    return DataFolders(cases=folder, agents=ROOT / "agents", site=ROOT / "site", cache=folder / "cache")


def verify(folder: Path, case: Case, sandbox: Sandbox) -> list[Proof]:
    with open_verifier(places_of(folder), sandbox) as verifier:
        return list(verifier.verify(case))


def detail(folder: Path, case: Case, name: str) -> str:
    """What the proof `name` says against the case; those after it are not asked for."""
    with open_verifier(places_of(folder), ProcessSandbox()) as verifier:
        proofs = verifier.verify(case)
        return next((proof.detail for proof in proofs if proof.name == name and not proof.ok), "nothing")


def faults(folder: Path, case: Case) -> dict[str, str]:
    return {proof.name: proof.detail for proof in verify(folder, case, ProcessSandbox()) if not proof.ok}


def test_a_new_case_proves_itself(any_sandbox: Sandbox, tmp_path: Path) -> None:
    case = load_case(scaffold_case(tmp_path / "cases", "basics/my_case"))
    proofs = verify(tmp_path, case, any_sandbox)
    assert [proof.name for proof in proofs] == [
        "folder", "data", "untouched", "solution", "solution, other seed", "wrong: forgets_to_sort",
        "wrong: takes_the_mean", "wrong: knows_one_list", "hostile answers",
    ]  # fmt: skip
    assert [proof.detail for proof in proofs if not proof.ok] == []


def test_the_small_case_of_these_tests_proves_itself(tmp_path: Path) -> None:
    assert faults(tmp_path, make_case(tmp_path / "cases")) == {}


@pytest.mark.parametrize("name", ["x", "A/b", "a/b/c", "a/", "../a/b", "a/b c", ""])
def test_a_name_that_is_none_makes_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="is not a name"):
        scaffold_case(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


def test_the_template_is_filled_in_and_is_not_a_case_itself(tmp_path: Path) -> None:
    templates = ROOT / "cases" / "_template"
    assert sorted(it.name for it in templates.iterdir()) == sorted([*KINDS, SMALLEST])
    (offered,) = (it.type for it in new.params if it.name == "like")
    assert isinstance(offered, click.Choice) and tuple(offered.choices) == KINDS
    for kind in (*KINDS, SMALLEST):
        folder = scaffold_case(tmp_path / kind, "basics/mine", kind)
        given = [path.removesuffix(".template") for path, _ in walk_files(templates / kind)]
        assert [path for path, _ in walk_files(folder)] == given
        assert load_case(folder).spec.id == "mine"
        assert "{" not in (folder / "README.md").read_text()
        assert lint(load_case(folder)) == []
    assert all(templates not in found.parents for found in case_folders(ROOT / "cases").values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_is_small_and_has_near_misses(kind: str) -> None:
    """What an author reads to replace it; answers and starter are what they write anyway."""
    folder = ROOT / "cases" / "_template" / kind
    own = [path for path, _ in walk_files(folder) if path.split("/")[0] not in ("wrong", "workspace", "solution")]
    lines = sum(len((folder / path).read_text().splitlines()) for path in own)
    assert lines < 400, f"{kind} has {lines} lines"
    assert len(list((folder / "wrong").glob("*.patch"))) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_case_of_each_kind_has_a_solution_that_succeeds(tmp_path: Path, kind: str) -> None:
    case = load_case(scaffold_case(tmp_path / "cases", "basics/my_case", kind))
    proofs = []
    with open_verifier(places_of(tmp_path), ProcessSandbox()) as verifier:
        for proof in verifier.verify(case):
            proofs.append(proof)
            if proof.name == "solution":
                break
    assert [(proof.name, proof.ok) for proof in proofs] == [
        ("folder", True), ("data", True), ("untouched", True), ("solution", True)
    ], proofs  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_a_case_of_each_kind_proves_itself(tmp_path: Path, bubblewrap: BubblewrapSandbox, kind: str) -> None:
    case = load_case(scaffold_case(tmp_path / "cases", "basics/my_case", kind))
    assert [proof for proof in verify(tmp_path, case, bubblewrap) if not proof.ok] == []


@pytest.mark.slow
def test_a_wrong_answer_is_judged_with_the_services_of_judging(tmp_path: Path) -> None:
    """Without them every answer that asks one would fail, and a right one would be called caught."""
    folder = scaffold_case(tmp_path / "cases", "basics/my_case", "service")
    (folder / "wrong" / "never_run.patch").write_text(
        "--- a/report.py\n+++ b/report.py\n@@ -2,2 +2,3 @@\n \n+# The same, but for this line.\n import json\n"
    )
    spec = load_case(folder).spec
    harmless = spec.wrong["never_run"].model_copy(update={"run": ["python", "report.py"]})
    case = replace(load_case(folder), spec=spec.model_copy(update={"wrong": {"never_run": harmless}}))
    assert "succeeds with score 1" in detail(tmp_path, case, "wrong: never_run")


def test_a_name_that_is_taken_changes_nothing(tmp_path: Path) -> None:
    folder = scaffold_case(tmp_path, "basics/mine")
    (folder / "task.md").write_text("mine")
    for name in ("basics/mine", "tabular/mine"):
        with pytest.raises(UserError, match="exists already"):
            scaffold_case(tmp_path, name)
    assert (folder / "task.md").read_text() == "mine"
    assert [it.name for it in tmp_path.iterdir()] == ["basics"]


_SLACK = CHECK.replace("assert found == 2 * x", "assert True", 1)
_DOC = '    """Numbers the agent has not seen are doubled."""\n'
_EASY = (
    CHECK
    + '\n\n@check()\ndef is_there(ws):\n    """The file is there."""\n    assert ws.exists("answer.py"), "missing"\n'
)
_STATUS = """

@check(weight=3, required=True)
def ends_well(ws):
    \"\"\"The visible test ends well.\"\"\"
    ws.run(["python", "test.py"]).ok()
"""
_LOOKS_AWAY = """

@check(guard=True)
def is_own(ws):
    \"\"\"The answer is the agent's own.\"\"\"
    try:
        found = ws.call("answer:double", 1)
    except AssertionError:
        return
    assert found != 3, "it is not"
"""
_CARELESS = CHECK.replace("number(ws.call(", "(ws.call(").replace("found == 2 * x,", "found - 2 * x == 0,")
_CLAIMS = CHECK + '\n\n@check()\ndef claims(ws):\n    """Claims."""\n    ws.claim("a", 1.0, 0.1, 0.1)\n' \
    '    assert "2" in ws.text("answer.py"), "no two"\n'  # fmt: skip
_UNSTABLE = (
    "import time\ndef build(public, hidden, profile, seed):\n    (public / 'x').write_text(str(time.time_ns()))\n"
)
_CONSTANT = "def build(public, hidden, profile, seed):\n    (public / 'x').write_text('always')\n"
_CUT = _CONSTANT.replace("'always'", "str(seed % 2**64)")


Row = tuple[Mapping[str, str | bytes | None], dict[str, Any], str, str]
_SLOW = "from time import process_time as used\nwhile used() < 1.1:\n    pass\ndef double(x):\n    return 2 * x\n"
_ROWS: list[Row] = [
        ({"solution/answer.py": "def double(x):\n    return 3 * x\n"}, {}, "solution", "doubles"),
        ({"solution/answer.py": _SLOW},
         {"limits": {"grade_s": 6}}, "solution", "over half of 6 s"),
        ({}, {"solution": {"run": ["python", "-c", "raise SystemExit(3)"]}}, "solution", "status 3"),
        ({}, {"solution": {"run": ["python", "-c", "import time; time.sleep(2)"]}, "limits": {"agent_s": 3}},
         "solution", "over half of 3 s"),
        ({"workspace/keep.txt": "a", "solution/keep.txt": "b"}, {"protected": ["keep.txt"]}, "solution", "protected"),
        ({"check.py": _CLAIMS}, {}, "solution", "overclaims a"),
        ({"workspace/answer.py": "def double(x):\n    return 2 * x\n"}, {}, "untouched", "succeeds"),
        ({"check.py": _EASY}, {}, "untouched", "is_there"),
        ({"check.py": _EASY.replace("check()\ndef is", "check(guard=True)\ndef is"), "workspace/answer.py": None},
         {"outputs": {"weight": 1, "files": [{"path": "answer.py"}]}}, "untouched", "guards is_there"),
        ({"wrong/same.patch": wrong_patch("def double(x):\n    return x * 2\n")}, {}, "wrong: same",
         "succeeds with score 1"),
        ({}, {"wrong": {"same": {"about": "x", "fails": ["no_such_check"]}}}, "wrong: same",
         "do not exist: no_such_check"),
        ({"check.py": _SLACK}, {}, "wrong: same", "is not caught by doubles"),
        ({"check.py": _CARELESS}, {}, "hostile answers", "an agent can break a check"),
        ({"check.py": CHECK + "\n1 / 0\n"}, {}, "untouched", "check.py: line 21: ZeroDivisionError"),
        ({"check.py": "import os; os._exit(1)"}, {}, "solution", "without a report"),
        ({"data.py": _UNSTABLE}, {}, "data", "other data for the same seed"),
        ({"data.py": _CONSTANT}, {}, "data", "the same data for another seed"),
        ({"data.py": _CUT}, {}, "data", "use all 128 bits"),
        ({"data.py": "x = 1"}, {}, "data", "AttributeError"),
        ({"services.py": "x = 1"}, {"services": {"hub": {"env": "HUB_URL"}}}, "solution", "did not start"),
        ({}, {"preload": ["no_such_library"]}, "solution", "no_such_library"),
        ({"check.py": CHECK.replace(_DOC, "")}, {}, "folder", "doubles has no docstring"),
        ({"check.py": CHECK.replace(', f"double({x}) is {2 * x}, not {found}"', "")}, {}, "folder",
         "without a message"),
        ({"check.py": CHECK + _STATUS}, {}, "folder", "ends_well earns credit by an exit status"),
        ({"check.py": CHECK + _STATUS.replace("ws.run", "ran = ws.run")}, {}, "folder", "credit by an exit status"),
        ({"check.py": CHECK + _STATUS.replace("ws.run", "assert not ws.run").replace(".ok()", ".code, 'x'")}, {},
         "folder", "credit by an exit status"),
        ({"check.py": CHECK + _LOOKS_AWAY}, {}, "folder", "is_own passes where it cannot look"),
        ({"check.py": CHECK + _LOOKS_AWAY.replace("    try:", "    with contextlib.suppress(AssertionError):").replace(
            "    except AssertionError:\n        return\n", "")}, {}, "folder", "is_own passes where it cannot look"),
        ({"check.py": "x = 1"}, {}, "folder", "defines no check"),
        ({"check.py": CHECK.replace("required=True", "required=False")}, {}, "folder", "no check is required"),
        ({"check.py": "def broken(:\n"}, {}, "folder", "check.py: line 1"),
        ({"task.md": "Do it."}, {}, "folder", "does not name the output answer.py"),
        ({"README.md": None}, {}, "folder", "README.md: is missing"),
        ({"workspace/conftest.py": ""}, {}, "folder", "conftest.py: does not belong"),
        ({}, {"wrong": {}}, "folder", "at least 3 are needed"),
        ({}, {"protected": ["absent.py"]}, "folder", "protected file absent.py"),
        ({"hidden/facts.txt": "the secret of this case is forty-two\n",
          "workspace/notes.txt": "the secret of this case is forty-two\n"}, {}, "folder", "is in workspace/, too"),
        ({"solution/extra.py": "the_whole_answer = 'this very line and no other'\n",
          "task.md": "answer.py\nthe_whole_answer = 'this very line and no other'\n"}, {}, "folder",
         "is in task.md, too"),
]  # fmt: skip
_QUICK = ("folder", "needs", "data", "untouched")


@pytest.mark.parametrize(
    ("files", "facts", "proof", "said"),
    [pytest.param(*row, marks=[] if row[2] in _QUICK else pytest.mark.slow) for row in _ROWS],
)
def test_each_way_of_being_broken_has_its_line(
    tmp_path: Path, files: Mapping[str, str | bytes | None], facts: dict[str, Any], proof: str, said: str
) -> None:
    assert said in detail(tmp_path, make_case(tmp_path / "cases", files, **facts), proof)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "task.md").write_bytes(b"answer.py \xff"), "task.md"),
        (lambda folder: (folder / "check.py").write_bytes(b"# \xff\n"), "check.py"),
        (lambda folder: (folder / "check.py").write_bytes(b"x = 1\0\n"), "check.py"),
        (lambda folder: shutil.rmtree(folder / "solution"), "solution/: is missing"),
        (lambda folder: (folder / "check.py").write_text("(" * 5000), "check.py"),
    ],
    ids=["task is no text", "check is no text", "check has a zero", "no solution", "check too deep"],
)
def test_a_spoilt_folder_is_a_proof_that_failed_and_no_traceback(
    tmp_path: Path, spoil: Callable[[Path], object], said: str
) -> None:
    case = make_case(tmp_path / "cases")
    spoil(case.folder)
    assert said in detail(tmp_path, load_case(case.folder), "folder")


def test_a_check_that_is_no_text_is_said_once(tmp_path: Path) -> None:
    case = make_case(tmp_path / "cases", {"check.py": b"# \xff\n"})
    assert faults(tmp_path, case).keys() == {"folder"}


_LAID = """

@check()
def is_laid_out(ws):
    \"\"\"Fails where the answer lies there as its parts say.\"\"\"
    assert ws.exists("gone.txt") or ws.text("made.txt") != "after\\n", "laid out"
"""


_MAKES = """from pathlib import Path

Path("gone.txt" if Path("gone.txt").exists() else "made.txt").write_text("command")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "run",
    [
        # Where the file to remove is still there, or the command comes last, the check passes, and that is said.
        ["sh", "-c", "test ! -e gone.txt && echo command > made.txt || echo before > gone.txt"],
        ["python", "make.py"],
    ],
    ids=["command", "program"],
)
def test_a_wrong_answer_is_laid_base_patch_command_and_whole_files(tmp_path: Path, run: list[str]) -> None:
    old = {"answer.py": RIGHT.encode(), "gone.txt": b"x\n"}
    files: dict[str, str | bytes | None] = {
        "check.py": CHECK + _LAID, "workspace/gone.txt": "x\n", "wrong/same/made.txt": b"after\n",
        "workspace/make.py": _MAKES,
        "wrong/same.patch": make_patch(old, {"answer.py": WRONG.encode()}).decode(),
    }  # fmt: skip
    case = make_case(tmp_path / "cases", files, wrong={
        "same": {"about": "x", "fails": ["doubles", "is_laid_out"], "run": run}})  # fmt: skip
    assert detail(tmp_path, case, "wrong: same") == "nothing"


def test_a_case_without_outputs_and_data_is_fine(tmp_path: Path) -> None:
    case = make_case(tmp_path / "cases", {"workspace/answer.py": None}, outputs={"weight": 0, "files": []})
    assert faults(tmp_path, case) == {}


def test_imports_and_short_lines_are_no_leak(tmp_path: Path) -> None:
    line = "from collections.abc import Callable, Iterator, Mapping\n"
    case = make_case(tmp_path, {"hidden/helper.py": line + "x = 1\n", "workspace/other.py": line + "x = 1\n"})
    assert lint(case) == []


def test_proofs_are_plain_data(tmp_path: Path) -> None:
    write_files(tmp_path, {})
    proof = Proof("case", "name", True, "detail", 0.5)
    assert replace(proof, ok=False) != proof


_COUNTED = """
from pathlib import Path

from bench.judge import check

RAN = Path({ran!r})


def _note(name):
    with RAN.open("a") as file:
        file.write(name + " ")


@check(required=True)
def needed(ws):
    \"\"\"Doubles.\"\"\"
    _note("needed")
    assert "2 * x" in ws.text("answer.py"), "does not double"


@check(required=True)
def needed_too(ws):
    \"\"\"Is not a constant.\"\"\"
    _note("needed_too")
    assert "2.0" not in ws.text("answer.py"), "is a constant"


@check()
def extra(ws):
    \"\"\"Does not add.\"\"\"
    _note("extra")
    assert "+" not in ws.text("answer.py"), "adds"
"""


@pytest.mark.parametrize(
    ("name", "fails", "ran", "said"),
    [
        ("constant", ["needed_too"], "needed_too", ""),
        ("adds", ["extra", "needed"], "extra needed", ""),
        ("adds", ["extra"], "extra needed needed_too", ""),
        ("constant", ["extra"], "extra needed needed_too", "is not caught by extra (fails needed, needed_too)"),
        ("doubles_and_adds", ["extra"], "extra needed needed_too", "succeeds with score 0.666667: the answer"),
        ("doubles_and_adds", ["needed"], "needed", "succeeds with score 0.666667: the answer"),
    ],
)
def test_a_wrong_answer_runs_what_decides_about_it(
    tmp_path: Path, name: str, fails: list[str], ran: str, said: str
) -> None:
    """The named checks; with them those that success needs, where no named one is of these."""
    ran_file = tmp_path / "ran"
    wrong = {"about": f"the answer {name}", "fails": fails}
    content = {"constant": "def double(x):\n    return 2.0\n", "adds": "def double(x):\n    return x + 2\n"}
    answer = content.get(name, "def double(x):\n    return 2 * x + 0\n")
    case = make_case(
        tmp_path / "cases",
        {"check.py": _COUNTED.format(ran=str(ran_file)), f"wrong/{name}/answer.py": answer},
        wrong={name: wrong},
        outputs={"files": []},
    )
    folder = write_files(tmp_path / "w", {"answer.py": answer})
    submission = Submission(folder, case.part("workspace"), case.part("hidden"), folder, "mini", "process")
    try:
        told = caught(case, case.spec.wrong[name], submission)
    except AssertionError as fault:
        told = str(fault)
    assert (told == f"caught by {', '.join(fails)}") == (not said) and said in told
    first = ran_file.read_text().split()[: len(ran.split())]
    assert sorted(first) == sorted(ran.split())
    assert bool(said) == (len(ran_file.read_text().split()) > len(first)), "all checks run only to explain a failure"


def test_a_partial_grading_has_neither_score_nor_success(tmp_path: Path) -> None:
    case = make_case(tmp_path / "cases")
    submission = Submission(
        case.part("workspace"), case.part("workspace"), case.part("hidden"), tmp_path, "mini", "process"
    )
    found = grade_checks(case, submission, ["outputs_present", "doubles"])
    assert [(it.id, it.value) for it in found.verdicts] == [("outputs_present", 1.0), ("doubles", 0.0)]
    assert not {"score", "success"} & set(dir(found))
    assert grade_checks(case, submission, ["no_such_check"]).broken == "the case has none of the checks no_such_check"


def test_only_libraries_that_look_at_nothing_are_imported_before(tmp_path: Path) -> None:
    """And none for which the workspace has a module of its own."""
    text = "import os, numpy, wandb\nimport numpy.no_such_part\nfrom safetensors.numpy import load\nimport pandas\n"
    write_files(
        tmp_path, {"train.py": text, "pandas.py": "", "broken.py": "import (", "deep/net.py": "import numpy.fft"}
    )
    assert set(_libraries(tmp_path)) == {"numpy", "numpy.fft", "safetensors.numpy"}


@pytest.mark.slow
def test_a_library_that_cannot_be_imported_is_the_answers_own_affair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command runs as the solution's does."""
    monkeypatch.setattr("bench.authoring.warm_answers._libraries", lambda workspace: ["no_such_library"])
    right = RIGHT.encode()
    files: dict[str, str | bytes | None] = {
        "workspace/make.py": f"open('answer.py', 'w').write({WRONG!r})\n",
        "wrong/same.patch": make_patch({"answer.py": right}, {"answer.py": right + b"# more\n"}).decode(),
    }
    # Without its command it succeeds.
    case = make_case(tmp_path / "cases", files, wrong={
        "same": {"about": "x", "fails": ["doubles"], "run": ["python", "make.py"]}})  # fmt: skip
    assert detail(tmp_path, case, "wrong: same") == "nothing"
