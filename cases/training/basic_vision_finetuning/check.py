"""Repeats the two steps from the hub's weights and the agent's new head, and compares what came of them."""

import json
import posixpath
from pathlib import Path
from typing import Any

import numpy as np
from steps import rounding, train

from bench.judge import Workspace, array, check, check_claim, close, integer, mapping, once, read_pretrained, string

INFO, HEAD, CLASSES, RATE, SIZE = "model_info.json", "head_before.safetensors", 10, 0.1, 32
FILES = ("config.json", "preprocessor_config.json", "model.safetensors")
BATCH = "data/cifar-10-batches-bin/data_batch_1.bin"


@once
def pretrained(ws: Workspace) -> dict[str, Any]:
    """The hub's weights."""
    from safetensors.numpy import load_file

    return {
        name: array.astype(np.float64) for name, array in load_file(ws.hidden("model/model.safetensors").path).items()
    }


@once
def head_before(ws: Workspace) -> dict[str, Any]:
    found = mapping(ws.safetensors(HEAD), keys=["head.weight", "head.bias"])
    shapes = {"head.weight": (CLASSES, 128), "head.bias": (CLASSES,)}
    head = {name: array(found[name], shape=shape) for name, shape in shapes.items()}
    widest = max(float(np.abs(part).max()) for part in head.values())
    assert widest < 100, f"the new head has a number of size {widest:.3g}"
    return head


@once
def batches(ws: Workspace) -> list[tuple[Any, Any]]:
    """The two mini-batches, prepared as the hub says."""
    scaling = json.loads(Path(ws.hidden("model/preprocessor_config.json")).read_text())
    mean, std = (np.array(scaling[key]).reshape(3, 1, 1) for key in ("image_mean", "image_std"))
    records = np.frombuffer(ws.original(BATCH).read_bytes(), np.uint8).reshape(-1, 3073)[: 2 * SIZE]
    pictures = (records[:, 1:].reshape(-1, 3, 32, 32) * scaling["rescale_factor"] - mean) / std
    labels = records[:, 0].astype(np.int64)
    return [(pictures[:SIZE], labels[:SIZE]), (pictures[SIZE:], labels[SIZE:])]


@once
def expected(ws: Workspace) -> tuple[dict[str, Any], float, float]:
    return train(pretrained(ws) | head_before(ws), batches(ws), RATE)


@once
def rounded(ws: Workspace) -> tuple[dict[str, float], float, float]:
    """What float32 may add to the tolerances: mostly next to nothing."""
    return rounding(pretrained(ws) | head_before(ws), batches(ws), RATE, ws.numpy_rng("rounding"))


def info(ws: Workspace) -> dict[str, Any]:
    return mapping(ws.json(INFO), keys=["model", "architecture", "training", "model_path"])


@once
def saved(ws: Workspace) -> dict[str, Any]:
    """The saved weights, and that the folder's configuration says what they are."""
    path = string(info(ws)["model_path"])
    folder = posixpath.normpath(path)
    assert path and not folder.startswith(("/", "..")), f"model_path {path[:100]!r} is not a folder of the workspace"
    found = read_pretrained(ws, folder, forms=FILES[2:], max_mb=20)
    count = integer(mapping(found.config).get("num_labels"))
    assert count == CLASSES, f"config.json has num_labels {count}, expected {CLASSES}"
    hub = json.loads(Path(ws.hidden("model/config.json")).read_text())
    other = [key for key, value in hub.items() if key != "num_labels" and found.config.get(key) != value]
    assert not other, f"config.json lacks {other[:3]} of the hub's, or has another value"
    return found.arrays


@check(weight=2, required=True)
def model_was_fetched(ws: Workspace) -> None:
    """The hub handed out the weights (its own record)."""
    got = {
        event.get("file") for event in ws.journal("hub") if event.get("event") == "file" and event["method"] == "GET"
    }
    assert FILES[2] in got, f"{FILES[2]} was never fetched; fetched were {sorted(map(str, got))[:5]}"


@check(weight=2, required=True)
def description_is_right(ws: Workspace) -> None:
    """Name, source, number of parameters and of outputs are those of the adapted model."""
    model = mapping(info(ws)["model"], keys=["name", "source", "parameters"])
    assert string(model["name"]) == "bench/tiny-vision", f"name is {model['name'][:60]!r}"
    assert string(model["source"]).strip(), "source is empty"
    wanted = sum(part.size for part in (pretrained(ws) | head_before(ws)).values())
    count = integer(model["parameters"])
    assert count == wanted, f"parameters is {count:,}, the adapted model has {wanted:,}"
    size = integer(mapping(info(ws)["architecture"], keys=["output_size"])["output_size"])
    assert size == CLASSES, f"output_size is {size}, expected {CLASSES}"


@check(weight=1, required=True)
def head_is_new(ws: Workspace) -> None:
    """Before any training no row of the new head is one number, or made from its other rows and those of the hub's."""
    head, old = head_before(ws), pretrained(ws)
    rows = np.concatenate([head["head.weight"], old["head.weight"]])
    rows -= rows.mean(axis=1, keepdims=True)
    for at in range(CLASSES):
        others = np.delete(rows, at, axis=0).T
        rest = rows[at] - others @ np.linalg.lstsq(others, rows[at], rcond=None)[0]
        # Of a random row 17 others explain about 13 of 100 parts.
        assert (rest**2).sum() > 0.5 * (rows[at] ** 2).sum() + 1e-10, f"row {at} of the new head is no random one"
    assert not np.isin(head["head.bias"], old["head.bias"][old["head.bias"] != 0]).any(), "the bias is the old head's"


@check(weight=3, required=True)
def saved_model_has_ten_outputs(ws: Workspace) -> None:
    """The folder of model_path holds a configuration and float32 weights of the architecture with ten outputs."""
    wanted = {name: part.shape for name, part in (pretrained(ws) | head_before(ws)).items()}
    found = {name: part.shape for name, part in saved(ws).items()}
    assert found == wanted, f"the saved shapes differ: {sorted(set(found.items()) ^ set(wanted.items()))[:4]}"
    wrong = [name for name, part in saved(ws).items() if str(part.dtype) != "float32"]
    assert not wrong, f"{wrong[:3]} are not float32"


@check(weight=6, required=True)
def two_steps_were_taken(ws: Workspace) -> float:
    """The saved weights are those after the two steps, from the hub's weights and the new head."""
    wanted, right = expected(ws)[0], 0
    faults = []
    for name, part in wanted.items():
        assert name in saved(ws), f"{name} is missing"
        try:
            close(saved(ws)[name], part, rtol=0, atol=1e-5 + rounded(ws)[0][name], what=name)
            right += 1
        except AssertionError as error:
            faults.append(str(error))
    if right == 0:
        raise AssertionError(faults[0])
    return right / len(wanted)


@check(weight=3, required=True)
def losses_are_true(ws: Workspace) -> None:
    """Both losses are those that the judge measures on the first mini-batch."""
    training = mapping(info(ws)["training"], keys=["initial_loss", "final_loss"])
    _, *losses = expected(ws)
    for name, loss, more in zip(("initial_loss", "final_loss"), losses, rounded(ws)[1:], strict=True):
        check_claim(ws, name, training[name], loss, 1e-4 + more, higher_is_better=False)
