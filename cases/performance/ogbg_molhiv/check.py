"""Measures the area under the ROC curve of submission.csv, and of train.py on other molecules, against a baseline.

The baseline is a logistic regression on counts of atoms that the judge fits itself: both are measured on the same
molecules, so that the luck of some seventy acting ones is shared.
"""

from typing import Any

import numpy as np
from molecules import TABLES, files, molecules, reordered, world
from plain import baseline

from bench.casekit.metrics import auc
from bench.casekit.programs import left_alone
from bench.judge import Given, Numbers, check, drawn, once, submission

BAR, STRONG = 0.10, 0.15  # above the baseline, as a share of it
SAME = 0.2  # seeds of an honest message-passing network correlate by 0.44 to 0.60, kept scores by 0.0
FRESH, FRESH_TESTS = 6000, 2400
RUN_S = 60
GIVEN = {f"molecules/ogbg_molhiv/{name}.csv.gz" for name in TABLES}


@check(weight=10, required=True)
def submission_is_complete(ws: Any) -> None:
    """submission.csv has the two columns, and one finite score for every test molecule."""
    _submitted(ws)


@check(weight=20)
def better_than_counts(ws: Any) -> float:
    """Credit for the area on the test molecules: from 0 at the baseline to 1 at 15 % above it."""
    area, plain = _area(ws)
    return float(ws.scale(area, floor=plain, target=(1 + STRONG) * plain))


@check(weight=30, required=True)
def ten_percent_better(ws: Any) -> None:
    """The area on the test molecules is more than 10 % above the baseline on the same molecules."""
    area, plain = _area(ws)
    bar = (1 + BAR) * plain
    assert area > bar, f"area {area:.4f}, wanted more than {bar:.4f}, 10 % above the baseline {plain:.4f}"


@check(weight=30, required=True)
def program_learns_on_other_molecules(ws: Any) -> None:
    """train.py, run on molecules of which another group acts, gets more than 10 % above the baseline and keeps them."""
    inputs, acts, plain = _other_molecules(ws)
    ran = ws.run(["python", "train.py"], timeout=RUN_S, inputs=inputs, remove=_left_behind(ws)).ok()
    left_alone(ran, inputs)
    area = auc(acts, _scores(ran, list(range(FRESH - FRESH_TESTS, FRESH))))
    ws.metric("auc_on_other_molecules", area)
    ws.metric("baseline_on_other_molecules", plain)
    bar = (1 + BAR) * plain
    assert area > bar, f"area {area:.4f} on other molecules, wanted more than {bar:.4f}"


@drawn
def _other_molecules(given: Given) -> tuple[dict[str, bytes], Any, float]:
    """Files, which of the molecules asked for act, and the area of the baseline on these."""
    rng = given.numpy_rng("other molecules")
    made = molecules(rng, world(rng), FRESH, FRESH_TESTS, rng)
    inputs, acts = files(made, FRESH_TESTS, rng), made.acts[-FRESH_TESTS:]
    return inputs, acts, auc(acts, baseline(made, FRESH - FRESH_TESTS)[-FRESH_TESTS:])


@check(weight=10, required=True)
def submission_is_the_programs(ws: Any) -> None:
    """train.py, run once more on the molecules it was given, ranks them alike, but for the luck of a draw."""
    ran, _, number = _again(ws)
    again, submitted = _scores(ran.ok(), number[_truth(ws)["graphs"]].tolist()), _submitted(ws)
    assert submitted.std() > 0 and again.std() > 0, "all scores are equal"
    alike = float(np.corrcoef(_ranks(again), _ranks(submitted))[0, 1])
    assert alike >= SAME, f"the ranks of train.py's scores correlate with submission.csv's by {alike:.2f}, not {SAME}"


@check(guard=True)
def molecules_as_given(ws: Any) -> None:
    """molecules/ has no other files than it had, and a run of train.py leaves these as they are."""
    more = [path for path in ws.files() if path.startswith("molecules/") and path not in GIVEN]
    assert not more, f"molecules/ must stay as it is, {more[0][:80]} is new"
    ran, inputs, _ = _again(ws)
    left_alone(ran, inputs)


@drawn
def _renumbered(given: Given) -> tuple[dict[str, bytes], Any]:
    """The files that the program was given, with other numbers of the molecules, and these numbers.

    A program cannot answer there with a list of what another one found.
    """
    return reordered({path: given.original(path).read_bytes() for path in GIVEN}, given.numpy_rng("order"))


@once
def _again(ws: Any) -> tuple[Any, dict[str, bytes], Any]:
    """train.py, run on the molecules that it was given, its inputs, and the numbers that the molecules have there."""
    inputs, number = _renumbered(ws)
    return ws.run(["python", "train.py"], timeout=RUN_S, inputs=inputs, remove=_left_behind(ws)), inputs, number


def _left_behind(ws: Any) -> list[str]:
    """What is neither a program nor given: a model that was fitted before, or what was found before."""
    return [path for path in ws.files() if not path.endswith(".py") and path not in GIVEN]


def _ranks(scores: Any) -> Any:
    """The rank of each score; equal ones share the mean of theirs."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


def _scores(folder: Any, graphs: list[int]) -> Any:
    """The score of each of `graphs`, in their order."""
    return submission(folder, "submission.csv", ids={"graph": graphs}, columns={"score": Numbers()})["score"]


@once
def _truth(ws: Any) -> dict[str, Any]:
    with np.load(ws.hidden("answers.npz").path) as file:
        return dict(file)


@once
def _submitted(ws: Any) -> Any:
    return _scores(ws, _truth(ws)["graphs"].tolist())


@once
def _area(ws: Any) -> tuple[float, float]:
    """The submission's area, and the baseline's on the same molecules."""
    area, plain = auc(_truth(ws)["acts"], _submitted(ws)), float(_truth(ws)["plain"][0])
    ws.metric("auc", area)
    ws.metric("baseline", plain)
    return area, plain
