"""Measures the probabilities in submission.csv, and whether they come from the given encoder, fine-tuned.

The weights are numbers for the judge's own network (`encoder.py`), which makes the probabilities again. A second run of
train.py, with the model and the reviews in another language, shows that it learns, and that what was handed in is what
it makes. Word counting, which sees no order, is measured on the same reviews: both bars are relative to it.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from encoder import chances, counting_accuracy, linear_error
from reviews import MOST_WORDS, Reviews, as_csv, draw, model_files, new_language, texts
from safetensors.numpy import load, load_file

from bench.casekit.programs import left_alone
from bench.judge import Numbers, Workspace, array, check, mapping, once, run_command, submission

MODEL, OUT = "models/distilbert", "output"
MODULES = ("tiny_distilbert.py", "count_words.py")
OUTPUTS = ("submission.csv", f"{OUT}/config.json", f"{OUT}/model.safetensors")
HEAD = {
    "pre_classifier.weight": (48, 48),
    "pre_classifier.bias": (48,),
    "classifier.weight": (2, 48),
    "classifier.bias": (2,),
}
BAR, TARGET, FLOOR = 1.1, 0.93, 0.55
MOST_MOVED = 0.7  # of the length of the pretrained weights, see README.md
MOST_LEFT = 0.7  # of the error that a line on the pretrained vectors of [CLS] leaves, see README.md
ROUNDED = 0.01  # of a probability
SAME = 0.1  # on average: two seeds of the reference are 0.02 apart, half as many epochs 0.3, see README.md
LONG = 100  # reviews that are longer than all of train.csv, which a program that cuts them has not seen
RUN_S = 60


@check(weight=5, required=True)
def submission_is_complete(ws: Workspace) -> None:
    """submission.csv has two probabilities, which sum to 1, for the idx of every test review, once."""
    _submitted(ws)


@check(weight=10, required=True)
def model_is_the_encoder_fine_tuned(ws: Workspace) -> None:
    """output/ has the given architecture with a head; its encoder is near the given, and tells the labels better."""
    it = _answers(ws)
    _fine_tuned(_given(ws), _model(ws, ws), it["known_ids"], it["known_labels"])


@check(weight=20, required=True)
def submission_is_the_models(ws: Workspace) -> None:
    """The probabilities are those that the saved model gives the test reviews in the judge's own network."""
    _compare(_submitted(ws), chances(_model(ws, ws), _answers(ws)["ids"]))


@check(weight=15)
def close_to_the_labels(ws: Workspace) -> float:
    """Credit for accuracy on the test reviews: from 0 at that of word counting to 1 at 93 %."""
    accuracy, counted = _test_accuracy(ws)
    return ws.scale(accuracy, floor=counted, target=TARGET)


@check(weight=20, required=True)
def ten_percent_better(ws: Workspace) -> None:
    """Accuracy on the test reviews is more than 10 % above that of word counting, and above 55 %."""
    accuracy, counted = _test_accuracy(ws)
    bar = max(BAR * counted, FLOOR)
    assert accuracy > bar, f"accuracy {accuracy:.3f}, wanted more than {bar:.3f}"


@check(weight=20, required=True)
def program_learns_another_language(ws: Workspace) -> None:
    """train.py, run with a model and reviews of another language, fine-tunes that one, with the same bar."""
    it = _in_another_language(ws)
    weights = _model(ws, it.ran)
    _fine_tuned(load(it.given), weights, it.known.ids, it.known.labels)
    _compare(it.submitted, chances(weights, it.test.ids))
    accuracy = float((it.submitted.argmax(axis=1) == it.test.labels).mean())
    counted = counting_accuracy(it.known.ids, it.known.labels, it.test.ids, it.test.labels)
    ws.metric("accuracy_another_language", 100 * accuracy, "%")
    assert accuracy > BAR * counted, (
        f"accuracy {accuracy:.3f} in another language, wanted more than {BAR * counted:.3f}"
    )


@check(weight=5, required=True)
def submission_is_the_programs(ws: Workspace) -> None:
    """In another language train.py gives the same test reviews the probabilities of submission.csv, about.

    A seeded program works out the same there: train.csv has its rows in the same order.
    """
    it = _in_another_language(ws)
    apart = float(np.abs(_submitted(ws)[it.kept, 1] - it.submitted[: len(it.kept), 1]).mean())
    assert apart <= SAME, (
        f"the probabilities of submission.csv are {apart:.3f} off what train.py gives the same reviews in another "
        f"language, wanted at most {SAME}"
    )


class Elsewhere(NamedTuple):
    """What train.py made of the reviews in another language; ids are in its numbers."""

    ran: Any
    given: bytes
    known: Reviews
    test: Reviews
    submitted: Any
    kept: Any
    """Rows of test.csv that are the first rows of this test, too."""


