"""Measures MCRMSE of submission.csv, and of train.py on essays that other graders scored.

The second is what a submission alone cannot show: that train.py is where the scores come from, and that it learns them
from the essays it is given. Both bars are relative to the mean of the known scores, measured on the same essays.
"""

import csv
from typing import Any

import numpy as np
from essays import SCORES, essays, graded, new_ids, other_graders, table

from bench.casekit.metrics import mae, rmse
from bench.casekit.tables import to_csv
from bench.judge import Numbers, Workspace, check, once, run_command, submission

BAR, TARGET = 0.9, 0.73  # of the error of the mean
SAME = 0.1  # points: two unseeded forests of 60 trees are 0.06 apart, unlike models 0.2
ROUNDING = 0.02  # points, as another number of threads may give
LUCK = 2  # times what two runs are apart, since a draw may be an unusual one
PARTS, PART_BAR = 4, 0.95  # a part of 200 rows varies by 0.02 of the error of the mean
# A score of which a model of small words sees nothing: 0.98 to 1.01 of the mean's error, deviation 0.017. What
# is gained by exchanging two scores back, of the mean's error: honest models 0.03 at most, the solution exchanged 0.57.
SCORE_BAR, EXCHANGED = 1.1, 0.1
FRESH_TRAIN, FRESH_TEST = 1200, 797  # a short batch is left, whatever the size of the others
TWICE = 100  # essays that stand at both ends of test.csv
MET = slice(300, 400)  # rows of test.csv that are of the first test.csv, too
RUN_S = 60
BEST_AND_WORST = 1 + 5
GIVEN = ("train.csv", "test.csv", "sample_submission.csv")


@check(weight=10, required=True)
def submission_is_complete(ws: Workspace) -> None:
    """submission.csv has the text_id and six finite scores of every test essay, once."""
    _submitted(ws)


@check(weight=20)
def close_to_the_scores(ws: Workspace) -> float:
    """Credit for MCRMSE on the test essays: from 0 at the mean of the known scores to 1 at 73 % of its error."""
    error, constant = _test_error(ws)
    return ws.scale(error, floor=constant, target=TARGET * constant)


@check(weight=30, required=True)
def ten_percent_better(ws: Workspace) -> None:
    """MCRMSE on the test essays is more than 10 % below that of the mean of the known scores."""
    error, constant = _test_error(ws)
    assert error < BAR * constant, f"MCRMSE {error:.4f}, wanted less than {BAR * constant:.4f}"


@check(weight=30, required=True)
def program_works_on_other_essays(ws: Workspace) -> None:
    """train.py, run on other essays of other graders, leaves them as they are, and is more than 10 % better, too.

    It has to beat the mean on each quarter of the rows: what stops after 400 of them is good enough on average.
    """
    rng = ws.numpy_rng("other essays")
    graders = other_graders(rng)
    texts, abilities, _ = essays(rng, FRESH_TRAIN + FRESH_TEST, graders)
    again = rng.permutation(TWICE)  # beside other rows than before
    texts[-TWICE:], abilities[-TWICE:] = [texts[FRESH_TRAIN + row] for row in again], abilities[FRESH_TRAIN + again]
    met = slice(FRESH_TRAIN + MET.start, FRESH_TRAIN + MET.stop)
    texts[met], abilities[met] = _given_texts(ws)[MET], _given_abilities(ws)[MET]
    # Their best score is 1: what was learnt from the first essays is worse than the mean here.
    ids, scores = new_ids(rng, len(texts)), BEST_AND_WORST - graded(rng, abilities, graders)
    inputs = {
        "train.csv": to_csv(table(ids[:FRESH_TRAIN], texts[:FRESH_TRAIN], scores[:FRESH_TRAIN])),
        "test.csv": to_csv(table(ids[FRESH_TRAIN:], texts[FRESH_TRAIN:])),
    }
    # The same tables, but not the bytes that a program writes which saves them again.
    inputs = {name: text.replace("text_id", '"text_id"', 1) for name, text in inputs.items()}
    ran = run_command(ws, "python train.py", outputs=["submission.csv"], inputs=inputs, timeout=RUN_S)
    _only_read(ws, ran, inputs)
    truth, predicted, means = scores[FRESH_TRAIN:], _scores(ran, ids[FRESH_TRAIN:]), scores[:FRESH_TRAIN].mean(axis=0)
    error, constant = mcrmse(truth, predicted), _of_constant(truth, means)
    ws.metric("relative_error_other_essays", 100 * error / constant, "% of the mean's")
    one, most = mcrmse(truth[MET], predicted[MET]), _of_constant(truth[MET], means)
    assert one <= most, f"MCRMSE {one:.4f} on essays of the first test.csv, scored anew; the mean has {most:.4f}"
    assert error < BAR * constant, f"MCRMSE {error:.4f} on other essays, wanted less than {BAR * constant:.4f}"
    _assert_each_its_own(truth, predicted, means)
    apart = float(np.abs(predicted[again] - predicted[-TWICE:]).max())
    assert apart <= SAME, f"the same text gets a score {apart:.3f} points apart, wanted at most {SAME}"
    for rows in np.array_split(np.arange(FRESH_TEST), PARTS):
        part, most = mcrmse(truth[rows], predicted[rows]), PART_BAR * _of_constant(truth[rows], means)
        assert part < most, f"MCRMSE {part:.4f} on rows {rows[0]} to {rows[-1]}, wanted less than {most:.4f}"


