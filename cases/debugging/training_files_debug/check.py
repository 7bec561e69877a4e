"""Runs the training on other pictures, measures what it saved, and asks module and data for what the Trainer asks."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
from small_net import NAMES, Adam, batches_of, falling_gradients, measured, normalised, split

from bench.casekit.picture_files import CIFAR_FOLDER, read_cifar10
from bench.judge import array, check, close, integer, mapping, number, once, read_checkpoint, sequence, string

BATCHES = [f"data/{CIFAR_FOLDER}/data_batch_{n}.bin" for n in range(1, 6)]
ARGUMENTS = [[["learning_rate", "0.001"]], [["data_dir", "data"], ["batch_size", "32"]]]
LOGGED = ("train_loss", "val_acc", "val_loss")
DRAWN = {"edge from above": 9, "edge from the left": 9, "flip": 2}
"""What is drawn for each picture, and of how many."""


def _pictures(paths: list[Any]) -> tuple[Any, Any]:
    """Bytes N x 3 x 32 x 32, and labels."""
    parts = [read_cifar10(path) for path in paths]
    pictures = np.concatenate([part[0] for part in parts]).transpose(0, 3, 1, 2)
    return pictures, np.concatenate([part[1] for part in parts]).astype(int)


@once
def _other_run(ws: Any) -> Any:
    """The training on the judge's own pictures; what the agent's run has left is removed before."""
    left = ["checkpoints", "training.log", "wandb_info.json"]
    given = {path: ws.hidden(path) for path in BATCHES}
    return ws.run(["python", "train.py"], inputs=given, remove=left).ok()


def _epochs(ws: Any, folder: Any, during: str) -> list[dict[str, Any]]:
    """What the tracker has of the run that wandb_info.json names: one entry for each epoch."""
    info = mapping(folder.json("wandb_info.json"), keys=("project_id", "run_id", "run_url"))
    assert info["project_id"] == "cifar10-training", "project_id is not cifar10-training"
    run_id = string(info["run_id"])
    assert string(info["run_url"]).endswith(f"/runs/{run_id}"), "run_url is not the page of the run"
    events = [event for event in ws.journal("tracker", during=during) if event.get("run_id") == run_id]
    kinds = [event["event"] for event in events]
    assert kinds == ["created", "log", "log", "finish"], f"the tracker has {kinds[:6]} of the run, not two epochs"
    assert events[0]["project"] == "cifar10-training", "the run is in another project"
    return [mapping(event, keys=("epoch", "step", "metrics")) for event in events[1:3]]


@once
def _saved(ws: Any, folder_of: str) -> list[tuple[Any, dict[str, float]]]:
    """For each epoch the checkpoint, and the metrics that tracker, checkpoint, its name and the log agree on."""
    other = folder_of == "other"
    folder = _other_run(ws) if other else ws
    paths = [ws.hidden(path).path if other else ws.original(path) for path in BATCHES]
    (pictures, labels), names, found = _pictures(paths), folder.files("checkpoints/*.ckpt"), []
    train, held = split(len(labels))
    lines = folder.text("training.log").splitlines()
    for epoch, entry in enumerate(_epochs(ws, folder, "judging" if other else "agent")):
        told = {name: number(mapping(entry["metrics"]).get(name)) for name in LOGGED}
        steps = (epoch + 1) * -(-len(train) // 32)
        assert (integer(entry["epoch"]), integer(entry["step"])) == (epoch, steps), (
            f"epoch {entry['epoch']!r} ends at step {entry['step']!r}, expected {epoch} and {steps}"
        )
        named = f"checkpoints/cifar10-epoch={epoch:02d}-val_loss={told['val_loss']:.2f}.ckpt"
        assert named in names and len(names) == 2, f"there is no {named}, or not two: {names[:4]}"
        kept = read_checkpoint(ws, named, within=folder, max_mb=5)
        assert (kept.values.get("epoch"), kept.values.get("global_step")) == (epoch, steps), "of another epoch"
        weights = kept.below("state_dict")
        shapes = {name: part.shape for name, part in weights.items()}
        assert shapes == NAMES, f"the checkpoint's tensors differ: {sorted(set(shapes) ^ set(NAMES))[:4]}"
        weights = {name: array(part) for name, part in weights.items()}
        loss, share = measured(weights, normalised(pictures[held]), labels[held])
        for name, value in (("val_loss", loss), ("val_acc", share)):
            close(told[name], value, rtol=1e-3, atol=1e-4, what=f"epoch {epoch}: the logged {name}")
        values = [rf"{name}={told[name]:.4f}".replace(".", r"\.") for name in LOGGED]
        pattern = re.compile(rf"epoch {epoch}, step {steps}: {', '.join(values)}")
        assert any(pattern.fullmatch(line) for line in lines), f"training.log has no such line: {pattern.pattern}"
        found.append((weights, told))
    return found


@check(weight=3, required=True)
def training_runs(ws: Any) -> None:
    """`python train.py` ends well on other pictures; the tracker has one run with two whole epochs."""
    _epochs(ws, _other_run(ws), "judging")


@check(weight=3, required=True)
def checkpoints_are_true(ws: Any) -> None:
    """Both epochs of that run are saved, and their weights give the loss and accuracy that are logged."""
    (first, _), (second, _) = _saved(ws, "other")
    for name in NAMES:
        assert (first[name] != second[name]).any(), f"{name} is the same after both epochs"


@check(weight=2, required=True)
def classifier_learns(ws: Any) -> None:
    """After the second epoch at least 60 % of unseen pictures are right, and the loss has fallen."""
    (_, before), (weights, after) = _saved(ws, "other")
    pictures, labels = _pictures([ws.hidden(f"data/{CIFAR_FOLDER}/test_batch.bin").path])
    share = measured(weights, normalised(pictures), labels)[1]
    ws.metric("accuracy", share)
    assert share >= 0.6, f"{share:.2f} of unseen pictures are right"
    assert after["train_loss"] < before["train_loss"], f"train_loss {before['train_loss']} then {after['train_loss']}"


@check(weight=3, required=True)
def steps_match(ws: Any) -> None:
    """Steps of training are those of Adam on the mean cross entropy; means are over pictures, in each epoch anew."""
    rng = ws.numpy_rng("steps")
    adam, other = Adam(rng, 1e-2), Adam(rng, 2e-2)
    # A unit that is never active has no gradients: only what is not of the loss moves it.
    adam.weights["mix.bias"][0] = -1000.0
    # The second epoch is worse than the first and is validated in fewer batches, and nothing may follow from either.
    cuts = (((32, 32, 9), (32, 5)), ((32, 32, 9), (30,)))
    given = [[batches_of(rng, cut, scale) for cut in both] for both, scale in zip(cuts, (1, 9), strict=True)]
    told = sequence(ws.drive("driver.py:trained", adam.weights, given, adam.rate), length=2)
    wanted = [(adam.epoch(*parts), adam.weights) for parts in given]
    # Adam's variants and its other numbers show where gradients have fallen or are tiny, after many steps.
    falling = falling_gradients(rng)
    told = [*told, [{}, ws.drive("driver.py:descended", other.weights, falling, other.rate)]]
    wanted += [({}, other.descend(falling))]
    names = ("an epoch", "two epochs", "99 given gradients")
    for when, entry, (means, weights) in zip(names, told, wanted, strict=True):
        logged, state = map(mapping, sequence(entry, length=2))
        for name, value in weights.items():
            # Adam divides by the gradient's size, so an entry whose gradient is nearly 0 is the least certain.
            close(state.get(name), value, rtol=0, atol=1e-4, what=f"{name} after {when}")
        for name, value in means.items():
            close(logged.get(name), value, rtol=1e-5, what=f"{name} after {when}")


@check(weight=3, required=True)
def pictures_are_as_promised(ws: Any) -> None:
    """Training pictures are crops and flips, drawn anew in each epoch; validation pictures are left as they are."""
    pictures, labels = _pictures([ws.original(path) for path in BATCHES])
    train, held = split(len(labels))
    for told, wanted in zip(sequence(ws.drive("driver.py:arguments"), length=2), ARGUMENTS, strict=True):
        found = [[string(it) for it in sequence(pair, length=2)] for pair in sequence(told)]
        assert found == wanted, f"a class has the arguments {found}, not {wanted}"
    # Not that of train.py; in the last epoch, of a module of its own, the last batch is a single picture.
    batches = [*[24] * 5, len(train) - 1]
    parts = sequence(ws.drive("driver.py:examples", batches, ws.seed_for("examples", 31)), length=8)
    ways = []
    for rows, size, part in zip((*[train] * 6, held, held), (*batches, 24, 24), parts, strict=True):
        found, told, sizes = sequence(part, length=3)
        wanted = [min(size, len(rows) - begin) for begin in range(0, len(rows), size)]
        # The size is promised of training; means over pictures are the same however validation is cut.
        assert rows is held or sequence(sizes) == wanted, f"with batch_size {size} the sizes of the batches differ"
        found = array(found, shape=(len(rows), 3, 32, 32))
        # A number far off any byte is as wrong as another byte, and must not overflow.
        bytes_of = np.clip(found * np.array([0.2470, 0.2435, 0.2616]).reshape(3, 1, 1) * 255
                           + np.array([0.4914, 0.4822, 0.4465]).reshape(3, 1, 1) * 255, -999, 999)  # fmt: skip
        assert np.abs(bytes_of - bytes_of.round()).max() < 0.01, "pictures are not normalised as they were"
        ways.append(_ways(bytes_of.round().astype(np.int16), array(told, shape=(len(rows),)), pictures, labels, rows))
    assert all(way == (4, 4, False) for part in ways[6:] for way in part.values()), "a validation picture is changed"
    _assert_drawn([way for part in ways[:5] for way in part.values()])
    for before, later in itertools.combinations(ways[:5], 2):
        _assert_anew(np.array([(before[row], way) for row, way in later.items()], dtype=int))


def _assert_anew(pairs: Any) -> None:
    """What a picture is given in one epoch tells nothing of what it is given in another. pairs: N x 2 x 3."""
    same = pairs[:, 0] == pairs[:, 1]
    assert same.all(axis=1).mean() < 0.1, f"{same.all(axis=1).mean():.2f} of the training pictures are as they were"
    for (name, wide), share in zip(DRAWN.items(), same.mean(axis=0), strict=True):
        spread, told = ((wide - 1) / len(pairs)) ** 0.5 / wide, f"{name}: {share:.2f} of the training pictures"
        assert abs(share - 1 / wide) < 6 * spread, f"{told} have the same in two epochs, expected {1 / wide:.2f}"


def _assert_drawn(ways: list[tuple[int, int, bool]]) -> None:
    """Half are flipped, all edges are equally likely, and none tells of the others or of the next picture's."""
    drawn = np.array(ways, dtype=int)
    kinds = [(name, wide, drawn[:, at]) for at, (name, wide) in enumerate(DRAWN.items())]
    for name, wide, column in kinds:
        same, spread = float((column[1:] == column[:-1]).mean()), ((wide - 1) / len(ways)) ** 0.5 / wide
        # Fewer are as wrong as more: what is drawn for a batch, or in turns, shows.
        assert abs(same - 1 / wide) < 6 * spread, f"{name}: {same:.2f} of the training pictures have the last one's"
    # All three together as well: a flip that follows from both edges follows from neither.
    for some in (some for many in (1, 2, 3) for some in itertools.combinations(kinds, many)):
        names, sizes, columns = zip(*some, strict=True)
        found = np.bincount(np.ravel_multi_index(columns, sizes), minlength=int(np.prod(sizes)))
        free, wanted = len(found) - 1, len(ways) / len(found)
        # Six standard deviations of chi-square, whose cube root is all but normal.
        apart = (((found - wanted) ** 2).sum() / wanted / free) ** (1 / 3) - 1 + 2 / (9 * free)
        told = f"{', '.join(names)}: {found.tolist()[:18]}, expected {wanted:.0f} each"
        # Fewer differences than chance makes are as wrong as more: cards of a deck are not drawn by themselves.
        assert abs(apart) < 6 * (2 / (9 * free)) ** 0.5, told


