"""Measures the accuracy of submission.csv, and of train.py on another ship, against a baseline on the same passengers.

The second is what a submission alone cannot show: that train.py is where the answers come from, and that it learns them
from the data it is given. The baseline is a logistic regression on the starter's columns that the judge fits itself:
both are measured on the same rows, so that their luck is shared.
"""

import re
from typing import Any

import numpy as np
from plain import baseline
from ship import other_ship, passengers

from bench.casekit.programs import left_alone
from bench.casekit.tables import to_csv
from bench.judge import Labels, check, once, run_command, submission

BAR, STRONG = 0.05, 0.10  # above the baseline, as a share of it; the best known answer is 12 % above
SAME = 0.92  # two unseeded forests agree on 96 % of the passengers, a forest and a regression on 90 %
SEEDED = 0.97  # unlike models agree on 95 % at most; the order of sums, on another machine, turns hardly any answer
KEPT = 0.25  # of the answers, where every label is turned round: a learner keeps hardly any, a table all
FRESH_TRAIN, FRESH_TEST = 6000, 6000
RUN_S = 60


@check(weight=10, required=True)
def submission_is_complete(ws: Any) -> None:
    """submission.csv has the two columns, and True or False once for every passenger of test.csv."""
    _submitted(ws)


@check(weight=20)
def better_than_the_baseline(ws: Any) -> float:
    """Credit for the accuracy on the test passengers: from 0 at the baseline to 1 at 10 % above it."""
    accuracy, plain = _accuracy(ws)
    return float(ws.scale(accuracy, floor=plain, target=(1 + STRONG) * plain))


@check(weight=30, required=True)
def five_percent_better(ws: Any) -> None:
    """The accuracy on the test passengers is more than 5 % above the baseline on the same passengers."""
    accuracy, plain = _accuracy(ws)
    bar = (1 + BAR) * plain
    assert accuracy > bar, f"accuracy {accuracy:.4f}, wanted more than {bar:.4f}, 5 % above the baseline {plain:.4f}"


@check(weight=30, required=True)
def program_learns_on_another_ship(ws: Any) -> None:
    """train.py, run on the passengers of a ship with other causes, gets more than 5 % above the baseline there."""
    rng = ws.numpy_rng("another ship")
    ship, first = other_ship(rng), int(rng.integers(10_000, 80_000))
    table, transported, _ = passengers(rng, FRESH_TRAIN + FRESH_TEST, first, ship)
    order = rng.permutation(FRESH_TEST) + FRESH_TRAIN  # the rows are not in the order of their ids
    train = {name: values[:FRESH_TRAIN] for name, values in table.items()}
    test = {name: values[order] for name, values in table.items()}
    inputs = {"train.csv": to_csv(train | {"Transported": transported[:FRESH_TRAIN]}), "test.csv": to_csv(test)}
    ran = run_command(ws, "python train.py", outputs=["submission.csv"], inputs=inputs, timeout=RUN_S)
    left_alone(ran, inputs)
    truth = transported[order]
    accuracy = float((_answers(ran, test["PassengerId"].tolist()) == truth).mean())
    plain = float((baseline(train, transported[:FRESH_TRAIN], test) == truth).mean())
    ws.metric("accuracy_on_another_ship", accuracy)
    ws.metric("baseline_on_another_ship", plain)
    bar = (1 + BAR) * plain
    assert accuracy > bar, f"accuracy {accuracy:.4f} on another ship, wanted more than {bar:.4f}"


@check(weight=10, required=True)
def submission_is_the_programs(ws: Any) -> None:
    """train.py gives the same answers again, but for the luck of a draw; the other ones where the labels are turned."""
    once_more, submitted = _again(ws), _submitted(ws)
    agree, least = float((once_more == submitted).mean()), SAME
    if SAME <= agree < SEEDED and (_again(ws) == once_more).all():  # nothing is left to chance
        least = SEEDED
    assert agree >= least, f"train.py gives {agree:.1%} of the answers of submission.csv again, wanted {least:.0%}"
    # Answers that it only kept come whatever train.csv says; another ship cannot show them.
    kept = float((_again(ws, turned=True) == submitted).mean())
    assert kept <= KEPT, f"train.py keeps {kept:.1%} of its answers where Transported is turned round in train.csv"


def _again(ws: Any, *, turned: bool = False) -> Any:
    """What train.py, run on the files it was given, says of the test passengers. turned: with the other labels."""
    given = {name: ws.bytes(name) for name in ("train.csv", "test.csv")}
    if turned:
        other = {b"True": b"False", b"False": b"True"}
        given["train.csv"] = re.sub(rb"(?m)(True|False)$", lambda label: other[label[1]], given["train.csv"])
    # A submission that lies there is no reason to write none, nor is it to be written where the program once lay.
    elsewhere = "cp -R . /tmp/ship && (cd /tmp/ship && python train.py) && cp -Rf /tmp/ship/. ."
    stale = {"submission.csv": "PassengerId,Transported\n0,True\n"}
    ran = ws.run(["sh", "-c", elsewhere], timeout=RUN_S, inputs=given | stale).ok()
    left_alone(ran, given)
    written = ran.text("submission.csv") != stale["submission.csv"]
    assert written, "`python train.py` does not write submission.csv where one lies already"
    return _answers(ran, _truth(ws)["ids"].tolist())


def _answers(folder: Any, ids: list[str]) -> Any:
    """What was said of each of `ids`, in their order."""
    columns = {"Transported": Labels(("True", "False"))}
    said = submission(folder, "submission.csv", ids={"PassengerId": ids}, columns=columns)["Transported"]
    return np.array(said) == "True"


@once
def _truth(ws: Any) -> dict[str, Any]:
    with np.load(ws.hidden("answers.npz").path) as file:
        return dict(file)


@once
def _submitted(ws: Any) -> Any:
    return _answers(ws, _truth(ws)["ids"].tolist())


def _accuracy(ws: Any) -> tuple[float, float]:
    """The submission's accuracy, and the baseline's on the same passengers."""
    truth = _truth(ws)
    accuracy, plain = (float((said == truth["transported"]).mean()) for said in (_submitted(ws), truth["plain"]))
    ws.metric("accuracy", accuracy)
    ws.metric("baseline", plain)
    return accuracy, plain