def _assert_each_its_own(truth: Any, predicted: Any, means: Any) -> None:
    """AssertionError where a score is far worse than its mean, or told better by the column of another one."""
    error = np.array([
        [rmse(one, other) / _of_constant(one[:, None], mean) for other in predicted.T]
        for one, mean in zip(truth.T, means, strict=True)
    ])  # fmt: skip
    own = np.diag(error)
    for at, name in enumerate(SCORES):
        assert own[at] <= SCORE_BAR, f"{name}: {own[at]:.2f} times the error of the mean on other essays"
    gained = own[:, None] + own - error - error.T
    one, other = np.unravel_index(gained.argmax(), gained.shape)
    told = f"{SCORES[one]} and {SCORES[other]} are nearer to the scores of each other than to their own"
    assert gained[one, other] <= EXCHANGED, told


@check(weight=5, required=True)
def submission_is_the_programs(ws: Workspace) -> None:
    """train.py, run once more on the essays it was given, writes the same scores, but for the luck of a draw.

    How much luck there is, two runs tell: a program that leaves nothing to chance made just this submission.
    """
    submitted = _submitted(ws)
    first = _on_given_essays(ws, 1)
    apart = mae(submitted.ravel(), first.ravel())
    if apart <= ROUNDING:
        return
    luck = mae(first.ravel(), _on_given_essays(ws, 2).ravel())
    most = min(SAME, LUCK * luck + ROUNDING)
    assert apart <= most, f"submission.csv is {apart:.3f} points off what train.py writes, wanted at most {most:.3f}"


def _on_given_essays(ws: Workspace, number: int) -> Any:
    """The scores that train.py gives the test essays, under new ids, by which no table of scores is found."""
    before = _answers(ws)[0]
    ids = new_ids(ws.numpy_rng(f"ids of run {number}"), len(before))
    test = ws.original("test.csv").read_text(encoding="utf-8")
    for old, new in zip(before, ids, strict=True):
        test = test.replace(old, new)
    ran = run_command(ws, "python train.py", outputs=["submission.csv"], inputs={"test.csv": test}, timeout=RUN_S)
    _only_read(ws, ran, {"test.csv": test})
    return _scores(ran, ids)


def _only_read(ws: Workspace, ran: Any, inputs: dict[str, str]) -> None:
    for name in GIVEN:
        before = inputs[name].encode() if name in inputs else ws.original(name).read_bytes()
        same = ran.exists(name) and ran.bytes(name) == before
        assert same, f"train.py changes {name}, which must stay as it is"


def mcrmse(truth: Any, predicted: Any) -> float:
    """Mean over the six columns of the root mean squared error, in points. Both are N x 6."""
    return float(np.mean([rmse(*pair) for pair in zip(truth.T, predicted.T, strict=True)]))


def _of_constant(truth: Any, means: Any) -> float:
    return mcrmse(truth, np.tile(means, (len(truth), 1)))


def _scores(folder: Any, ids: list[str]) -> Any:
    """The six scores of each of `ids`, N x 6, in their order."""
    columns = dict.fromkeys(SCORES, Numbers(low=-1000, high=1000))
    found = submission(folder, "submission.csv", ids={"text_id": ids}, columns=columns)
    return np.stack([found[name] for name in SCORES], axis=1)


@once
def _answers(ws: Workspace) -> tuple[list[str], Any, Any]:
    """Ids and scores of the test essays, and the six means of the known scores."""
    with np.load(ws.hidden("answers.npz").path) as file:
        return file["ids"].tolist(), file["scores"], file["means"]


def _given_texts(ws: Workspace) -> list[str]:
    with ws.original("test.csv").open(encoding="utf-8", newline="") as file:
        return [row["full_text"] for row in csv.DictReader(file)]


def _given_abilities(ws: Workspace) -> Any:
    with np.load(ws.hidden("answers.npz").path) as file:
        return file["abilities"]


@once
def _submitted(ws: Workspace) -> Any:
    return _scores(ws, _answers(ws)[0])


@once
def _test_error(ws: Workspace) -> tuple[float, float]:
    """Of the submission, and of the mean of the known scores."""
    _, truth, means = _answers(ws)
    error, constant = mcrmse(truth, _submitted(ws)), _of_constant(truth, means)
    ws.metric("mcrmse", error, "points")
    ws.metric("mcrmse_of_the_mean", constant, "points")
    return error, constant
