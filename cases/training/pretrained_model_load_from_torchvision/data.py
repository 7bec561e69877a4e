"""A zoo of small ResNets: names and layout as torchvision's, sizes and weights of the seed."""

import hashlib
import io
import json
import random
from pathlib import Path

import numpy as np
import torch

from bench.casekit.data import stream, write_npz

DEPTHS = {"resnet18": 2, "resnet10": 1}
VERSIONS, SETS = 5, 3  # the default is neither the first nor the last, and neither the newest nor the oldest
SIDES = (160, 176, 192, 208, 232, 240)  # of a cropped picture; not 224, which everybody knows by heart


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    rng = random.Random(stream(seed, "hidden"))
    index: dict[str, dict[str, object]] = {}
    sides = iter(rng.sample(SIDES, len(DEPTHS) * SETS))
    for model, blocks in DEPTHS.items():
        config = {"width": rng.randrange(9, 15), "num_classes": rng.randrange(90, 150)}
        names = [f"IMAGENET1K_V{n}" for n in sorted(rng.sample(range(1, VERSIONS + 1), SETS))]
        default, weights = names[SETS // 2], {}
        for name in names:
            arrays = drawn(np.random.default_rng(stream(seed, f"{model} {name}")), blocks, **config)
            file = saved(hidden, model, arrays)
            side = next(sides)
            weights[name] = {
                "url": f"/models/{file}",
                "transforms": {"resize": 256, "center_crop": side, "channels": 3},
            }
            if model == "resnet18" and name == default:
                write_npz(hidden / "truth.npz", **arrays)
                (hidden / "truth.json").write_text(json.dumps({"file": file, "input_shape": [3, side, side]}))
        index[model] = {"config": config, "default": default, "weights": weights}
    (hidden / "index.json").write_text(json.dumps(index, sort_keys=True))


def saved(folder: Path, model: str, arrays: dict[str, np.ndarray]) -> str:
    """Write the file of `torch.save`, and give its name, which has its digest."""
    buffer = io.BytesIO()
    torch.save({name: torch.from_numpy(array) for name, array in arrays.items()}, buffer)
    file = f"{model}-{hashlib.sha256(buffer.getvalue()).hexdigest()[:8]}.pth"
    (folder / file).write_bytes(buffer.getvalue())
    return file


def drawn(rng: np.random.Generator, blocks: int, width: int, num_classes: int) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}

    def convolution(name: str, outside: int, inside: int, side: int) -> None:
        arrays[f"{name}.weight"] = rng.standard_normal((outside, inside, side, side), np.float32) / (side * inside**0.5)

    def norm(name: str, size: int) -> None:
        for part, centre in {"weight": 1, "bias": 0, "running_mean": 0}.items():
            arrays[f"{name}.{part}"] = (centre + 0.1 * rng.standard_normal(size)).astype(np.float32)
        arrays[f"{name}.running_var"] = rng.uniform(0.5, 1.5, size).astype(np.float32)

    convolution("conv1", width, 3, 7)
    norm("bn1", width)
    inside = width
    for stage in range(4):
        outside = width * 2**stage
        for block in range(blocks):
            name = f"layer{stage + 1}.{block}"
            convolution(f"{name}.conv1", outside, inside, 3)
            norm(f"{name}.bn1", outside)
            convolution(f"{name}.conv2", outside, outside, 3)
            norm(f"{name}.bn2", outside)
            if inside != outside:
                convolution(f"{name}.downsample.0", outside, inside, 1)
                norm(f"{name}.downsample.1", outside)
            inside = outside
    arrays["fc.weight"] = (0.1 * rng.standard_normal((num_classes, inside))).astype(np.float32)
    arrays["fc.bias"] = (0.1 * rng.standard_normal(num_classes)).astype(np.float32)
    return arrays
