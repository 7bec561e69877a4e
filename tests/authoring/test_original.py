"""The original's evaluators, faults included: what old logs were measured with. No verdict comes of them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from bench.authoring import OriginalVerdict, original_verdict
from bench.base.errors import UserError
from bench.base.install import find_data_folders
from bench.cli.cases import cases
from bench.formats.case import load_case, load_one_case
from bench.sandbox import choose_sandbox
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import make_case, write_files

ROOT = find_data_folders().cases
PRICES = [100_000.0, 200_000.0, 300_000.0]


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    folder = tmp_path / "hidden"
    folder.mkdir()
    np.savez(folder / "answers.npz", ids=np.array([7, 8, 9]), prices=np.array(PRICES))
    return folder


def judged(case: str, files: dict[str, str], answers: Path | None, tmp_path: Path) -> OriginalVerdict:
    folder = tmp_path / "submission"
    folder.mkdir(exist_ok=True)
    write_files(folder, files)
    return original_verdict(load_one_case(ROOT, case), folder, answers, ProcessSandbox())


@pytest.mark.parametrize(
    ("rows", "score"),
    [
        ("7,100000\n8,200000\n9,300000\n", 0.0),
        # By position: the right prices in another order of ids are wrong, the wrong ids in this order are right.
        ("9,300000\n8,200000\n7,100000\n", 400_000 / 3),
        ("1,100000\n1,200000\n1,300000\n", 0.0),
        ("7,1\n8,1\n9,1\n", 199_999.0),
        ("7,100000\n", math.nan),
    ],
)
def test_house_price_compares_rows_by_position(rows: str, score: float, answers: Path, tmp_path: Path) -> None:
    found = judged("house_price", {"submission.csv": f"Id,SalePrice\n{rows}"}, answers, tmp_path)
    assert found.score == pytest.approx(score, nan_ok=True) and found.fault == ""
    # Any valid file succeeds against the placeholder; an error of exactly 0 was taken for no score at all.
    assert found.succeeds(0.1) == (score > 0)
    assert found.valid == (score > 0)


def test_house_price_reads_the_originals_own_answers_too(answers: Path, tmp_path: Path) -> None:
    (answers / "answer.csv").write_text("Id,SalePrice\n7,1\n8,2\n9,3\n")
    found = judged("house_price", {"submission.csv": "Id,SalePrice\n7,2\n8,3\n9,4\n"}, answers, tmp_path)
    assert found.score == 1.0


def test_an_evaluator_that_ends_with_an_exception_leaves_minus_one(answers: Path, tmp_path: Path) -> None:
    for files, said in (({}, "FileNotFoundError"), ({"submission.csv": "Id,Price\n7,1\n"}, "KeyError")):
        found = judged("house_price", files, answers, tmp_path)
        assert (found.score, found.valid, found.relative, found.succeeds(0.05)) == (-1.0, False, None, False)
        assert found.fault.startswith(said)


@pytest.mark.parametrize(
    ("text", "score", "success"),
    [
        # Three runs that append: the first line stays, however fast the last one was.
        ("2.742\n2.826\n0.001\n", 2.742, True),
        ("6.0\n0.001\n", 6.0, False),
        ("5.55678\n", 5.55678, False),
        ("0.0000001;whatever\n", 1e-7, True),
        ("fast\n", 1e10, False),
        ("", 1e10, False),
    ],
)
def test_vectorization_believes_the_first_line(text: str, score: float, success: bool, tmp_path: Path) -> None:
    found = judged("vectorization", {"submission.csv": text}, None, tmp_path)
    assert found.score == score and found.succeeds(0.1) == success


def test_feedback_compares_rows_by_position(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    np.savez(hidden / "answers.npz", ids=np.array(["a", "b"]), scores=np.array([[1.0] * 6, [3.0] * 6]))
    head = "text_id,cohesion,syntax,vocabulary,phraseology,grammar,conventions\n"
    right = {"submission.csv": head + "a,1,1,1,1,1,1\nb,3,3,3,3,3,3\n"}
    turned = {"submission.csv": head + "b,3,3,3,3,3,3\na,1,1,1,1,1,1\n"}
    assert judged("feedback", right, hidden, tmp_path).score == 0.0
    found = judged("feedback", turned, hidden, tmp_path)
    assert found.score == 2.0 and found.relative is None and not found.succeeds(0.1)
    folder = tmp_path / "submission"
    held = original_verdict(load_one_case(ROOT, "feedback"), folder, hidden, ProcessSandbox(), baseline=2.7)
    assert held.relative == pytest.approx(0.7 / 2.7) and held.succeeds(0.2) and not held.succeeds(0.3)


def test_parkinsons_compares_rows_by_position(tmp_path: Path) -> None:
    case, hidden = "amp_parkinsons_disease_progression_prediction", tmp_path / "hidden"
    write_files(hidden, {"answer.csv": "prediction_id,rating\nx,10\ny,30\n"})
    head = "visit_month,prediction_id,rating\n"
    turned = judged(case, {"submission.csv": head + "0,y,30\n0,x,10\n"}, hidden, tmp_path)
    assert turned.score == pytest.approx(100 * 20 / 21)
    assert judged(case, {"submission.csv": head + "0,y,10\n0,x,30\n"}, hidden, tmp_path).score == 0.0
    negative = judged(case, {"submission.csv": head + "0,y,-1\n0,x,30\n"}, hidden, tmp_path)
    assert (negative.score, negative.fault) == (-1.0, "ValueError: a rating is negative")


def test_fathomnet_looks_for_the_raw_text_of_a_list_and_draws_the_depth(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    rows = [(f"p{number}", [number % 3 + 1, 7]) for number in range(8)]
    told = {"ids": [it for it, _ in rows], "animals": [it for _, it in rows], "deep": [0] * 8}
    write_files(hidden, {"answers.json": json.dumps(told)})
    head = "id,categories,osd\n"
    documented = head + "".join(f"{name},{one} {two},0.5\n" for name, (one, two) in rows)
    raw = head + "".join(f'{name},"[{one}.0, {two}.0]",0.5\n' for name, (one, two) in rows)
    assert judged("fathomnet", {"submission.csv": documented}, hidden, tmp_path).score == 0.0
    found = judged("fathomnet", {"submission.csv": raw}, hidden, tmp_path)
    assert found.score == 0.5 and found.succeeds(0.3)
    guessed = head + "".join(f"{name},x,{place / 8}\n" for place, (name, _) in enumerate(rows))
    write_files(tmp_path / "submission", {"submission.csv": guessed})
    case = load_one_case(ROOT, "fathomnet")
    drawn = [original_verdict(case, tmp_path / "submission", hidden, ProcessSandbox(), it).score for it in (0, 1, 0)]
    assert drawn[0] == drawn[2] != drawn[1]


def test_contrails_are_the_mean_over_pictures(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    masks = np.zeros((2, 4, 4), dtype=np.uint8)
    masks[0, 1:3, 0] = 1
    np.savez(hidden / "answers.npz", ids=np.array(["s1", "s2"]), masks=masks)
    head = "record_id,encoded_pixels\n"
    nothing = judged("identify_contrails", {"submission.csv": head + "s1,-\ns2,-\n"}, hidden, tmp_path)
    assert nothing.score == pytest.approx(0.5, abs=1e-5)
    right = judged("identify_contrails", {"submission.csv": head + "s2,-\ns1,2 2\n"}, hidden, tmp_path)
    assert right.score == 1.0
    wide = judged("identify_contrails", {"submission.csv": head + "s1,1 4\ns2,-\n"}, hidden, tmp_path)
    assert wide.score == pytest.approx((4 / 6 + 1) / 2, abs=1e-5)


def test_what_belongs_to_no_verdict_is_in_no_digest(tmp_path: Path) -> None:
    before = make_case(tmp_path / "cases")
    (before.folder / "original.py").write_text("BASELINE = 1.0\n")
    after = load_case(before.folder)
    assert (after.digest, after.proof_digest) == (before.digest, before.proof_digest)


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    case = make_case(tmp_path / "cases")
    with pytest.raises(UserError, match=r"has no original\.py"):
        original_verdict(case, tmp_path, None, ProcessSandbox())
    (case.folder / "original.py").write_text("raise SystemExit('broken')\n")
    with pytest.raises(UserError, match="did not answer: broken"):
        original_verdict(case, tmp_path / "cases", None, ProcessSandbox())
    with pytest.raises(UserError, match="is not a folder"):
        original_verdict(case, tmp_path / "none", None, ProcessSandbox())


def test_in_the_sandbox_a_link_of_the_submission_shows_nothing(answers: Path, tmp_path: Path) -> None:
    folder = tmp_path / "handed-in"
    write_files(folder, {"submission.csv": "1.5\n"})
    (tmp_path / "outside.csv").write_text("0.5\n")
    case = load_one_case(ROOT, "vectorization")
    sandbox = choose_sandbox("bubblewrap")
    assert original_verdict(case, folder, None, sandbox).score == 1.5
    (folder / "submission.csv").unlink()
    (folder / "submission.csv").symlink_to(tmp_path / "outside.csv")
    assert original_verdict(case, folder, None, sandbox).score == 1e10


def test_the_command_says_it_for_people_and_programs(answers: Path, tmp_path: Path) -> None:
    write_files(tmp_path / "end", {"submission.csv": "Id,SalePrice\n7,1\n8,1\n9,1\n"})
    asked = ["original", "house_price", str(tmp_path / "end"), "--answers", str(answers), "--sandbox", "process"]
    done = CliRunner().invoke(cases, asked, catch_exceptions=False)
    assert "score 199999, baseline 1e+10" in done.output and "10% yes" in done.output, done.output
    document = json.loads(CliRunner().invoke(cases, [*asked, "--json"]).output)
    assert document["over"] == {"0.05": True, "0.1": True, "0.15": True, "0.2": True, "0.3": True}
    write_files(tmp_path / "end", {"submission.csv": "Id,SalePrice\n"})
    short = CliRunner().invoke(cases, asked)
    assert "no valid score" in short.output
    assert json.loads(CliRunner().invoke(cases, [*asked, "--json"]).output)["score"] is None
