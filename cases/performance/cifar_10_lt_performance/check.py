"""Runs the agent's model on test pictures whose labels were never handed out, and measures its balanced accuracy."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from grating import mark

from bench.casekit.membership import assert_given_again, assert_named_alike_alone, better_known, mixed, slightly_changed
from bench.casekit.metrics import balanced_accuracy
from bench.casekit.tensors import unlike
from bench.judge import Workspace, array, check, check_claim, json_number, mapping, once, read_checkpoint

METRICS, CLASSES, TAIL, CEILING = "training_metrics.json", 10, 3, 30_000_000
TAIL_GAIN = 5.0  # points of recall over the plain baseline in the three rarest classes
LARGEST_GAP = 18.0  # points between validation and test accuracy; four standard errors of the former
LARGEST_PREFERENCE = 4.0  # standard errors; an honest model is above in about 2 of 10,000 gradings
SOME, ROUNDING = 50, 1e-3  # pictures; of scores
COPIES, ALONE = 1000, 100  # test pictures
PROBES, LARGEST_RISE = 400, 0.25  # honest models reach 0.09, with a fifth of the validation pictures 0.42
LEAST_APART = 0.04  # honest models name the marked pictures otherwise, which is 0.2 of all
LARGEST_LEAD, LARGEST_OF_BOTH, LARGEST_OF_RAREST = 5.0, 4.0, 3.6  # standard errors; see README.md


@once
def facts(ws: Workspace) -> dict[str, float]:
    """Balanced accuracy and tail recall of the baseline, and the target, in per cent."""
    return dict(json.loads(Path(ws.hidden("facts.json")).read_text()))


@once
def pictures(ws: Workspace) -> dict[str, Any]:
    with np.load(ws.hidden("test.npz")) as test, np.load(ws.original("data/val.npz")) as val:
        return dict(test) | {"val_images": val["images"], "val_labels": val["labels"]}


@once
def answered(ws: Workspace) -> dict[str, Any]:
    """The model's scores, and its tensors as it shows them."""
    given, rng = pictures(ws), ws.numpy_rng("changed pictures")
    marked = mark(ws.numpy_rng("marks"), given["images"][:PROBES])
    copies = [slightly_changed(rng, part) for part in (given["val_images"], given["images"][:COPIES])]
    asked, by_part = mixed(rng, given["val_images"], given["images"], marked, *copies)
    found = mapping(ws.drive("driver.py:answers", asked))
    assert "scores" in found, f"get_best_model gives {str(found.get('kind'))[:60]}, wanted a torch.nn.Module"
    assert found["training"] is False, "get_best_model gives a model in training mode, wanted evaluation mode"
    scores = by_part(array(found["scores"], shape=(len(asked), CLASSES)))
    assert found["one"] == [1, CLASSES], f"of one picture the model makes an array {str(found['one'])[:40]}"
    flat = scores[1].min() >= 0 and np.allclose(scores[1].sum(axis=1), 1, atol=1e-3)
    assert not flat, "the model gives probabilities, wanted scores (logits)"
    return {**found, **dict(zip(("val", "test", "marked", "val_copies", "test_copies"), scores, strict=True))}


@once
def recalls(ws: Workspace) -> list[float]:
    """The share of each class's test pictures that are named rightly, in per cent."""
    named, labels = answered(ws)["test"].argmax(axis=1), pictures(ws)["labels"]
    return [100 * float((named[labels == label] == label).mean()) for label in range(CLASSES)]


@once
def earned(ws: Workspace) -> list[float]:
    """The recalls; AssertionError where the model names a picture by the rest of its batch, or by earlier ones."""
    rows = ws.numpy_rng("alone").permutation(len(answered(ws)["test"]))[:ALONE]
    alone = array(ws.drive("driver.py:alone", pictures(ws)["images"][rows]), shape=(ALONE, CLASSES))
    assert_named_alike_alone(answered(ws)["test"][rows], alone)
    assert_given_again(*(array(answered(ws)[part], finite=False) for part in ("scores", "again")))
    found = recalls(ws)
    ws.metric("balanced_accuracy", float(np.mean(found)), "%")
    ws.metric("gain", float(np.mean(found)) - facts(ws)["baseline"], "points")
    ws.metric("tail_recall", float(np.mean(found[-TAIL:])), "%")
    return found


