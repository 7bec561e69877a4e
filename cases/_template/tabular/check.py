"""Measures submission.csv, and what predict.py makes of other tables, by the area under the ROC curve.

The second is what a submission alone cannot show: that the program is where the predictions come from, and that it
learns them from the data it is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.casekit.metrics import auc
from bench.judge import Numbers, Workspace, check, once, run_command, submission

# Measured on twelve seeds in both worlds: the solution reaches 0.86 to 0.94, a constant 0.5, and weights of the other
# world up to 0.67. State such figures: the bar stands between what must pass and what must not.
BAR, CHANCE, STRONG = 0.75, 0.50, 0.80
RUN_S = 20


@check(weight=1, required=True)
def submission_is_complete(ws: Workspace) -> None:
    """submission.csv has the two columns, and a number from 0 to 1 for every customer of test.csv."""
    _area(ws, ws, "own.npz")


@check(weight=3, required=True)
def predictions_are_good(ws: Workspace) -> float:
    """The area under the ROC curve on the agent's own test.csv reaches the bar; credit grows from 0.5 to 0.8."""
    area = _area(ws, ws, "own.npz")
    ws.metric("auc", area)
    assert area >= BAR, f"the area is {area:.3f}, wanted at least {BAR}"
    return float(ws.scale(area, floor=CHANCE, target=STRONG))


@check(weight=3, required=True)
def program_learns_from_other_tables(ws: Workspace) -> None:
    """`python predict.py` in another world reaches the same bar, as only a program that learns there can."""
    area = _area(ws, _ran(ws), "other.npz")
    assert area >= BAR, f"the area on other customers is {area:.3f}, wanted at least {BAR}"


@once
def _ran(ws: Workspace) -> Any:
    inputs = {name: ws.hidden(f"other/{name}") for name in ("train.csv", "test.csv")}
    return run_command(ws, "python predict.py", outputs=["submission.csv"], inputs=inputs, timeout=RUN_S)


def _area(ws: Workspace, folder: Any, truth: str) -> float:
    """`submission` joins on the ids, and refuses missing, doubled and unknown ones and numbers out of bounds."""
    with np.load(ws.hidden(truth).path) as file:
        ids, again = file["ids"].tolist(), file["again"]
    found = submission(folder, "submission.csv", ids={"id": ids}, columns={"again": Numbers(low=0, high=1)})
    return auc(again, found["again"])
