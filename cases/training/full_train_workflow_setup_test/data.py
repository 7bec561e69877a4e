"""A small Imagenette look-alike with noisy labels in one archive, and a transformer whose embedding knows its classes.

The class of a picture is a texture that lies upon a few of its patches. The pretrained embedding has a filter for each.
"""

import csv
import hashlib
import io
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from bench.casekit.data import stream, write_npz, write_tar
from bench.casekit.picture_files import png

WNIDS = ["n01440764", "n02102040", "n02979186", "n03000684", "n03028079",
         "n03394916", "n03417042", "n03425413", "n03445777", "n03888257"]  # fmt: skip
RATES, WIDTH = [0, 1, 5, 25, 50], 48
ARCHIVE = "noisy-imagenette-mini.tgz"


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Nothing is public: the agent gets the archive from the mirror, and the model from the hub."""
    rng = np.random.default_rng(stream(seed, "hidden"))
    textures = rng.standard_normal((10, 8, 8, 3))
    textures -= textures.mean(axis=(1, 2), keepdims=True)
    paths, pictures, classes = [], [], []
    for split, low, high in (("train", 60, 81), ("val", 16, 25)):
        for label, wnid in enumerate(WNIDS):
            numbers = sorted(rng.choice(14_000, int(rng.integers(low, high)), replace=False).tolist())
            paths += [f"{split}/{wnid}/{wnid}_{number}.png" for number in numbers]
            pictures.append(paint(rng, textures, np.full(len(numbers), label)))
            classes += [label] * len(numbers)
    labels, trained = _noisy(rng, np.array(classes), np.array([path.startswith("train") for path in paths]))
    stack = np.concatenate(pictures)
    files = {path: png(picture) for path, picture in zip(paths, stack, strict=True)}
    order = rng.permutation(len(paths)).tolist()
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["path", *(f"noisy_labels_{rate}" for rate in RATES), "is_valid"])
    for row in order:
        table.writerow([paths[row], *(WNIDS[labels[rate][row]] for rate in RATES), not trained[row]])
    files["noisy_imagenette.csv"] = text.getvalue().encode()
    write_tar(hidden / ARCHIVE, {f"noisy-imagenette-mini/{name}": content for name, content in files.items()})
    unseen = np.repeat(np.arange(10), 30)
    write_npz(
        hidden / "pictures.npz", pictures=stack, labels=labels[50], classes=np.array(classes), train=trained,
        unseen=paint(rng, textures, unseen), unseen_classes=unseen, partners=labels["partners"],
    )  # fmt: skip
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
    noisy = {path: WNIDS[label] for path, label in zip(paths, labels[50], strict=True)}
    (hidden / "truth.json").write_text(json.dumps({"files": digests, "labels": noisy}, sort_keys=True))
    _pretrained(rng, textures, hidden / "model")


def paint(rng: np.random.Generator, textures: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """uint8, N x 32 x 32 x 3: light and noise, and the class's texture on four of the sixteen patches."""
    count = len(labels)
    across = np.linspace(-1, 1, 32)
    slope = rng.normal(0, 25, (count, 2, 1, 1, 3))
    pixels = 128 + slope[:, 0] * across[:, None, None] + slope[:, 1] * across[:, None]
    pixels = pixels + rng.normal(0, 45, (count, 32, 32, 3))
    for row, label in enumerate(labels):
        for patch in rng.choice(16, 4, replace=False):
            top, left = 8 * (patch // 4), 8 * (patch % 4)
            pixels[row, top : top + 8, left : left + 8] += rng.uniform(15, 25) * textures[label]
    return np.clip(pixels, 0, 255).astype(np.uint8)


def _noisy(rng: np.random.Generator, classes: np.ndarray, train: np.ndarray) -> tuple[dict, np.ndarray]:
    """Labels at each rate. Half of the wrong ones are of one other class, the partner; each rate has its own."""
    found: dict = {}
    for rate in RATES:
        order = rng.permutation(10)
        partner = np.empty(10, int)
        partner[order] = np.roll(order, 1)
        labels = classes.copy()
        rows = np.flatnonzero(train)
        for row in rng.choice(rows, round(len(rows) * rate / 100), replace=False):
            true = classes[row]
            others = [label for label in range(10) if label not in (true, partner[true])]
            labels[row] = partner[true] if rng.random() < 0.5 else rng.choice(others)
        found[rate] = labels
        if rate == 50:
            found["partners"] = partner
    return found, train


def _pretrained(rng: np.random.Generator, textures: np.ndarray, folder: Path) -> None:
    folder.mkdir()
    kernel = 0.2 * rng.standard_normal((WIDTH, 3, 8, 8)) / 192**0.5
    kernel[rng.permutation(WIDTH)[:10]] += 12.0 * textures.transpose(0, 3, 1, 2) / 192
    arrays = {"embed.weight": kernel, "embed.bias": 0.1 * rng.standard_normal(WIDTH)}
    arrays["positions"] = 0.05 * rng.standard_normal((1, 16, WIDTH))
    shapes = {"qkv": (3 * WIDTH, WIDTH), "proj": (WIDTH, WIDTH), "fc1": (2 * WIDTH, WIDTH), "fc2": (WIDTH, 2 * WIDTH)}
    for block in range(2):
        for name, shape in shapes.items():
            arrays[f"blocks.{block}.{name}.weight"] = 0.2 * rng.standard_normal(shape) / shape[1] ** 0.5
            arrays[f"blocks.{block}.{name}.bias"] = 0.02 * rng.standard_normal(shape[0])
        for norm in ("norm1", "norm2"):
            arrays[f"blocks.{block}.{norm}.weight"] = 1 + 0.05 * rng.standard_normal(WIDTH)
            arrays[f"blocks.{block}.{norm}.bias"] = 0.05 * rng.standard_normal(WIDTH)
    # Far enough from what a new norm begins with to show whether they were loaded.
    arrays["norm.weight"] = 1 + 0.2 * rng.standard_normal(WIDTH)
    arrays["norm.bias"] = 0.2 * rng.standard_normal(WIDTH)
    named = {name: array.astype(np.float32) for name, array in arrays.items()}
    save_file(named, folder / "model.safetensors", metadata={"format": "pt"})
    config = {"model_type": "tiny-dino", "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4}
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    scaling = {key: [round(float(x), 3) for x in rng.uniform(*span, 3)] for key, span in
               (("image_mean", (0.4, 0.6)), ("image_std", (0.2, 0.3)))}  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(scaling | {"rescale_factor": 1 / 255}, indent=2))
