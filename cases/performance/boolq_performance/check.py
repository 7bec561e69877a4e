"""Measures the agent's weights with the judge's own network on questions drawn for this grading.

Nothing of the agent's is run: its weights are numbers, and the network is `reader.py` in the judge's own process. What
the tracker was told is compared with what the checkpoint of each epoch reaches on the validation split.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import numpy as np
from claims import (
    assert_means_of_batches,
    assert_means_of_epochs,
    assert_named_by_its_start,
    assert_training_losses,
)
from one_training import assert_goes_on
from passages import PASSAGE, RARE, Rows, draw
from pretrained_folder import assert_as_pretrained
from reader import logits, mean_loss

from bench.judge import (
    Workspace,
    array,
    check,
    check_claim,
    close,
    mapping,
    number,
    once,
    read_pretrained,
    string,
)

BEST, MODEL, INFO, PROJECT = "best_checkpoint", "models/tinybert", "wandb_info.json", "boolq-tinybert-training"
BATCHES = "batch_losses.csv"
HEADS, BAR, MAJORITY, FRESH = 4, 0.70, 0.62, 2000
MOST_EPOCHS, LEAST_ALIKE = 20, 0.5  # a cosine: trainings keep 0.99, a matrix drawn anew has 0.12
EMBEDDINGS = "bert.embeddings.word_embeddings.weight"
TIMES, ROUNDING = 3.0, 1e-4  # how much farther than the words of no row those of validation rows may have moved


@once
def facts(ws: Workspace) -> dict[str, Any]:
    return dict(json.loads(ws.hidden("facts.json").path.read_text()))


@once
def shapes(ws: Workspace) -> dict[str, tuple[int, ...]]:
    """Of the model with its head: the pretrained tensors, and two more."""
    pretrained = {name: part.shape for name, part in ws.safetensors(f"{MODEL}/model.safetensors").items()}
    return pretrained | {"classifier.weight": (2, 48), "classifier.bias": (2,)}


def fitting(ws: Workspace, found: dict[str, Any], path: str) -> dict[str, Any]:
    """The weights of a file, known to be those of the fixed model."""
    odd = sorted(set(found) ^ set(shapes(ws)))
    assert not odd, f"{path}: tensors that are missing or not of the model: {odd[:6]}"
    for name, shape in shapes(ws).items():
        array(found[name], shape=shape)
        assert found[name].dtype == np.float32, f"{path}: {name} is {found[name].dtype}, wanted float32"
    return found


@once
def best(ws: Workspace) -> dict[str, Any]:
    return fitting(ws, read_pretrained(ws, BEST, forms=["model.safetensors"], max_mb=5).arrays, BEST)


@once
def checkpoints(ws: Workspace) -> list[dict[str, Any]]:
    """The weights after each epoch, in order."""
    names = [path for path in ws.files("checkpoints/*") if re.fullmatch(r"checkpoints/epoch-[0-9]+\.safetensors", path)]
    assert 2 <= len(names) <= MOST_EPOCHS, (
        f"{len(names)} files checkpoints/epoch-N.safetensors, wanted 2 to {MOST_EPOCHS}"
    )
    wanted = [f"checkpoints/epoch-{epoch}.safetensors" for epoch in range(1, len(names) + 1)]
    assert sorted(names) == sorted(wanted), f"checkpoints are not numbered from 1 without gaps: {sorted(names)[:4]}"
    return [fitting(ws, ws.safetensors(path), path) for path in wanted]


def scores(ws: Workspace, weights: dict[str, Any], rows: Rows) -> Any:
    return logits(weights, HEADS, np.array(facts(ws)["order"])[rows.ids], PASSAGE)


def share(ws: Workspace, weights: dict[str, Any], rows: Rows) -> float:
    return float((scores(ws, weights, rows).argmax(axis=1) == rows.answers).mean())


@once
def fresh_accuracy(ws: Workspace) -> float:
    rows = draw(ws.numpy_rng("fresh"), FRESH)
    measured = share(ws, best(ws), rows)
    ws.metric("accuracy", 100 * measured, "%")
    ws.metric("majority", 100 * float(rows.answers.mean()), "%")
    return measured


@once
def validation(ws: Workspace) -> Rows:
    return split(ws, "val")


def split(ws: Workspace, part: str) -> Rows:
    """The split as the agent has it, in the numbers of the pretrained model."""
    words = {word: at for at, word in enumerate(ws.original(f"{MODEL}/vocab.txt").read_text().split())}
    roles = np.argsort(facts(ws)["order"])
    rows = [json.loads(line) for line in ws.original(f"data/{part}.jsonl").read_text().splitlines()]
    texts = [f"[CLS] {row['question']} [SEP] {row['passage']} [SEP]".split() for row in rows]
    ids = roles[np.array([[words[word] for word in text] for text in texts])]
    return Rows(ids, np.array([int(row["answer"]) for row in rows]))


@check(weight=10, required=True)
def best_checkpoint_is_complete(ws: Workspace) -> None:
    """best_checkpoint holds the fixed model with a head for two answers, and the pretrained model's tokenizer."""
    best(ws)
    assert_as_pretrained(ws, BEST, MODEL)


