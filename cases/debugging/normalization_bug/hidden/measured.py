"""What pictures must become, what weights are worth, and where training led before anybody touched it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from small_net import logits, shapes

from bench.judge import array, mapping

MEAN, STD = (0.1307,), (0.3081,)


def hidden_arrays(ws: Any, name: str) -> dict[str, Any]:
    with np.load(ws.hidden(name), allow_pickle=False) as arrays:
        return dict(arrays)


def right_picture(ws: Any, which: str, picture: Any, seed: int = 0) -> Any:
    """The picture after the transform as it must be, by the transforms of the starter."""
    names: dict[str, Any] = {}
    exec(compile(ws.original("transforms.py").read_text(), "transforms.py", "exec"), names)
    start = {"val": [names["Resize"](32)], "train": [names["RandomRotation"](15),
             names["RandomResizedCrop"](32, scale=(0.8, 1.0)), names["RandomBrightness"](0.2)]}[which]  # fmt: skip
    steps = [names["ToFloat"](), *start, names["Normalize"](MEAN, STD), names["Repeat"](3)]
    return names["Compose"](steps)(picture, np.random.default_rng(seed))


def weights_of(found: Any, what: str) -> dict[str, Any]:
    """The state of a SmallNet, known to have its names and shapes."""
    state, expected = mapping(found), shapes()
    odd = sorted(set(state) ^ set(expected))
    assert not odd, f"{what}: names that are missing or not of SmallNet: {odd[:4]}"
    weights = {name: array(state[name], shape=shape) for name, shape in expected.items()}
    kinds = {str(getattr(state[name], "dtype", "")) for name in expected if not name.endswith("num_batches_tracked")}
    assert kinds == {"float32"}, f"{what}: weights are {', '.join(sorted(kinds))}"
    return weights


def measured(ws: Any, weights: dict[str, Any], images: Any, labels: Any) -> tuple[float, float]:
    """Loss and accuracy in per cent of these weights, on the judge's own scale."""
    kinds, which = np.unique(images, axis=0, return_inverse=True)  # one file has ten of them many times
    pictures = np.stack([right_picture(ws, "val", image) for image in kinds])
    out = np.clip(np.nan_to_num(logits(weights, pictures)[which.ravel()]), -1e6, 1e6)
    shifted = out - out.max(axis=1, keepdims=True)
    loss = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]
    return float(loss.mean()), 100 * float((out.argmax(axis=1) == labels).mean())


def assert_of_the_best(saved: dict[str, Any], history: list[dict[str, float]], batches: int) -> None:
    """The saved weights have seen the steps of the first of the best epochs."""
    best = 1 + int(np.argmax([entry["val_acc"] for entry in history]))
    seen = int(saved["features.1.num_batches_tracked"])
    assert seen == best * batches, (
        f"the saved weights have seen {seen} batches, epoch {best} ends after {best * batches}"
    )


def assert_as_before(ws: Any, trained: tuple[Any, Any], file: str, epochs: int, batches: int) -> None:
    """History and weights are those that the starter's training gives in a process of its own."""
    history, weights = trained
    args = ws.original("train.py").read_text(), batches, ws.hidden(file)
    found = [mapping(ws.drive("driver.py:starters", count, *args), keys=("metrics", "state")) for count in (epochs, 0)]
    before, begin = (weights_of(it["state"], "the starter's network") for it in found)
    learned = [name for name in shapes() if name.endswith(("weight", "bias"))]
    apart, moved = (
        sum(float(((one[name] - two[name]) ** 2).sum()) for name in learned) ** 0.5
        for one, two in ((weights, before), (before, begin))
    )
    # Rounding in another order carries less than a ten thousandth of the way.
    assert apart <= 2e-3 * moved, (
        f"training leads elsewhere than before: the weights are {apart / moved:.2g} of their way from the starter's"
    )
    for mine, told in zip(history, json.loads(found[0]["metrics"])["metrics_history"], strict=True):
        for name, allowed in (("train_loss", 0.002 * told["train_loss"]), ("train_acc", 101 / (32 * batches))):
            off = abs(mine[name] - told[name])
            assert off <= allowed, f"{name} of epoch {told['epoch']} is {mine[name]:.4f}, it was {told[name]:.4f}"
