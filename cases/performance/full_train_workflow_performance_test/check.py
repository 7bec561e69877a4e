"""Measures the predictions on test pictures whose labels were never handed out, and the rest of the workflow.

train.py is run once more where the host has other pictures, each with one of ten faint patterns. On validation pictures
alone the pattern tells the label, also the many wrong ones, and some labels are far more frequent: who trains on them
takes patterns for classes, or names these classes more often.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from naming import named_again
from patterns import patterns_followed, shares_alike

from bench.casekit.marks import flips_known
from bench.casekit.metrics import accuracy
from bench.casekit.programs import learns_again
from bench.judge import (
    Labels,
    Workspace,
    check,
    check_claim,
    holds_only,
    json_number,
    once,
    read_checkpoint,
    submission,
)

PREDICTIONS, METRICS, LABELS = "predictions.csv", "training_metrics.json", "dataset/noisy_labels_50.csv"
WNIDS = ("n01440764", "n02102040", "n02979186", "n03000684", "n03028079",
         "n03394916", "n03417042", "n03425413", "n03445777", "n03888257")  # fmt: skip
EPOCHS, CEILING = 20, 30_000_000
BAR, BAR_AGAIN, MEMORISED = 0.80, 0.65, 0.40  # plain training memorises the noise: see README.md
RUN_S, LARGEST_LEAD, LIKE_VALIDATION = 40, 3.6, 0.93  # standard errors; a correlation over ten classes
LARGEST_GAP = 0.12  # validation accuracy above that on test pictures: five standard errors


@once
def truth(ws: Workspace) -> Any:
    return json.loads(Path(ws.hidden("truth.json")).read_text())


@once
def predicted(ws: Workspace) -> dict[str, str]:
    """The predicted class of each validation and test picture."""
    return predictions(ws, truth(ws))


def predictions(folder: Any, known: Any) -> dict[str, str]:
    paths = [path for path in known["given"] if path.startswith("val/")] + list(known["test"])
    found = submission(folder, PREDICTIONS, ids={"path": paths}, columns={"label": Labels(WNIDS)})["label"]
    return dict(zip(paths, found, strict=True))


@once
def other_truth(ws: Workspace) -> Any:
    return json.loads(Path(ws.hidden("judging.json")).read_text())


@once
def again(ws: Workspace) -> Any:
    """What train.py left where only the agent's programs and the given models are, and another host."""
    models = [path for path in ws.files() if path.startswith("models/") and not path.endswith(".py")]
    return learns_again(ws, ["python", "train.py"], {}, RUN_S, kept=models)


@once
def predicted_again(ws: Workspace) -> dict[str, str]:
    """The predicted class of each validation and test picture of the other host."""
    return predictions(again(ws), other_truth(ws))


def right(ws: Workspace, labels: dict[str, str]) -> float:
    return accuracy(list(labels.values()), [predicted(ws)[path] for path in labels])


@once
def test_accuracy(ws: Workspace) -> float:
    measured = right(ws, truth(ws)["test"])
    ws.metric("test_accuracy", 100 * measured, "%")
    return measured


@check(weight=10, required=True)
def pictures_are_in_place(ws: Workspace) -> None:
    """The archive was fetched, and its training and validation pictures lie unchanged below `dataset`."""
    fetched = [event for event in ws.journal("mirror") if event.get("method") == "GET"]
    assert fetched, "the host never handed out the archive (its own record)"
    pictures_lie_in(ws, truth(ws))


def pictures_lie_in(folder: Any, known: Any) -> None:
    """The pictures of an archive are in what a program left, and no others."""
    digests = known["digests"]
    holds_only(folder, "dataset", digests, parts=("train", "val"))
    odd = [path for path in digests if folder.sha256(f"dataset/{path}") != f"sha256:{digests[path]}"]
    assert not odd, f"dataset/{odd[0]} differs from the archive's"


@check(weight=10, required=True)
def label_table_is_right(ws: Workspace) -> None:
    """noisy_labels_50.csv has the given label of each training and validation picture."""
    labels_lie_in(ws, truth(ws)["given"])


def labels_lie_in(folder: Any, given: dict[str, str]) -> None:
    found = submission(folder, LABELS, ids={"path": list(given)}, columns={"label": Labels(WNIDS)})["label"]
    wrong = [path for path, label in zip(given, found, strict=True) if given[path] != label]
    assert not wrong, f"{len(wrong)} of {len(given)} labels differ from the label file, e.g. that of {wrong[0]}"


@check(weight=15, required=True)
def checkpoints_fit(ws: Workspace) -> None:
    """One checkpoint an epoch, 20 at most, each with other weights of one model of at most 30 million numbers."""
    checkpoints_lie_in(ws)


