"""A small Imagenette look-alike: JPEG mosaics, a table of noisy labels, one archive."""

import csv
import hashlib
import io
import json
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.casekit.data import write_tar

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
BLOCK = 8


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Nothing is public: the agent gets the archive from the mirror, and only the judge gets the truth."""
    rng = np.random.default_rng(seed)
    train, val = _names("train", 24, 37, rng), _names("val", 8, 17, rng)
    files = {path: jpeg(_picture(WNIDS.index(path.split("/")[1]), rng)) for path in train + val}
    labels = {rate: _noisy(train, rate, rng) | {path: path.split("/")[1] for path in val} for rate in RATES}
    files["noisy_imagenette.csv"] = _label_file(labels, set(val), rng)

    # In name order the label file comes first: a cut transfer still yields every label.
    write_tar(hidden / ARCHIVE, {f"{ROOT}/{name}": content for name, content in files.items()})
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
    (hidden / "truth.json").write_text(json.dumps({"files": digests, "labels": labels[50]}, sort_keys=True, indent=1))


def _names(split: str, low: int, high: int, rng: np.random.Generator) -> list[str]:
    """Between `low` and `high` - 1 image paths a class, numbered with gaps as in the real set."""
    return [
        f"{split}/{wnid}/{wnid}_{number}.JPEG"
        for wnid in WNIDS
        for number in sorted(rng.choice(14_000, size=int(rng.integers(low, high)), replace=False).tolist())
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


def jpeg(tiles: NDArray[np.int64]) -> bytes:
    """A baseline JPEG whose 8 x 8 blocks are flat: tiles is an RGB image, one pixel a block.

    A flat block is its mean alone: the difference to the previous block's mean, and "no more coefficients". Hence
    two toy Huffman tables do: the size of a difference is its own 4-bit code, the end of a block is a single 0.
    """
    height, width = tiles.shape[0] * BLOCK, tiles.shape[1] * BLOCK
    to_ycc = np.array([[0.299, 0.587, 0.114], [-0.1687, -0.3313, 0.5], [0.5, -0.4187, -0.0813]])
    means = np.rint(tiles.reshape(-1, 3) @ to_ycc.T - [128, 0, 0]).astype(np.int64)
    change = np.diff(np.clip(means, -128, 127), axis=0, prepend=0).reshape(-1)
    size = np.ceil(np.log2(np.abs(change) + 1)).astype(np.int64)
    value = np.where(change < 0, change + (1 << size) - 1, change)
    code, length = ((size << size) | value) << 1, size + 5
    shift = length[:, None] - 1 - np.arange(length.max())
    bits = ((code[:, None] >> np.maximum(shift, 0)) & 1)[shift >= 0]
    scan = np.packbits(np.concatenate([bits, np.ones(-len(bits) % 8, np.int64)]).astype(np.uint8)).tobytes()

    components = b"".join(bytes([number, 0x11, 0]) for number in (1, 2, 3))
    return b"".join(
        [
            b"\xff\xd8",
            _segment(0xE0, b"JFIF\0" + bytes([1, 1, 0, 0, 1, 0, 1, 0, 0])),
            _segment(0xDB, b"\0" + bytes([8] * 64)),  # 8 undoes the factor 8 of a flat block's cosine transform
            _segment(0xC0, struct.pack(">BHHB", 8, height, width, 3) + components),
            _segment(0xC4, b"\x00" + bytes([0, 0, 0, 12] + [0] * 12) + bytes(range(12))),
            _segment(0xC4, b"\x10" + bytes([1] + [0] * 15) + b"\0"),
            _segment(0xDA, b"\x03" + b"".join(bytes([number, 0]) for number in (1, 2, 3)) + bytes([0, 63, 0])),
            scan.replace(b"\xff", b"\xff\0"),
            b"\xff\xd9",
        ]
    )


def _segment(marker: int, content: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content
