"""Measures submission.csv, and train.py on pictures of other classes that only the judge's cifar.py hands out.

The second is what a submission cannot show: that at most ten passes over the training pictures are enough for it.
"""

import io
from typing import Any

import numpy as np
from waves import CLASSES, DIRECTIONS, balanced, paint

from bench.casekit import labels_counted, pictures_met
from bench.casekit.metrics import accuracy
from bench.casekit.programs import learns_again
from bench.judge import Given, Numbers, check, drawn, json_number, mapping, once, sequence, string, submission

BASELINE, TARGET = 0.58, 0.90
BAR = 1.25 * BASELINE  # trainings of the starter differ by a standard deviation of 10 %
LEARNT = 0.82  # in 20 other worlds the starter reached 0.39 to 0.77, with a standard deviation of 0.10
MOST_EPOCHS, TRAIN, TEST, DECOYS = 10, 3000, 1500, 600
APART = 0.15  # two trainings of one program are up to 0.1 apart in the middle of the scale
SUM_OFF, RUN_S = 1e-3, 60


@check(weight=10, required=True)
def submission_is_complete(ws: Any) -> None:
    """submission.csv has ten probabilities for every test picture, and they sum to 1."""
    _submitted(ws)


@check(weight=25)
def close_to_the_best(ws: Any) -> float:
    """Credit for the accuracy of the submission, from the starter's to the best known."""
    return float(ws.scale(_accuracy(ws), floor=BASELINE, target=TARGET))


@check(weight=25, required=True)
def a_quarter_better(ws: Any) -> None:
    """The accuracy of the submission is more than 25 % above the starter's."""
    assert _accuracy(ws) > BAR, f"accuracy {_accuracy(ws):.3f}, wanted more than {BAR:.3f}"


@check(weight=30, required=True)
def program_learns_in_ten_epochs(ws: Any) -> None:
    """train.py gets over 0.82 on other pictures, with at most ten passes, counted by the judge, and none kept."""
    ran, reached = _rerun(ws)
    epochs = len(ran.text("epochs.log", 1).splitlines()) if ran.exists("epochs.log") else 0
    ws.metric("epochs", epochs, "passes")
    assert 1 <= epochs <= MOST_EPOCHS, f"train.py began {epochs} passes over the training pictures, wanted 1 to 10"
    trained, averaged = json_number(ran, "labels.json", "labels"), json_number(ran, "met.json", "averaged")
    for name, met in (("the training went through", trained), ("an average was renewed by", averaged)):
        ws.metric(name.replace(" ", "_"), met, "pictures")
        told = f"{name} {met:,.0f} pictures, wanted at most {MOST_EPOCHS * TRAIN:,}: each once in a pass"
        assert met <= MOST_EPOCHS * TRAIN, told
    opened = sequence(mapping(ran.json("met.json")).get("opened"))
    assert not opened, f"train.py opens {string(opened[0])[-60:]}, wanted pictures of cifar.py alone"
    assert ran.json("processes.json") is False, "train.py starts other processes: training there is not counted"
    assert reached > LEARNT, f"accuracy {reached:.3f} on other pictures, wanted more than {LEARNT:.2f}"


@check(weight=5, required=True)
def submission_is_the_programs(ws: Any) -> None:
    """submission.csv is not much better than what train.py reaches where the judge runs it."""
    ahead = _accuracy(ws) - _rerun(ws)[1]
    assert ahead <= APART, f"submission.csv is {ahead:.3f} more accurate than train.py on other pictures"


def _probabilities(folder: Any, count: int) -> Any:
    """N x 10, in the order of the examples."""
    columns = {str(name): Numbers(low=0, high=1) for name in range(CLASSES)}
    found = submission(folder, "submission.csv", ids={"": range(count)}, columns=columns)
    table = np.stack([found[name] for name in columns], axis=1)
    off = np.abs(table.sum(axis=1) - 1)
    assert off.max() <= SUM_OFF, f"the probabilities of example {off.argmax()} sum to {table[off.argmax()].sum():.4f}"
    return table


@once
def _submitted(ws: Any) -> Any:
    return _probabilities(ws, len(_labels(ws)))


@once
def _labels(ws: Any) -> Any:
    with np.load(ws.hidden("answers.npz").path) as file:
        return file["labels"]


@once
def _accuracy(ws: Any) -> float:
    reached = accuracy(_labels(ws), _submitted(ws).argmax(axis=1))
    ws.metric("accuracy", reached)
    return reached


@drawn
def _another_world(given: Given) -> tuple[dict[str, bytes], Any]:
    """Files of pictures whose directions are turned and whose classes are numbered anew, and the classes asked for."""
    rng = given.numpy_rng("another world")
    code, turn = rng.permutation(CLASSES), rng.uniform(0.3, 0.7) * np.pi / DIRECTIONS
    labels, asked = balanced(rng, TRAIN), balanced(rng, TEST)
    file = io.BytesIO()
    np.savez(file, pictures=paint(rng, labels, turn), labels=code[labels], test=paint(rng, asked, turn))
    files = {"pictures.npz": file.getvalue()}
    decoys = paint(rng, balanced(rng, DECOYS)).reshape(DECOYS, -1)
    for number in range(1, 6):  # for programs that look for them: labels that pictures have nothing to do with
        rows = np.column_stack([balanced(rng, DECOYS).astype(np.uint8), decoys])
        files[f"data/cifar-10-batches-bin/data_batch_{number}.bin"] = rows.tobytes()
    return files, code[asked]


@once
def _rerun(ws: Any) -> tuple[Any, float]:
    """What train.py leaves where the pictures are of another world, and its accuracy there.

    Only Python files are left of the workspace, and the batch files have wrong labels. Neither stored answers nor
    stored weights fit.
    """
    files, answers = _another_world(ws)
    inputs = {"cifar.py": ws.hidden("judges_cifar.py"), **files}
    inputs |= {"labels_counted.py": labels_counted.source(), "pictures_met.py": pictures_met.source()}
    ran = learns_again(ws, ["python", "train.py"], inputs, RUN_S)
    reached = accuracy(answers, _probabilities(ran, TEST).argmax(axis=1))
    ws.metric("accuracy_new_pictures", reached)
    return ran, reached
