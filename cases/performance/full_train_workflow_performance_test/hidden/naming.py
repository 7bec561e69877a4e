"""What the agent's predict.py says by one of its checkpoints, where nothing else of the training is at hand."""

import tarfile
from typing import Any

import numpy as np
from safetensors.numpy import save

from bench.casekit.programs import learns_again
from bench.judge import Workspace, mapping, submission

BACKBONE = "models/backbone/"
WEIGHTS = f"{BACKBONE}weights.safetensors"
NAMED, RUN_S, LEAST = 400, 20, 0.995  # pictures; CPU seconds; the same labels, but for rounding where two are as likely


def named_again(ws: Workspace, folder: Any, archive: str, found: dict[str, str], labels: Any) -> None:
    """AssertionError unless predict.py gives predictions again: by the best checkpoint, of pictures under other names.

    The weights beside backbone.py are mixed up: those that count are in the checkpoint. found: label of each path.
    """
    best = mapping(folder.json("training_metrics.json")).get("best_checkpoint")
    assert isinstance(best, str), "training_metrics.json has no path at best_checkpoint"
    kept = [path for path in folder.files() if path.startswith("checkpoints/") and path.endswith(".pt")]
    assert best in kept, f"best_checkpoint is {best[:60]!r}, which is not among {kept[:3]}"
    rng = ws.numpy_rng(archive)
    paths = [str(path) for path in rng.permutation(sorted(found))[:NAMED]]
    names = {path: f"{number}.ppm" for number, path in enumerate(paths)}
    mixed = {name: rng.permutation(part.ravel()).reshape(part.shape) for name, part in ws.safetensors(WEIGHTS).items()}
    inputs = {"checkpoint.pt": folder.bytes(best, 130), WEIGHTS: save(mixed)}
    inputs[f"{BACKBONE}backbone.py"] = ws.bytes(f"{BACKBONE}backbone.py")
    with tarfile.open(ws.hidden(archive).path) as packed:
        for member in packed:
            path = member.name.partition("/")[2]
            if path in names:
                inputs[f"pictures/{names[path]}"] = packed.extractfile(member).read()  # type: ignore[union-attr]
    ran = learns_again(ws, ["python", "predict.py", "checkpoint.pt", "pictures"], inputs, RUN_S)
    named = submission(ran, "named.csv", ids={"path": list(names.values())}, columns={"label": labels})["label"]
    same = float(np.mean([found[path] == label for path, label in zip(paths, named, strict=True)]))
    ws.metric(f"named_again_{archive.partition('.')[0]}", 100 * same, "%")
    told = f"predict.py gives {same:.1%} of the labels of predictions.csv again by {best[:60]}"
    assert same >= LEAST, f"{told}, wanted {LEAST:.1%}"
