"""Proofs repeat from one seed, several seeds are counted, and a fault of a case's own code is said once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.authoring import verify
from bench.authoring.lint import lint
from bench.authoring.proof_seeds import ProofSeed, Rounds
from bench.authoring.verify import Proof, open_verifier
from bench.base.errors import UserError
from bench.base.install import DataFolders
from bench.formats.case import Case
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import CHECK, ROOT, make_case

_DATA = """
from pathlib import Path

def build(public, hidden, profile, seed):
    (public / "seed.txt").write_text(str(seed))
"""
_NOTES = """
from pathlib import Path

from bench.judge import check

NOTES = Path({notes!r})


@check(required=True)
def doubles(ws):
    \"\"\"Doubles, for some seeds.\"\"\"
    with NOTES.open("a") as file:
        file.write(f"{{ws.text('seed.txt')}} {{ws.seed}}\\n")
    text = ws.text("answer.py")
    lucky = "return x\\n" in text and ws.seed % 2
    assert "2 * x" in text or lucky, "does not double"
"""


def places(folder: Path) -> DataFolders:
    return DataFolders(cases=folder, agents=ROOT / "agents", site=ROOT / "site", cache=folder / "cache")


def prove(folder: Path, case: Case, rounds: Rounds, spent: float = 0.0, last: str = "") -> list[Proof]:
    """Every proof up to the one called `last`; each look at the clock of the processor is `spent` seconds later."""
    clock = itertools.count(0.0, spent) if spent else itertools.repeat(0.0)
    found = []
    with open_verifier(places(folder), ProcessSandbox(), rounds, lambda: next(clock)) as verifier:
        for proof in verifier.verify(case):
            found.append(proof)
            if proof.name == last:
                break
    return found


def noting_case(folder: Path) -> tuple[Case, Path]:
    notes = folder / "notes"
    files = {"check.py": _NOTES.format(notes=str(notes)), "data.py": _DATA}
    return make_case(folder / "cases", files, outputs={"files": []}), notes


def seed_with(parity: list[int], case: str, proof: str) -> ProofSeed:
    """A seed whose first rounds give the judge odd (1) and even (0) seeds in this order."""
    for number in itertools.count():
        seed = ProofSeed(f"{number:x}")
        if [seed.later(n).judging(case, proof) % 2 for n in range(len(parity))] == parity:
            return seed
    raise AssertionError


def test_a_seed_decides_everything_that_is_drawn(tmp_path: Path) -> None:
    case, notes = noting_case(tmp_path)
    seed = seed_with([0, 0], case.id, "wrong same")
    first = prove(tmp_path, case, Rounds(seed))
    assert [proof.detail for proof in first if not proof.ok] == []
    seen = notes.read_text().split("\n")
    notes.unlink()
    assert [proof.detail for proof in prove(tmp_path, case, Rounds(seed)) if not proof.ok] == []
    assert notes.read_text().split("\n") == seen
    # Of the untouched workspace, the solution and the wrong answers; what hostile answers give is not text of a file.
    data, judged = zip(*(line.split() for line in seen[:9]), strict=True)
    assert len(set(judged)) == 9, "each proof has inputs of its own"
    assert {str(seed.data(case.id, trial)) for trial in (1, 2)} <= set(data)
    notes.unlink()
    prove(tmp_path, case, Rounds(ProofSeed("abc")), last="solution")
    assert not set(notes.read_text().split()) & set(" ".join(seen).split())


def test_a_failure_names_the_seed_that_repeats_it(tmp_path: Path) -> None:
    """An answer that is right for half of the seeds: the second seed finds it, and that one alone finds it again."""
    case, _ = noting_case(tmp_path)
    seed = seed_with([0, 1], case.id, "wrong same")
    found = prove(tmp_path, case, Rounds(seed), last="wrong: same")[-1]
    assert not found.ok and "succeeds with score 1" in found.detail and "(holds on 1/2 seeds)" in found.detail
    assert found.seed == seed.later(1).text
    again = prove(tmp_path, case, Rounds(ProofSeed(found.seed)), last="wrong: same")[-1]
    assert not again.ok and again.seed == found.seed


def test_what_takes_long_has_one_seed_unless_more_are_asked_for(tmp_path: Path) -> None:
    case, notes = noting_case(tmp_path)
    seed = seed_with([0, 1, 0], case.id, "wrong same")
    slow = {it.name: it for it in prove(tmp_path, case, Rounds(seed), spent=3.0, last="wrong: same")}
    assert slow["wrong: same"].ok and "seeds" not in slow["wrong: same"].detail
    notes.unlink()
    found = {it.name: it for it in prove(tmp_path, case, Rounds(seed, repeat=3), last="wrong: same")}
    assert "(holds on 2/3 seeds)" in found["wrong: same"].detail
    assert found["wrong: adds"].detail == "caught by doubles; on 3/3 seeds"
    assert found["solution"].ok and found["solution"].detail.endswith("on 3/3 seeds")
    assert len(found) == len(slow), "a lock counts proofs, and not seeds"
    assert found["untouched"].ok and "seeds" not in found["untouched"].detail


def test_second_tries_of_a_case_take_a_bounded_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "_SECOND_TRIES_S", 2.0)
    case, _ = noting_case(tmp_path)
    seed = seed_with([0, 0], case.id, "wrong same")
    found = {it.name: it.detail for it in prove(tmp_path, case, Rounds(seed), spent=1.5)}
    first, *later = (found[f"wrong: {name}"] for name in case.spec.wrong)
    assert first.endswith("on 2/2 seeds")
    assert later and not any("seeds" in it for it in later), "half a second is left, and a try takes 1.5"


@pytest.mark.parametrize("text", ["", "x", "0x7", "A", "1" * 33, "-1"])
def test_what_is_not_a_seed_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="is not a seed"):
        ProofSeed.parse(text)


def test_seeds_have_all_bits_and_rounds_differ() -> None:
    seed = ProofSeed.parse("7")
    assert seed.data("a", 1) ^ seed.data("a", 2) == 2**127
    assert ProofSeed.parse("007").data("a", 1) == seed.data("a", 1)
    many = {seed.later(number).judging("a", "x") for number in range(50)}
    assert len(many) == 50 and max(many) > 2**120
    assert ProofSeed.drawn() != ProofSeed.drawn()
    assert ProofSeed.parse(seed.later(3).text) == seed.later(3)


_IMPORT = "import no_such_module\n"


@pytest.mark.parametrize(
    ("files", "names", "said"),
    [
        ({"check.py": _IMPORT + CHECK}, ["folder", "data", "untouched"],
         "check.py: line 1: ModuleNotFoundError: No module named 'no_such_module'; correct the import"),
        ({"check.py": "import helper\n" + CHECK, "hidden/helper.py": "x = 1\n" + _IMPORT},
         ["folder", "data", "untouched"], "hidden/helper.py: line 2: ModuleNotFoundError"),
        ({"check.py": "import helper\n" + CHECK, "hidden/helper.py": "x = (\n"},
         ["folder", "data", "untouched"], "hidden/helper.py: line 1: SyntaxError"),
        ({"data.py": "\n" + _IMPORT}, ["folder", "data"], "data.py: line 2: ModuleNotFoundError"),
        ({"data.py": "def build(public, hidden, profile, seed):\n    1 / 0\n"}, ["folder", "data"],
         "data.py: line 2: ZeroDivisionError: division by zero; correct this line"),
        ({"check.py": CHECK + "def f(:\n"}, ["folder"], "check.py: line 20: invalid syntax; fix the syntax"),
        ({"data.py": "x = (\n"}, ["folder"], "data.py: line 1: '(' was never closed; fix the syntax"),
    ],
)  # fmt: skip
def test_a_fault_of_the_cases_code_is_said_once(
    tmp_path: Path, files: Mapping[str, str], names: list[str], said: str
) -> None:
    proofs = prove(tmp_path, make_case(tmp_path / "cases", files), Rounds())
    assert [proof.name for proof in proofs] == names
    assert [proof.ok for proof in proofs] == [True] * (len(names) - 1) + [False]
    assert said in proofs[-1].detail and "\n" not in proofs[-1].detail


def test_services_that_do_not_start_are_said_once(tmp_path: Path) -> None:
    case = make_case(tmp_path / "cases", {"services.py": _IMPORT}, services={"hub": {"env": "HUB_URL"}})
    last = prove(tmp_path, case, Rounds())[-1]
    assert (last.name, last.ok) == ("solution", False)
    assert "services did not start: services.py: line 1: ModuleNotFoundError" in last.detail


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("from pathlib import Path\nX = Path(__file__).parent / 'solution' / 'answer.py'\n", "'solution'"),
        ("from pathlib import Path\nX = Path(__file__).parent.joinpath('wrong')\n", "'wrong'"),
        ("X = '../solution/answer.py'\n", "'../solution/answer.py'"),
        ("X = 'wrong/same.patch'\n", "'wrong/same.patch'"),
        ("X = {'wrong': 1}\nY = 'the solution / the answer is wrong'\nZ = '/wrong/route'\nW = 'solution.py'\n", ""),
    ],
)
@pytest.mark.parametrize("name", ["check.py", "hidden/driver.py"])
def test_code_of_the_judge_that_names_the_answers_is_refused(tmp_path: Path, name: str, text: str, said: str) -> None:
    driver = "def doubled(x):\n    import answer\n\n    return answer.double(x)\n"
    case = make_case(tmp_path, {name: text + (CHECK if name == "check.py" else driver)})
    found = [fault for fault in lint(case) if "reads" in fault]
    assert len(found) == bool(said)
    assert not said or (name in found[0] and said in found[0] and "line" in found[0])


def test_the_answers_are_not_there_for_a_judge(tmp_path: Path) -> None:
    """Where no literal shows it, the proof itself does: the judge meets a copy of the case without its answers."""
    hidden_name = "Path(__file__).parent / ''.join(reversed('noitulos')) / 'answer.py'"
    text = CHECK + f"\nfrom pathlib import Path\nSECRET = ({hidden_name}).read_text()\n"
    case = make_case(tmp_path / "cases", {"check.py": text})
    assert lint(case) == []
    last = prove(tmp_path, case, Rounds())[-1]
    assert not last.ok and "check.py: line 22: FileNotFoundError" in last.detail
    assert str(case.folder / "solution") in last.detail, "the author's own folder is named, and not a copy"


@pytest.mark.parametrize(("needs", "ok"), [({"python": ["no_such_library"]}, False), ({"gpu": True}, True)])
def test_where_proofs_count_a_missing_library_is_a_failure(
    tmp_path: Path, needs: dict[str, Any], ok: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.cell.needs.find_gpus", lambda roots: [])
    case = make_case(tmp_path / "cases", needs=needs)
    for complete in (False, True):
        _, needed = prove(tmp_path, case, Rounds(complete=complete))
        assert (needed.name, needed.ok, needed.skipped) == ("needs", ok or not complete, ok or not complete)