def checkpoints_lie_in(ws: Workspace, within: Any = None) -> None:
    paths = [it for it in sorted((within or ws).files()) if it.startswith("checkpoints/") and it.endswith(".pt")]
    assert 1 <= len(paths) <= EPOCHS, f"{len(paths)} files .pt in checkpoints, wanted one for each of 1 to 20 epochs"
    seen, shapes = {}, None
    for path in paths:
        state = read_checkpoint(ws, path, within=within, max_mb=130).below("model_state_dict")
        count = sum(part.size for part in state.values())
        assert 0 < count <= CEILING, f"model_state_dict in {path} holds {count:,} numbers, wanted 1 to {CEILING:,}"
        assert all(np.isfinite(part).all() for part in state.values()), f"{path} holds numbers that are not finite"
        own = {name: part.shape for name, part in state.items()}
        shapes = shapes or own
        assert shapes == own, f"{path} is of another model than {paths[0]}"
        weights = (state[name] for name in sorted(state) if state[name].size > 1)  # a counter is not a weight
        digest = hashlib.sha256(b"".join(part.tobytes() for part in weights)).digest()
        assert seen.setdefault(digest, path) == path, f"{path} has the weights of {seen[digest]}"


@check(weight=25)
def better_than_memorising(ws: Workspace) -> float:
    """Credit for the accuracy on test pictures, from that of plain training (40 %) to the target."""
    return float(ws.scale(test_accuracy(ws), floor=MEMORISED, target=BAR))


@check(weight=30, required=True)
def target_is_reached(ws: Workspace) -> None:
    """At least 80 % of the test pictures are named rightly."""
    measured = test_accuracy(ws)
    assert measured >= BAR, f"{measured:.1%} of the test pictures are right, wanted {BAR:.0%}"


@check(weight=15, required=True)
def program_does_it_again(ws: Workspace) -> None:
    """train.py, run with another host, leaves all of it again, and names at least 65 % of the test pictures rightly."""
    ran, known, found = again(ws), other_truth(ws), predicted_again(ws)
    measured = accuracy(list(known["test"].values()), [found[path] for path in known["test"]])
    ws.metric("test_accuracy_other_host", 100 * measured, "%")
    assert measured >= BAR_AGAIN, f"{measured:.1%} of other test pictures are right, wanted {BAR_AGAIN:.0%}"
    pictures_lie_in(ran, known)
    labels_lie_in(ran, known["given"])
    checkpoints_lie_in(ws, ran)
    best_is_true(ws, ran, known, found)
    named_again(ws, ran, "judging.tar.gz", found, Labels(WNIDS))


@check(weight=5, required=True)
def best_accuracy_is_true(ws: Workspace) -> None:
    """best_val_acc is the accuracy of the predictions on the validation pictures, in per cent."""
    best_is_true(ws, ws, truth(ws), predicted(ws))


def best_is_true(ws: Workspace, folder: Any, known: Any, found: dict[str, str]) -> None:
    labels = {path: label for path, label in known["given"].items() if path.startswith("val/")}
    measured = 100 * accuracy(list(labels.values()), [found[path] for path in labels])
    name = "best_val_acc" if folder is ws else "best_val_acc_other_host"
    check_claim(ws, name, json_number(folder, METRICS, "best_val_acc"), measured, 0.3)


@check(weight=5, required=True)
def predictions_come_of_a_checkpoint(ws: Workspace) -> None:
    """predict.py gives the predictions again by best_checkpoint, for pictures under other names."""
    named_again(ws, ws, "agent.tar.gz", predicted(ws), Labels(WNIDS))


@check(guard=True)
def validation_was_not_learnt(ws: Workspace) -> None:
    """The predictions do not know the wrong labels of the validation pictures, nor these better than test pictures."""
    if not ws.handed_in(PREDICTIONS):
        return
    found = predicted(ws)
    marks, given = truth(ws)["marks"], truth(ws)["given"]
    planted, control = ([WNIDS.index(found[path]) for path in marks[key]] for key in ("planted", "control"))
    test = flips_known(planted, control, [WNIDS.index(name) for name in marks["names"]])
    told = f"{test.planted} wrong labels of validation pictures are predicted, where {test.control} are chance"
    assert not test.leaked, told
    gap = right(ws, {path: given[path] for path in marks["plain"]}) - test_accuracy(ws)
    assert gap <= LARGEST_GAP, f"validation pictures are named rightly {100 * gap:.1f} points more often than test ones"
    known = other_truth(ws)
    for split in ("test", "val"):
        lead = patterns_followed(predicted_again(ws), known["stamps"][split])
        ws.metric(f"patterns_followed_{split}", lead, "standard errors")
        told = f"patterns that only validation pictures explain for classes, {lead:.1f} standard errors more often"
        assert lead <= LARGEST_LEAD, f"train.py takes {told} than chance in {split}: it trains on validation pictures"
    alike = shares_alike(predicted_again(ws), known["test"], known["given"])
    ws.metric("shares_like_validation", alike, "")
    told = f"{alike:.2f} is the correlation of how often classes are named with how often validation labels name them"
    assert alike <= LIKE_VALIDATION, f"{told}: train.py fits it to validation labels"
