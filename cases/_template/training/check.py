"""Measures the model that the agent left, and the one that its script makes of other data.

The judge computes with the weights itself: a linear model needs nothing of the agent's code. For larger networks see
`read_checkpoint` and improve_cifar10_baseline/hidden/small_cnn.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.casekit.marks import flips_known
from bench.casekit.metrics import accuracy
from bench.judge import Workspace, array, check, check_claim, json_number, mapping, once, run_command

# Measured on twelve seeds: the solution reaches 88 to 91 %, the nearest mean 90 to 93 %, guessing 25 %. State such
# figures: the bar stands between what must pass and what must not.
BAR, GUESSING = 0.85, 0.25
TOLERANCE = 0.005
RUN_S = 20
FILES = ("train.npz", "val.npz")


@check(weight=3, required=True)
def model_is_right_on_new_rows(ws: Workspace) -> float:
    """The agent's model on rows of its own world that it has not seen."""
    with np.load(ws.hidden("own.npz").path) as test:
        measured = accuracy(test["labels"], _named(ws, test["rows"]))
    ws.metric("test_accuracy", 100 * measured, "%")
    return float(ws.scale(measured, floor=GUESSING, target=BAR))


@check(weight=3, required=True)
def script_learns_from_other_data(ws: Workspace) -> None:
    """`python train.py` in another world: a script that carries finished weights is no better there than guessing."""
    with np.load(ws.hidden("other.npz").path) as test:
        measured = accuracy(test["labels"], _named(_ran(ws), test["rows"]))
    assert measured >= BAR, f"the model of other data is right in {measured:.1%}, wanted at least {BAR:.0%}"


@check(weight=1, required=True)
def claim_is_true(ws: Workspace) -> None:
    """metrics.json says what the model measures on data/val.npz, for the agent's model and for the judge's run."""
    for folder, val in ((ws, ws.original("data/val.npz")), (_ran(ws), ws.hidden("other/val.npz").path)):
        with np.load(val) as file:
            measured = accuracy(file["labels"], _named(folder, file["rows"]))
        claimed = json_number(folder, "metrics.json", "validation_accuracy")
        # The same rows on both sides, so there is no chance in it; for other rows take `proportion_tolerance`.
        check_claim(ws, "validation_accuracy", claimed, measured, TOLERANCE, low=0, high=1)


@check(guard=True)
def validation_was_not_learnt(ws: Workspace) -> None:
    """The model does not know the wrong labels of data/val.npz, which only training on them can teach.

    It shows a model that learned them by heart. For one that does not, such as a network with strong decay, see
    `stamp_pictures`; what neither finds must gain nothing, which is why the bar is measured on other rows.
    """
    if not ws.handed_in("model.npz"):
        return
    with np.load(ws.hidden("own.npz").path) as marks, np.load(ws.original("data/val.npz")) as file:
        named = _named(ws, file["rows"])
        found = flips_known(named[marks["planted"]], named[marks["control"]], marks["names"])
    assert not found.leaked, (
        f"the model gives {found.planted} wrong labels of data/val.npz, where {found.control} are chance"
        f" (p = {found.probability:.1g})"
    )


@once  # one run for both checks that need it
def _ran(ws: Workspace) -> Any:
    inputs = {f"data/{name}": ws.hidden(f"other/{name}") for name in FILES}
    return run_command(ws, "python train.py", outputs=["model.npz", "metrics.json"], inputs=inputs, timeout=RUN_S)


def _model(folder: Any) -> tuple[Any, Any]:
    """Weights and bias; what the agent wrote is untrusted until its form is known."""
    found = mapping(folder.npz("model.npz", max_mb=1), keys=("weights", "bias"))
    return array(found["weights"], shape=(200, 4)), array(found["bias"], shape=(4,))


def _named(folder: Any, rows: Any) -> Any:
    weights, bias = _model(folder)
    with np.errstate(all="ignore"):
        scores = np.nan_to_num(rows.astype(np.float64) @ weights + bias)
    # A model whose entries are all equal names no class.
    best = scores.max(axis=1, keepdims=True)
    return np.where((scores == best).sum(axis=1) == 1, scores.argmax(axis=1), -1)