def _ways(found: Any, told: Any, pictures: Any, labels: Any, rows: Any) -> dict[int, tuple[int, int, bool]]:
    """How each of the rows was cut: top and left edge in the padded picture, and whether it is flipped."""
    middles = {pictures[row, :, 8:24, 8:24].astype(np.int16).tobytes(): int(row) for row in rows}
    padded = np.pad(pictures, ((0, 0), (0, 0), (4, 4), (4, 4)))
    ways: dict[int, tuple[int, int, bool]] = {}
    for picture, label in zip(found, told, strict=True):
        for top, left, flip in np.ndindex(9, 9, 2):
            seen = picture[:, :, ::-1] if flip else picture
            row = middles.get(seen[:, 12 - top : 28 - top, 12 - left : 28 - left].tobytes())
            if row is not None and (seen == padded[row, :, top : top + 32, left : left + 32]).all():
                assert label == labels[row], f"the picture of row {row} has the label {label}, not {labels[row]}"
                ways[row] = (top, left, bool(flip))
                break
        else:
            raise AssertionError("a picture is not a crop, with or without a flip, of a record of its part")
    assert len(ways) == len(rows), f"{len(ways)} different records of {len(rows)} are in the part"
    return ways


@check(weight=2, required=True)
def own_run_is_there(ws: Any) -> None:
    """The files of the agent's own run are those of the run that the tracker saw, and both checkpoints are true."""
    _saved(ws, "own")