@once
def _in_another_language(ws: Workspace) -> Elsewhere:
    """Runs train.py on the reviews in new words; long new ones stand in for some of the test's, in another order."""
    rng, it = ws.numpy_rng("another language"), _answers(ws)
    language, roles = new_language(rng), np.argsort(it["order"])
    kept, gone = np.split(rng.permutation(len(it["ids"])), [-LONG])
    fresh, idx = draw(rng, len(gone), MOST_WORDS), rng.permutation(len(it["ids"]))
    fresh.ids[-1], fresh.labels[-1] = fresh.ids[0], fresh.labels[0]  # a text may come twice, an idx does not
    known = Reviews(roles[it["known_ids"]], it["known_labels"])
    test = Reviews(
        np.concatenate([roles[it["ids"][kept]], fresh.ids]), np.concatenate([it["labels"][kept], fresh.labels])
    )
    files = model_files(ws.hidden("assets/tiny_distilbert/model.safetensors").path.parent, language)
    inputs = {f"{MODEL}/{name}": content for name, content in files.items()} | {
        "train.csv": as_csv({"text": texts(known, language), "label": known.labels.tolist()}).encode(),
        "test.csv": as_csv({"idx": idx.tolist(), "text": texts(test, language)}).encode(),
    }
    stale = {name: ws.bytes(name) for name in OUTPUTS}
    ran = run_command(ws, "python train.py", inputs=inputs | stale, timeout=RUN_S)
    left_alone(ran, inputs | {name: ws.original(name) for name in MODULES})
    known, test = (Reviews(language.order[part.ids], part.labels) for part in (known, test))
    return Elsewhere(ran, files["model.safetensors"], known, test, _chances(ran, idx), kept)


def _model(ws: Workspace, folder: Any) -> dict[str, Any]:
    """The weights saved in a folder, known to be those of the given architecture with a head for two classes."""
    config = mapping(folder.json(f"{OUT}/config.json"))
    given = json.loads(ws.original(f"{MODEL}/config.json").read_text())
    wrong = [name for name in given if config.get(name) != given[name]]
    assert not wrong, f"{OUT}/config.json: {', '.join(wrong)} not as in {MODEL}/config.json"
    found = dict(folder.safetensors(f"{OUT}/model.safetensors", max_mb=5))
    shapes = {name: part.shape for name, part in _given(ws).items()} | HEAD
    odd = sorted(set(found) ^ set(shapes))
    assert not odd, f"{OUT}: tensors that are missing or not of the model: {odd[:4]}"
    for name, shape in shapes.items():
        assert found[name].dtype == np.float32, f"{OUT}: {name} is {found[name].dtype}, wanted float32"
        array(found[name], shape=shape)
    return found


def _given(ws: Workspace) -> dict[str, Any]:
    return dict(load_file(ws.original(f"{MODEL}/model.safetensors")))


def _fine_tuned(given: dict[str, Any], weights: dict[str, Any], ids: Any, labels: Any) -> None:
    """Every matrix of the encoder is near the pretrained one, and its vectors of [CLS] tell the known labels better."""
    moved = {
        name: np.linalg.norm(weights[name] - part) / np.linalg.norm(part)
        for name, part in given.items()
        if part.ndim == 2
    }
    far = max(moved, key=lambda name: moved[name])
    assert moved[far] <= MOST_MOVED, f"{far} is {moved[far]:.2f} of its length away from the pretrained one"
    left, before = linear_error(weights, ids, labels), linear_error(given, ids, labels)
    assert left <= MOST_LEFT * before, (
        f"the encoder was not fine-tuned: a fit on its vectors of [CLS] leaves {left:.3f} of the variance of the "
        f"labels of train.csv, wanted {MOST_LEFT * before:.3f} or less; the pretrained one leaves {before:.3f}"
    )


def _compare(submitted: Any, recomputed: Any) -> None:
    apart = np.abs(submitted - recomputed).max(axis=1)
    odd = int((apart > ROUNDED).sum())
    assert not odd, (
        f"{odd} of {len(apart)} probabilities are not what the saved model gives, by up to {apart.max():.3f}"
    )


def _chances(folder: Any, idx: Any) -> Any:
    """Probabilities of negative and positive, N x 2, in the order of idx."""
    kinds = {name: Numbers(low=0, high=1) for name in ("0", "1")}
    found = submission(folder, "submission.csv", ids={"idx": idx.tolist()}, columns=kinds)
    made = np.stack([found["0"], found["1"]], axis=1)
    odd = np.flatnonzero(np.abs(made.sum(axis=1) - 1) > 1e-3)
    assert not len(odd), f"submission.csv: the probabilities of idx {idx[odd[0]]} sum to {made[odd[0]].sum():.4f}"
    return made


@once
def _answers(ws: Workspace) -> dict[str, Any]:
    with np.load(ws.hidden("answers.npz").path) as file:
        return dict(file)


@once
def _submitted(ws: Workspace) -> Any:
    return _chances(ws, _answers(ws)["idx"])


@once
def _test_accuracy(ws: Workspace) -> tuple[float, float]:
    """Of the submission, and of word counting."""
    it = _answers(ws)
    accuracy = float((_submitted(ws).argmax(axis=1) == it["labels"]).mean())
    counted = counting_accuracy(it["known_ids"], it["known_labels"], it["ids"], it["labels"])
    ws.metric("accuracy", 100 * accuracy, "%")
    ws.metric("accuracy_of_counting", 100 * counted, "%")
    return accuracy, counted
