"""Compares the data set with the archive, and measures every checkpoint: its origin, its labels, its metrics."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from notes import assert_batch, assert_epoch, assert_weights, marks, sums
from transformer import SHAPES, class_likes, cosine, cosines, prepared, probabilities

from bench.judge import (
    Labels,
    Workspace,
    array,
    check,
    check_claim,
    holds_only,
    integer,
    mapping,
    once,
    read_checkpoint,
    sequence,
    submission,
)

EPOCHS, BATCH, BAR = 4, 32, 20.0
METRICS, NOTES = "training_metrics.json", "training_notes.json"


@once
def truth(ws: Workspace) -> dict[str, dict[str, str]]:
    """`files`: path in the archive -> SHA-256. `labels`: path -> label at 50 per cent."""
    loaded: dict[str, dict[str, str]] = json.loads(Path(ws.hidden("truth.json")).read_text())
    return loaded


@once
def known(ws: Workspace) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Pictures and labels, the hub's weights, and how pictures are prepared."""
    from safetensors.numpy import load_file

    with np.load(ws.hidden("pictures.npz").path, allow_pickle=False) as arrays:
        pictures = dict(arrays)
    weights = {name: part.astype(float) for name, part in load_file(ws.hidden("model/model.safetensors").path).items()}
    return pictures, weights, json.loads(Path(ws.hidden("model/preprocessor_config.json")).read_text())


