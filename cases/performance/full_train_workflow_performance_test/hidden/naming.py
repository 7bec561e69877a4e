"""What the agent's predict.py says by one of its checkpoints, where nothing else of the training is at hand."""

import tarfile
from typing import Any

import numpy as np
from safetensors.numpy import save

from bench.casekit.programs import learns_again
from bench.judge import Workspace, mapping, submission

BACKBONE = "models/backbone/"
WEIGHTS = f"{BACKBONE}weights.safetensors"
HEAD, FEW, MOST = 13, 3, 0.75  # bytes; classes, and the share of the pictures that are named one of them
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
    paths = _most_of_few(rng, found)
    names = {path: f"{number}.ppm" for number, path in enumerate(paths)}
    mixed = {name: rng.permutation(part.ravel()).reshape(part.shape) for name, part in ws.safetensors(WEIGHTS).items()}
    inputs = {"checkpoint.pt": folder.bytes(best, 130), WEIGHTS: save(mixed)}
    inputs[f"{BACKBONE}backbone.py"] = ws.bytes(f"{BACKBONE}backbone.py")
    with tarfile.open(ws.hidden(archive).path) as packed:
        for member in packed:
            path = member.name.partition("/")[2]
            if path in names:
                inputs[f"pictures/{names[path]}"] = _a_step(rng, packed.extractfile(member).read())  # type: ignore[union-attr]
    ran = learns_again(ws, ["python", "predict.py", "checkpoint.pt", "pictures"], inputs, RUN_S)
    named = submission(ran, "named.csv", ids={"path": list(names.values())}, columns={"label": labels})["label"]
    same = float(np.mean([found[path] == label for path, label in zip(paths, named, strict=True)]))
    ws.metric(f"named_again_{archive.partition('.')[0]}", 100 * same, "%")
    told = f"predict.py gives {same:.1%} of the labels of predictions.csv again by {best[:60]}"
    assert same >= LEAST, f"{told}, wanted {LEAST:.1%}"


def _most_of_few(rng: np.random.Generator, found: dict[str, str]) -> list[str]:
    """Pictures most of which are of few classes: who looks at all that lie together sees others than in training."""
    few = set(rng.permutation(sorted(set(found.values())))[:FEW].tolist())
    drawn = [str(path) for path in rng.permutation(sorted(found))]
    alike = [path for path in drawn if found[path] in few][: int(MOST * NAMED)]
    return alike + [path for path in drawn if path not in {*alike}][: NAMED - len(alike)]


def _a_step(rng: np.random.Generator, picture: bytes) -> bytes:
    """The picture with one of its numbers a step nearer to the middle: no table of pictures has it."""
    numbers, at = bytearray(picture), int(rng.integers(HEAD, len(picture)))
    numbers[at] += 1 if numbers[at] < 128 else -1
    return bytes(numbers)