@check(weight=15, required=True)
def model_is_a_checkpoint(ws: Workspace) -> None:
    """get_best_model gives a model of at most 30 million numbers, all of which are in one file of `checkpoints`."""
    tensors = mapping(answered(ws)["tensors"])
    paths = sorted(path for path in ws.files() if path.startswith("checkpoints/") and path.endswith((".pt", ".ckpt")))
    assert paths, "there is no file .pt or .ckpt in checkpoints"
    off = []
    for path in paths:
        state = read_checkpoint(ws, path, max_mb=130).below("model_state_dict")
        count = sum(part.size for part in state.values())
        assert 0 < count <= CEILING, f"model_state_dict in {path} holds {count:,} numbers, wanted 1 to {CEILING:,}"
        off.append(unlike(state, tensors))
    assert not all(off), f"no checkpoint has the model's weights; nearest differs in {min(off, key=len)[:3]}"
    earned(ws)


@check(weight=20)
def above_the_baseline(ws: Workspace) -> float:
    """Credit for balanced accuracy on test pictures, from the plain baseline's to the target."""
    return float(ws.scale(float(np.mean(earned(ws))), floor=facts(ws)["baseline"], target=facts(ws)["target"]))


@check(weight=20)
def tail_is_better(ws: Workspace) -> None:
    """The three rarest classes are recognised at least 5 points more often than by the plain baseline."""
    tail, wanted = float(np.mean(earned(ws)[-TAIL:])), facts(ws)["tail"] + TAIL_GAIN
    assert tail >= wanted, f"recall of the three rarest classes is {tail:.1f} %, wanted {wanted:.1f} %"


@check(weight=30, required=True)
def target_is_reached(ws: Workspace) -> None:
    """Balanced accuracy on test pictures reaches the target."""
    measured, wanted = float(np.mean(earned(ws))), facts(ws)["target"]
    assert measured >= wanted, f"balanced accuracy is {measured:.1f} % on test pictures, wanted {wanted:.1f} %"


@check(weight=10, required=True)
def metrics_are_true(ws: Workspace) -> None:
    """training_metrics.json has the loss and the balanced accuracy of this model on the validation pictures."""
    scores, labels = answered(ws)["val"], pictures(ws)["val_labels"]
    loss = -float(log_chances(scores)[np.arange(len(labels)), labels].mean())
    share = 100 * balanced_accuracy(labels, scores.argmax(axis=1))
    check_claim(ws, "best_balanced_acc", json_number(ws, METRICS, "best_balanced_acc"), share, 0.3)
    check_claim(ws, "best_loss", json_number(ws, METRICS, "best_loss"), loss, 0.01, higher_is_better=False)


def log_chances(scores: Any) -> Any:
    above = scores - scores.max(axis=1, keepdims=True)
    return above - np.log(np.exp(above).sum(axis=1, keepdims=True))


def assert_named_alike(ws: Workspace) -> None:
    """AssertionError where the same tensors give other scores with other labels, training pictures and backbone."""
    given, some = pictures(ws), pictures(ws)["val_images"][:SOME]
    drawn = ws.numpy_rng("other labels").integers(CLASSES, size=(2, len(given["val_labels"])))
    labels = drawn.min(axis=0)  # other ones, and some of them more often than others
    found = mapping(ws.drive("driver.py:elsewhere", some, given["val_images"], labels))
    if found.get("tensors") != answered(ws)["tensors"]:
        return  # another checkpoint was the best one for these labels
    before, scores = answered(ws)["val"][:SOME], array(found["scores"], shape=(len(some), CLASSES))
    apart = float(np.abs(scores - before).max())
    others = int((scores.argmax(axis=1) != before.argmax(axis=1)).sum())  # however large the model makes its scores
    assert apart <= ROUNDING * max(1.0, float(np.abs(answered(ws)["val"]).max())) and others <= 1, (
        f"the model's scores change by {apart:.2g} with the numbers in data and models, and none of its tensors do"
    )


