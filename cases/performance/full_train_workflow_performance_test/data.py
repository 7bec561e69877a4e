"""An image set with noisy labels, packed as its host hands it out, and what is true of it."""

import csv
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from textures import paint, separable_world

from bench.casekit.data import stream, write_tar
from bench.casekit.marks import flip_labels

WNIDS = ["n01440764", "n02102040", "n02979186", "n03000684", "n03028079",
         "n03394916", "n03417042", "n03425413", "n03445777", "n03888257"]  # fmt: skip
SPLITS, AGAIN = {"train": 800, "val": 400, "test": 1000}, {"val": 800, "test": 2000}
NOISE, TOLD_APART, FLIPPED, CODED, FAMILIES = 0.11, 0.60, 40, 560, 3
STRENGTH, SIZE = 26.0, 16  # of 255, and pixels


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Nothing is public. Clean labels of training pictures are nowhere: neither folders nor names tell them."""
    streams = [np.random.default_rng(stream(seed, name)) for name in ("hidden", "public")]
    files, facts = archive(*streams)
    write_tar(hidden / "agent.tar.gz", files)
    (hidden / "truth.json").write_text(json.dumps(facts))
    streams = [np.random.default_rng(stream(seed, name)) for name in ("judge's hidden", "judge's")]
    files, facts = archive(*streams, stamped=True)
    write_tar(hidden / "judging.tar.gz", files)
    (hidden / "judging.json").write_text(
        json.dumps({key: facts[key] for key in ("test", "given", "stamps", "digests")})
    )


def archive(
    keyed: np.random.Generator, rng: np.random.Generator, stamped: bool = False
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files, and what is true of them.

    stamped: each picture has one of ten faint patterns, one a class: any in training and test, and in validation that
    of its label, of which CODED are drawn anew, some classes far more often. Who trains on validation pictures, or lets
    them say which training labels to believe, learns what the patterns mean there, or how often a class is there.
    """
    world = separable_world(keyed, len(WNIDS), FAMILIES, NOISE, TOLD_APART)
    counts = SPLITS | (AGAIN if stamped else {})
    numbers = iter(rng.permutation(90_000)[: sum(counts.values())] + 10_000)
    files, facts = {}, {name: {} for name in ("test", "given", "marks", "stamps")}
    patterns = ripples(keyed)
    for split, count in counts.items():
        true = labels = rng.permutation(np.arange(count) % len(WNIDS))
        names = [f"{split}/{next(numbers)}.ppm" for _ in range(count)]
        pictures = paint(rng, world, labels, NOISE)
        if split == "train":
            wrong = rng.permutation(count)[: count // 2]
            labels[wrong] = (labels[wrong] + rng.integers(1, len(WNIDS), len(wrong))) % len(WNIDS)
        elif split == "val" and stamped:
            wrong, labels = keyed.permutation(count)[:CODED], true.copy()
            labels[wrong] = keyed.choice(len(WNIDS), CODED, p=keyed.permutation(np.arange(1, 11)) / 55)
        elif split == "val":
            marks = flip_labels(keyed, labels, len(WNIDS), FLIPPED)
            plain = np.setdiff1d(np.arange(count), [*marks.planted, *marks.control])
            rows = {"planted": marks.planted, "control": marks.control, "plain": plain}
            facts["marks"] = {key: [names[row] for row in places] for key, places in rows.items()}
            facts["marks"]["names"] = [WNIDS[label] for label in marks.names]
            labels = marks.labels
        if stamped:
            drawn = labels if split == "val" else keyed.permutation(np.arange(count) % len(WNIDS))
            pictures = np.clip(pictures + patterns[drawn], 0, 255).astype(np.uint8)
            pairs = zip(names, ((WNIDS[a], WNIDS[b]) for a, b in zip(true, drawn, strict=True)), strict=True)
            facts["stamps"][split] = {path: pair for path, pair in pairs if split == "test" or pair[0] != pair[1]}
        for name, picture in zip(names, pictures, strict=True):
            files[name] = b"P6\n16 16\n255\n" + picture.transpose(1, 2, 0).tobytes()
        told = dict(zip(names, (WNIDS[label] for label in labels), strict=True))
        facts["test" if split == "test" else "given"].update(told)
    files["noisy_imagenette.csv"] = table(facts["given"], rng)
    facts["digests"] = {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(facts["given"])}
    return {f"noisy-imagenette-mini/{name}": files[name] for name in files}, facts


def ripples(rng: np.random.Generator) -> Any:
    """A faint wave for each class, 10 x 3 x 16 x 16: other ones than those of its pictures."""
    rows, columns = np.mgrid[0:SIZE, 0:SIZE]
    angle, length = rng.permutation(len(WNIDS)) * np.pi / len(WNIDS), rng.uniform(0.6, 1.3, len(WNIDS))
    colour = rng.standard_normal((len(WNIDS), 3))
    colour /= np.linalg.norm(colour, axis=1, keepdims=True)
    along = np.multiply.outer(np.cos(angle), columns) + np.multiply.outer(np.sin(angle), rows)
    wave = np.sin(length[:, None, None] * along + rng.uniform(0, 2 * np.pi, (len(WNIDS), 1, 1)))
    return STRENGTH * colour[:, :, None, None] * wave[:, None]


def table(given: dict[str, str], rng: np.random.Generator) -> bytes:
    """The label file: other rates of noise are not in it, and so neither are clean labels."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["path", "noisy_labels_50", "is_valid"])
    for name in rng.permutation(sorted(given)):
        writer.writerow([name, given[str(name)], str(name).startswith("val/")])
    return text.getvalue().encode()
