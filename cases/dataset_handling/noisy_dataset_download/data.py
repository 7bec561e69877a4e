"""A small Imagenette look-alike: JPEG mosaics, a table of noisy labels, one archive."""

import csv
import hashlib
import io
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.casekit.data import write_tar
from bench.casekit.picture_files import jpeg

WNIDS = [
    "n01440764",  # tench
    "n02102040",  # English springer
    "n02979186",  # cassette player
    "n03000684",  # chain saw
    "n03028079",  # church
    "n03394916",  # French horn
    "n03417042",  # garbage truck
    "n03425413",  # gas pump
    "n03445777",  # golf ball
    "n03888257",  # parachute
]
RATES = [0, 1, 5, 25, 50]
ROOT = "imagenette2-160-mini"
ARCHIVE = f"{ROOT}.tgz"


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Nothing is public: the agent gets the archive from the mirror, and only the judge gets the truth."""
    rng = np.random.default_rng(seed)
    train, val = _names("train", 24, 37, rng), _names("val", 8, 17, rng)
    files = {path: jpeg(_picture(WNIDS.index(path.split("/")[1]), rng)) for path in train + val}
    labels = {rate: _noisy(train, rate, rng) | {path: path.split("/")[1] for path in val} for rate in RATES}
    files["noisy_imagenette.csv"] = _label_file(labels, set(val), rng)
    # Neither a picture nor a table: who unpacks what he takes for the set alone has not all of it.
    files["wnids.txt"] = "\n".join([*WNIDS, ""]).encode()

    # In name order the label file comes first: a cut transfer still yields every label.
    write_tar(hidden / ARCHIVE, {f"{ROOT}/{name}": content for name, content in files.items()})
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
    (hidden / "truth.json").write_text(json.dumps({"files": digests, "labels": labels[50]}, sort_keys=True, indent=1))


def _names(split: str, low: int, high: int, rng: np.random.Generator) -> list[str]:
    """Between `low` and `high` - 1 image paths a class, numbered with gaps as in the real set.

    So few numbers that both splits have files of one name: only the path tells them apart. As in the real set, some
    are pictures of ImageNet's validation by their names, in both splits.
    """
    return [
        f"{split}/{wnid}/{wnid}_{number}.JPEG" if number % 9 else f"{split}/{wnid}/ILSVRC2012_val_000{number:05}.JPEG"
        for wnid in WNIDS
        for number in sorted(rng.choice(99, size=int(rng.integers(low, high)), replace=False).tolist())
    ]


def _noisy(paths: list[str], rate: int, rng: np.random.Generator) -> dict[str, str]:
    """The class of each path, `rate` per cent of them replaced by one of the other nine."""
    labels = [WNIDS.index(path.split("/")[1]) for path in paths]
    for row in rng.choice(len(paths), size=round(len(paths) * rate / 100), replace=False).tolist():
        labels[row] = (labels[row] + int(rng.integers(1, 10))) % 10
    return {path: WNIDS[label] for path, label in zip(paths, labels, strict=True)}


def _label_file(labels: dict[int, dict[str, str]], validation: set[str], rng: np.random.Generator) -> bytes:
    paths = list(labels[0])
    rng.shuffle(paths)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["path", *(f"noisy_labels_{rate}" for rate in RATES), "is_valid"])
    for path in paths:
        writer.writerow([path, *(labels[rate][path] for rate in RATES), path in validation])
    return text.getvalue().encode()


def _picture(label: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A mosaic of 8-pixel tiles, shorter side 160: each class has its hue, direction and stripe width."""
    sides = [20, int(rng.integers(20, 31))]
    rng.shuffle(sides)
    y, x = np.mgrid[: sides[0], : sides[1]]
    angle = np.pi * label / 10 + rng.normal(0, 0.08)
    wave = np.sin((x * np.cos(angle) + y * np.sin(angle)) * (0.5 + 0.15 * (label % 3)) + rng.uniform(0, 2 * np.pi))
    hue = 2 * np.pi * label / 10 + rng.normal(0, 0.15)
    colour = np.array([np.cos(hue + shift) for shift in (0, 2.1, 4.2)])
    pixels = 128 + 55 * wave[..., None] * (1 + colour) + 40 * colour + rng.normal(0, 12, (*sides, 3))
    tiles: NDArray[np.int64] = np.clip(pixels, 0, 255).astype(np.int64)
    return tiles