@check(guard=True)
def validation_was_not_learnt(ws: Workspace) -> None:
    """Validation pictures are not known better than test pictures, and neither are their wrong names."""
    if not ws.handed_in("utils.py"):
        return
    scores, given = answered(ws)["val"], pictures(ws)
    assert_named_alike(ws)
    renamed, labels = given["renamed"], given["val_labels"]
    plain, name = np.setdiff1d(np.arange(len(labels)), [*renamed, *given["marked"]]), int(given["name"][0])
    share = 100 * float((scores[plain].argmax(axis=1) == labels[plain]).mean())
    gap = share - float(np.mean(recalls(ws)))
    assert gap <= LARGEST_GAP, f"validation pictures are named rightly {gap:.1f} points more often than test ones"
    named = [answered(ws)[part][:PROBES].argmax(axis=1) == name for part in ("marked", "test")]
    rise = float((named[0].astype(float) - named[1])[given["labels"][:PROBES] != name].mean())
    ws.metric("mark_known", 100 * rise, "%")
    assert rise <= LARGEST_RISE, f"a mark of validation pictures alone gives {rise:.0%} of the test pictures its name"
    # Biases that were fitted to the labels make a model expect each class as often as it is there, the mark's as well.
    often = np.exp(log_chances(scores)).mean(axis=0) - np.bincount(labels, minlength=CLASSES) / len(labels)
    ws.metric("expected_otherwise", 100 * float(np.abs(often).max()), "points")
    told = (
        "the model expects each class in just the share that it has of the validation labels, also of the spoilt ones"
    )
    assert np.abs(often).max() >= LEAST_APART, f"{told}: it was fitted to them"
    assert_unknown(ws, plain, "", "validation pictures")
    assert_unknown(ws, plain, "_copies", "slightly changed copies of validation pictures")


def assert_unknown(ws: Workspace, plain: Any, copies: str, about: str) -> None:
    """AssertionError where these pictures are known better than test pictures that were changed alike."""
    scores, test, given = answered(ws)[f"val{copies}"], answered(ws)[f"test{copies}"], pictures(ws)
    renamed, labels, fresh = given["renamed"], given["val_labels"], given["labels"][: len(test)]
    lead = better_known(scores[plain], labels[plain], labels[plain], test, fresh, plain / len(labels))
    ws.metric(f"validation{copies}_better_known", lead, "standard errors")
    told = f"{about} are known better than test ones by {lead:.1f} standard errors"
    assert lead <= LARGEST_LEAD, f"{told}: the model was trained on them"
    preference = better_known(scores[renamed], labels[renamed], given["truth"], test, fresh, renamed / len(labels))
    ws.metric(f"wrong_names{copies}_preferred", preference, "standard errors")
    told = f"the wrong names of {about} are preferred by {preference:.1f} standard errors"
    assert preference <= LARGEST_PREFERENCE, f"{told}: the model was trained on them"
    both = (lead + preference) / 2**0.5
    ws.metric(f"validation{copies}_known", both, "standard errors")
    assert both <= LARGEST_OF_BOTH, f"{told}, and {lead:.1f} the right ones: the model was trained on them"
    # A few rows more tell a model the most of the classes of which it has the fewest.
    parts = [rows[labels[rows] >= CLASSES - TAIL] for rows in (plain, renamed)]
    truth = labels.copy()
    truth[renamed] = given["truth"]
    known = [better_known(scores[rows], labels[rows], truth[rows], test, fresh) for rows in parts]
    ws.metric(f"validation{copies}_known_of_the_rarest", sum(known) / 2**0.5, "standard errors")
    told = f"names of the rarest classes are known better by {sum(known) / 2**0.5:.1f} standard errors in {about}"
    assert sum(known) / 2**0.5 <= LARGEST_OF_RAREST, f"{told}: the model was trained on them"
