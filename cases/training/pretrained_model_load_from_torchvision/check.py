"""The saved file is compared with the zoo's, tensor by tensor, and the description with that."""

import json
import posixpath
from pathlib import Path
from typing import Any

import numpy as np

from bench.judge import Checkpoint, Workspace, check, close, integer, mapping, once, read_checkpoint, sequence, string

INFO = "model_info.json"
BUFFERS = ("running_mean", "running_var", "num_batches_tracked")
COUNTER = "num_batches_tracked"


@once
def truth(ws: Workspace) -> dict[str, Any]:
    """The tensors of the default weights."""
    with np.load(ws.hidden("truth.npz"), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


@once
def facts(ws: Workspace) -> dict[str, Any]:
    """File of the default weights, and the shape of a picture after their transforms."""
    loaded: dict[str, Any] = json.loads(Path(ws.hidden("truth.json")).read_text())
    return loaded


def info(ws: Workspace) -> dict[str, Any]:
    return mapping(ws.json(INFO), keys=["model_name", "model_path", "architecture"])


@once
def saved(ws: Workspace) -> Checkpoint:
    """The file that the description names."""
    path = string(info(ws)["model_path"])
    assert path and not path.startswith("/"), f"model_path {path[:100]!r} is not relative to the workspace"
    return read_checkpoint(ws, posixpath.normpath(path), max_mb=20)


@check(weight=2, required=True)
def default_weights_were_fetched(ws: Workspace) -> None:
    """The zoo handed out the file of the default weights (its own record)."""
    file = facts(ws)["file"]
    asked = [event for event in ws.journal("zoo") if event.get("event") == "asked"]
    fetched = [event["file"] for event in asked if event["method"] == "GET"]
    assert file in fetched, f"{file} was never fetched; fetched were {sorted(set(fetched))[:5]}"


@check(weight=2, required=True)
def description_has_the_form(ws: Workspace) -> None:
    """The description has the agreed keys, the model's name and the shape of its input."""
    found = info(ws)
    assert string(found["model_name"]) == "resnet18", f"model_name is {found['model_name'][:60]!r}"
    architecture = mapping(found["architecture"], keys=["input_shape", "num_parameters"])
    shape = [integer(size) for size in sequence(architecture["input_shape"])]
    expected = facts(ws)["input_shape"]
    assert shape == expected, f"input_shape is {shape[:6]}, the transforms of the weights give {expected}"


@check(weight=3, required=True)
def parameters_are_counted(ws: Workspace) -> None:
    """The number of parameters is that of the model, without its buffers."""
    claimed = integer(mapping(info(ws)["architecture"], keys=["num_parameters"])["num_parameters"])
    expected = sum(array.size for name, array in truth(ws).items() if not name.endswith(BUFFERS))
    assert claimed == expected, f"num_parameters is {claimed:,}, the model has {expected:,}"


@check(weight=3, required=True)
def file_is_a_state_dictionary(ws: Workspace) -> None:
    """The file of model_path holds a state dictionary with the names and shapes of the model, and nothing else."""
    wanted = {name: array.shape for name, array in truth(ws).items()}
    saved(ws).below("")  # fails where no model loads it
    # Nor has a model of these an extra state, which other state dictionaries may have.
    found = {**dict.fromkeys([*saved(ws).values, *saved(ws).others]), **saved(ws).shapes}
    allowed = dict.fromkeys((name.replace("running_mean", COUNTER) for name in wanted), ()) | wanted
    missing, extra = sorted(wanted.keys() - found.keys()), sorted(found.keys() - allowed.keys())
    assert not missing and not extra, f"{len(missing)} tensors missing, e.g. {missing[:2]}; too many are {extra[:2]}"
    wrong = [name for name, shape in found.items() if shape != allowed[name]]
    assert not wrong, f"{wrong[0]} has the shape {found[wrong[0]]}, the model's has {allowed[wrong[0]]}"


@check(weight=6, required=True)
def tensors_equal_the_zoos(ws: Workspace) -> None:
    """Every tensor is float32 and has the values of the default weights; counters are whole numbers."""
    checkpoint = saved(ws)
    for name, kind in checkpoint.dtypes.items():
        right = "int64" if name.endswith(COUNTER) else "float32"
        assert kind == right, f"{name} is {kind}, not {right}"
    for name, expected in truth(ws).items():
        assert name in checkpoint.arrays, f"{name} is missing"
        close(checkpoint.arrays[name], expected, rtol=0, atol=0, what=name)
