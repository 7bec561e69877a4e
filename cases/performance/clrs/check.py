"""Measures the pointers of submission.csv, and those that train.py learns from graphs with another rule."""

from typing import Any

import numpy as np
from paths import LARGE, SMALL, TEST, TRAIN, asked, draw, draw_rule, files, pairs, renamed, total

from bench.casekit.metrics import accuracy
from bench.casekit.programs import kept_as_given, left_alone
from bench.judge import Given, Numbers, check, drawn, once, run_command, submission

BASELINE, STRONG = 0.601, 0.92
BAR = 1.1 * BASELINE
LEARNT = 0.75  # under another rule trainings of the starter differ by 0.056 around 0.574: three times that above
APART = 0.1  # two trainings of one program, if it leaves something to chance
RUN_S = 60
GIVEN = ("graphs/train.npz", "graphs/test.npz")


@check(weight=10, required=True)
def submission_is_complete(ws: Any) -> None:
    """submission.csv has the two columns, and one pointer for every pair of two nodes."""
    _submitted(ws)


@check(weight=20)
def better_than_the_starter(ws: Any) -> float:
    """Credit for the share of right pointers: from 0 at the starter's 0.601 to 1 at 0.92."""
    return float(ws.scale(_right(ws), floor=BASELINE, target=STRONG))


@check(weight=30, required=True)
def ten_percent_better(ws: Any) -> None:
    """The share of right pointers is more than 10 % above the starter's."""
    assert _right(ws) > BAR, f"{_right(ws):.4f} of the pointers are right, wanted more than {BAR:.4f}"


@check(weight=30, required=True)
def program_learns_another_rule(ws: Any) -> None:
    """train.py, run on other graphs whose best paths follow a rule drawn for this grading, gets more than 0.75."""
    inputs, names, pointers = _another_rule(ws)
    ran = run_command(ws, "python train.py", outputs=["submission.csv"], inputs=inputs, timeout=RUN_S)
    left_alone(ran, inputs)
    share = accuracy(pointers, _pointers(ran, names))
    ws.metric("accuracy_with_another_rule", share)
    assert share > LEARNT, f"{share:.4f} of the pointers are right with another rule, wanted more than {LEARNT:.2f}"


@check(weight=5, required=True)
def submission_is_the_programs(ws: Any) -> None:
    """train.py, run again with the test graphs in another order, is not much worse than submission.csv."""
    submitted, best = _right(ws), 0.0
    for again in (_again, _once_more):
        if submitted - best > APART:
            best = max(best, accuracy(_renamed(ws)[1], _pointers(again(ws), _renamed(ws)[0])))
    assert submitted - best <= APART, f"submission.csv has {submitted:.4f} right, train.py makes one with {best:.4f}"


@check(guard=True)
def graphs_as_given(ws: Any) -> None:
    """graphs/ has no other files than it had, and a run of train.py leaves these as they are."""
    kept_as_given(ws, _others(ws), lambda: _again(ws))


@drawn
def _another_rule(given: Given) -> tuple[dict[str, bytes], list[str], Any]:
    """Files of graphs whose best paths follow another rule, and the pairs asked for with their pointers."""
    rng = given.numpy_rng("another rule")
    rule = draw_rule(rng)
    train, test = draw(rng, TRAIN, SMALL, rule), draw(rng, TEST, LARGE, rule)
    return files(train, test), *pairs(test)


def _once_more(ws: Any) -> Any:
    """train.py on the training graphs that it was given; answers for the given test are of no use there."""
    return run_command(ws, "python train.py", outputs=["submission.csv"], inputs=_others(ws), timeout=RUN_S)


@once
def _again(ws: Any) -> Any:
    return _once_more(ws)


@drawn
def _renamed(given: Given) -> tuple[list[str], Any, bytes]:
    """The test graphs in another order, their nodes, too: the pairs, their pointers, and the file."""
    with np.load(given.original(GIVEN[1])) as graphs:
        test = renamed(given.numpy_rng("another order"), graphs["sizes"], graphs["weights"], total)
    return *pairs(test), asked(test)


def _others(ws: Any) -> dict[str, bytes]:
    return {GIVEN[0]: ws.original(GIVEN[0]).read_bytes(), GIVEN[1]: _renamed(ws)[2]}


def _pointers(folder: Any, names: list[str]) -> Any:
    """The pointer of each of the pairs `names`, in their order."""
    columns = {"pointer": Numbers(low=0, high=LARGE[1] - 1, whole=True)}
    return submission(folder, "submission.csv", ids={"pair": names}, columns=columns)["pointer"]


@once
def _truth(ws: Any) -> dict[str, Any]:
    with np.load(ws.hidden("answers.npz").path) as file:
        return dict(file)


@once
def _submitted(ws: Any) -> Any:
    return _pointers(ws, _truth(ws)["pairs"].tolist())


@once
def _right(ws: Any) -> float:
    share = accuracy(_truth(ws)["pointers"], _submitted(ws))
    ws.metric("accuracy", share)
    return share