@check(weight=15, required=True)
def checkpoints_are_a_training(ws: Workspace) -> None:
    """Every epoch left other weights, each moved on from the ones before, and best_checkpoint is one of them."""
    seen, start = [], ws.safetensors(f"{MODEL}/model.safetensors")
    for epoch, state in enumerate(checkpoints(ws), 1):
        digest = hashlib.sha256(b"".join(state[name].tobytes() for name in sorted(state))).digest()
        assert digest not in seen, f"the weights of epoch {epoch} are those of epoch {seen.index(digest) + 1}"
        seen.append(digest)
    kept = hashlib.sha256(b"".join(best(ws)[name].tobytes() for name in sorted(best(ws)))).digest()
    assert kept in seen, "best_checkpoint has the weights of no epoch"
    for name, part in start.items():
        first = checkpoints(ws)[0][name]
        alike = float((first * part).sum() / max(np.linalg.norm(first) * np.linalg.norm(part), 1e-9))
        told = f"{name} has a cosine of {alike:.2f} to the pretrained one after epoch 1: training began elsewhere"
        assert part.ndim < 2 or alike > LEAST_ALIKE, told
    assert_goes_on(start, checkpoints(ws))


@check(weight=20, required=True)
def tracker_knows_the_training(ws: Workspace) -> None:
    """The tracker has a finished run with both losses and the accuracy of each epoch; they are its checkpoint's."""
    info = mapping(ws.json(INFO), keys=["project_id", "run_id"])
    run_id, project = string(info["run_id"]), string(info["project_id"])
    assert project.split("/")[-1] == PROJECT, f"project_id is {project[:80]!r}"
    events = [event for event in ws.journal("tracker") if event.get("run_id") == run_id]
    about = [event for event in events if event["event"] in ("run_created", "run_updated")]
    made = [event for event in about if event["project"] == PROJECT]
    assert made, f"the tracker has no run {run_id[:40]!r} in {PROJECT}"
    assert_named_by_its_start(str(made[-1].get("name")), made[0]["time"])
    assert [event["state"] for event in events if event["event"] == "run_ended"][-1:] == ["finished"], "no finished run"
    rows = {event["at"]: event["values"] for event in events if event["event"] == "row"}
    names, states = {"train_loss", "val_loss", "val_accuracy"}, checkpoints(ws)
    told = [rows[at] for at in sorted(rows) if names & set(rows[at])]
    assert all(names <= set(row) for row in told), "the run has rows with one or two of the three values"
    assert len(told) == len(states), f"the run has {len(told)} rows with the values, for {len(states)} checkpoints"
    for epoch, (row, state) in enumerate(zip(told, states, strict=True), 1):
        found = scores(ws, state, validation(ws))
        accuracy = 100 * float((found.argmax(axis=1) == validation(ws).answers).mean())
        check_claim(ws, f"val_accuracy_{epoch}", row["val_accuracy"], accuracy, 0.5)
        loss = mean_loss(found, validation(ws).answers)
        close(number(row["val_loss"]), loss, rtol=0.01, atol=0.005, what=f"val_loss of epoch {epoch}")
    trained = split(ws, "train")
    some = Rows(trained.ids[::4], trained.answers[::4])
    measured = [mean_loss(scores(ws, state, some), some.answers) for state in states]
    losses = [row["train_loss"] for row in told]
    assert_means_of_batches(losses, ws.csv(BATCHES, max_mb=2))
    assert_training_losses(losses, [row["val_loss"] for row in told], measured)
    assert_means_of_epochs(
        losses, measured, lambda epoch: mean_loss(scores(ws, states[epoch], trained), trained.answers)
    )


@check(weight=20)
def better_than_the_majority(ws: Workspace) -> float:
    """Credit for the accuracy on fresh questions, from that of the more frequent answer (62 %) to the target."""
    return float(ws.scale(fresh_accuracy(ws), floor=MAJORITY, target=BAR))


@check(weight=35, required=True)
def target_is_reached(ws: Workspace) -> None:
    """At least 70 % of fresh questions are answered rightly."""
    measured = fresh_accuracy(ws)
    assert measured >= BAR, f"{measured:.1%} of the fresh questions are answered rightly, wanted {BAR:.0%}"


@check(guard=True)
def validation_was_not_learnt(ws: Workspace) -> None:
    """The words that stand in validation rows alone have not moved more than those that stand in no row."""
    states = [best(ws)] if ws.handed_in(f"{BEST}/model.safetensors") else []
    states += checkpoints(ws) if ws.handed_in("checkpoints") else []
    given, words = ws.safetensors(f"{MODEL}/model.safetensors"), facts(ws)["rare"] + facts(ws)["own"]
    assert EMBEDDINGS in given, f"{MODEL} has no {EMBEDDINGS}"
    start = given[EMBEDDINGS]
    only_there, unseen = (np.array(facts(ws)["order"])[part] for part in (words, sorted({*RARE} - {*words})))
    for state in states:
        went = moves(start, state[EMBEDDINGS], unseen)
        moved, still = went[only_there].max(), went[unseen].max()
        told = f"a word of validation rows alone moved by {moved:.2g}, words of no row by {still:.2g} at most"
        assert moved <= TIMES * still + ROUNDING, told


def moves(before: Any, after: Any, unseen: Any) -> Any:
    """How far each word's vector went, beside the decay that all weights share: without a gradient, nowhere else."""
    before, after = before.astype(np.float64), after.astype(np.float64)
    decay = (after[unseen] * before[unseen]).sum() / (before[unseen] ** 2).sum()
    return np.linalg.norm(after - decay * before, axis=1)