@once
def saved(ws: Workspace) -> list[dict[str, Any]]:
    """The weights of each epoch, whose numbers are right."""
    names = [f"checkpoints/epoch_{epoch}.pt" for epoch in range(1, EPOCHS + 1)]
    found = [name for name in ws.files() if name.startswith("checkpoints/")]
    assert found == names, f"in checkpoints/ are {found[:6]}, expected {names}"
    batches, weights = -(-int(known(ws)[0]["train"].sum()) // BATCH), []
    for epoch, name in enumerate(names, 1):
        kept = read_checkpoint(ws, name, max_mb=5)
        numbers = [integer(kept.values.get(key)) for key in ("epoch", "global_step")]
        assert numbers == [epoch, epoch * batches], f"{name}: epoch and global_step are {numbers}"
        parts = kept.below("model_state_dict")
        shapes = {part: value.shape for part, value in parts.items()}
        assert shapes == SHAPES, f"{name}: tensors differ: {sorted(set(shapes.items()) ^ set(SHAPES.items()))[:4]}"
        assert all(str(part.dtype) == "float32" for part in parts.values()), f"{name}: a tensor is not float32"
        weights.append({part: array(value) for part, value in parts.items()})
    return weights


@once
def shares(ws: Workspace) -> tuple[list[Any], Any]:
    """What each checkpoint gives the classes of all pictures, and the last one those of unseen pictures."""
    pictures, _, scaling = known(ws)
    found = [probabilities(weights, pictures["pictures"], scaling) for weights in saved(ws)]
    return found, probabilities(saved(ws)[-1], pictures["unseen"], scaling)


def _losses(given: Any, labels: Any) -> Any:
    return -np.log(np.maximum(given[np.arange(len(given)), labels], 1e-300))


@once
def measured(ws: Workspace) -> list[dict[str, float]]:
    """Losses, and accuracies in per cent, of each checkpoint."""
    pictures, found = known(ws)[0], []
    for given in shares(ws)[0]:
        losses = _losses(given, pictures["labels"])
        right = 100.0 * (given.argmax(axis=1) == pictures["labels"])
        entry: dict[str, float] = {}
        for split, chosen in (("train", pictures["train"]), ("val", ~pictures["train"])):
            entry |= {f"{split}_loss": float(losses[chosen].mean()), f"{split}_acc": float(right[chosen].mean())}
        found.append(entry)
    return found


@check(weight=2, required=True)
def dataset_is_complete(ws: Workspace) -> None:
    """The mirror handed out a whole archive, and all its pictures lie unchanged where they belong, and nothing else."""
    whole = [event for event in ws.journal("mirror") if event.get("complete") is True]
    assert whole, "the mirror never handed out the whole archive"
    wanted = [path for path in truth(ws)["files"] if path.startswith(("train/", "val/"))]
    holds_only(ws, "dataset", wanted, parts=("train", "val"))
    digests = truth(ws)["files"]
    changed = [path for path in wanted if ws.sha256(f"dataset/{path}") != f"sha256:{digests[path]}"]
    assert not changed, f"{len(changed)} pictures are changed, as {changed[0]}"


@check(weight=2, required=True)
def label_table_is_right(ws: Workspace) -> None:
    """The table has each path with its label at 50 per cent."""
    labels, name = truth(ws)["labels"], "dataset/noisy_labels_50.csv"
    told = submission(ws, name, ids={"path": list(labels)}, columns={"label": Labels()})["label"]
    wrong = [path for path, label in zip(labels, told, strict=True) if label != labels[path]]
    assert not wrong, f"{len(wrong)} labels are wrong, as that of {wrong[0]}"


@check(weight=2, required=True)
def model_was_fetched(ws: Workspace) -> None:
    """The hub handed out the weights (its own record)."""
    got = [
        event.get("file") for event in ws.journal("hub") if event.get("event") == "file" and event["method"] == "GET"
    ]
    assert "model.safetensors" in got, f"model.safetensors was never fetched; fetched were {got[:5]}"


def _goes_on(epoch: int, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Every tensor was trained, and is near to what it was.

    Weight decay alone only multiplies: 1 less the cosine is 1e-13 then, and 1e-8 or more where gradients came.
    """
    for name, part in before.items():
        moved = 1 - cosine(after[name], part) > 1e-11 and (after[name] == part).mean() <= 0.5
        assert moved, f"epoch {epoch} has not trained {name}"
    origin = "hub's weights" if epoch == 1 else "weights of the epoch before"
    for name, near in cosines(after, before).items():
        assert near >= 0.5, f"{name}: the cosine with the {origin} is {near:.2f} after epoch {epoch}"


@check(weight=3, required=True)
def four_epochs_are_saved(ws: Workspace) -> None:
    """Four checkpoints with their epochs and steps, each of which was trained from the one before."""
    weights = saved(ws)
    for epoch, (before, after) in enumerate(pairwise(weights), 2):
        _goes_on(epoch, before, after)
    flat = [np.concatenate([one[name].ravel() for name in known(ws)[1]]) for one in (known(ws)[1], *weights)]
    for epoch, (first, second, third) in enumerate(zip(flat, flat[1:], flat[2:], strict=False), 1):
        # 0.92 at most after honest epochs.
        straight = cosine(third - second, second - first)
        assert straight < 0.9999, f"epochs {epoch} and {epoch + 1} lie on one straight line, which no training gives"


@check(weight=3, required=True)
def starts_from_the_hub(ws: Workspace) -> None:
    """The weights after the first epoch are near the hub's, and are not the hub's."""
    hub = known(ws)[1]
    _goes_on(1, hub, saved(ws)[0])


@check(weight=4, required=True)
def steps_are_as_asked(ws: Workspace) -> None:
    """The notes have a step for each batch: every picture once an epoch, its noisy label, the mean cross entropy."""
    pictures, hub, scaling = known(ws)
    rows = np.flatnonzero(pictures["train"])
    batches = -(-len(rows) // BATCH)
    notes = [mapping(it) for it in sequence(ws.json(NOTES, max_mb=4), length=EPOCHS * batches)]
    known_marks = marks(prepared(pictures["pictures"][rows], scaling))
    ends = [{name: sums(part) for name, part in one.items()} for one in (hub, *saved(ws))]
    for epoch in range(EPOCHS):
        told, steps = f"epoch {epoch + 1}", notes[epoch * batches : (epoch + 1) * batches]
        assert_weights(steps[0].get("weights"), ends[epoch], f"{told} begins")
        found = [assert_batch(step, known_marks, pictures["labels"][rows], told) for step in steps]
        assert_epoch(found, len(rows), BATCH, told)
    before = [mapping(it.get("weights")) for it in notes]
    still = [number for number, (one, other) in enumerate(pairwise(before), 1) if one == other]
    assert not still, f"{len(still)} batches, as number {still[0]}, have left all weights as they were"


@check(weight=1, required=True)
def validation_is_only_measured(ws: Workspace) -> None:
    """The last weights know the validation pictures no better than unseen ones."""
    pictures, (found, given) = known(ws)[0], shares(ws)
    known_ones = _losses(found[-1], pictures["labels"])[~pictures["train"]]
    unseen = _losses(given, pictures["unseen_classes"])
    error = (known_ones.var(ddof=1) / len(known_ones) + unseen.var(ddof=1) / len(unseen)) ** 0.5
    t = float((unseen.mean() - known_ones.mean()) / max(error, 1e-9))
    told = f"{known_ones.mean():.2f} on validation and {unseen.mean():.2f} on unseen pictures"
    assert t < 3.5, f"losses are {told} (t {t:.1f})"


@check(weight=2, required=True)
def learned_the_noisy_labels(ws: Workspace) -> None:
    """On unseen pictures the class that half of the wrong labels name leads; no epoch was trained on true labels."""
    pictures, (found, given) = known(ws)[0], shares(ws)
    classes, train = pictures["unseen_classes"], pictures["train"]
    logs = np.log(np.maximum(given, 1e-30))
    likes = class_likes(np.array([logs[classes == label].mean(axis=0) for label in range(10)]))
    named = np.zeros((10, 10), dtype=bool)
    named[range(10), pictures["partners"]] = True
    lead, others = float(likes[named].mean()), likes[~named & ~np.eye(10, dtype=bool)]
    # At most 1.6 after 56 trainings on true labels; 2.7 and more on the noisy ones, also at a fifth of the rate.
    z = lead / max(float(others.std()) / 10**0.5, 1e-9)
    ws.metric("noise_learned", z)
    assert z >= 2.5, f"the noise does not show: mean lead {lead:.2f}, {z:.1f} standard errors"
    for epoch, known_ones in enumerate(found, 1):
        noisy, true = (float(_losses(known_ones, pictures[kind])[train].mean()) for kind in ("labels", "classes"))
        told = f"the loss is {true:.2f} on true labels and {noisy:.2f} on noisy ones"
        assert noisy - true < 1.3, f"epoch {epoch} knows the true labels of the training pictures too well: {told}"


@check(weight=2, required=True)
def accuracy_is_reached(ws: Workspace) -> None:
    """The best epoch on the validation pictures and the last one on unseen ones reach 20 per cent."""
    unseen = 100 * float((shares(ws)[1].argmax(axis=1) == known(ws)[0]["unseen_classes"]).mean())
    best = max(entry["val_acc"] for entry in measured(ws))
    ws.metric("unseen_accuracy", unseen, "%")
    assert min(unseen, best) >= BAR, f"{best:.1f} % of validation and {unseen:.1f} % of unseen pictures are right"


@check(weight=4, required=True)
def metrics_are_true(ws: Workspace) -> None:
    """All four epochs' losses and accuracies, and the best one, are those of the checkpoints."""
    told = mapping(ws.json(METRICS), keys=("epochs", "best_val_acc"))
    for number, (entry, right) in enumerate(zip(sequence(told["epochs"], length=EPOCHS), measured(ws), strict=True), 1):
        assert integer(mapping(entry).get("epoch")) == number, f"entry {number} is of epoch {entry.get('epoch')!r}"
        for name, value in right.items():
            tolerance, higher = (0.3, True) if name.endswith("acc") else (2e-3, False)
            check_claim(ws, f"{name}_{number}", entry.get(name), value, tolerance, higher_is_better=higher)
    check_claim(ws, "best_val_acc", told["best_val_acc"], max(entry["val_acc"] for entry in measured(ws)), 0.3)
