"""An image set with noisy labels, packed as its host hands it out, and what is true of it."""

import csv
import hashlib
import io
import json
from pathlib import Path

import numpy as np
from textures import paint, separable_world

from bench.casekit.data import stream, write_tar
from bench.casekit.marks import flip_labels

WNIDS = ["n01440764", "n02102040", "n02979186", "n03000684", "n03028079",
         "n03394916", "n03417042", "n03425413", "n03445777", "n03888257"]  # fmt: skip
SPLITS = {"train": 800, "val": 400, "test": 1000}
NOISE, TOLD_APART, FLIPPED = 0.11, 0.55, 40


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Nothing is public. Clean labels of training pictures are nowhere: neither folders nor names tell them."""
    keyed, rng = (np.random.default_rng(stream(seed, name)) for name in ("hidden", "public"))
    world = separable_world(keyed, len(WNIDS), 3, NOISE, TOLD_APART)
    numbers = iter(rng.permutation(90_000)[: sum(SPLITS.values())] + 10_000)
    files, truth, given = {}, {}, {}
    for split, count in SPLITS.items():
        labels = rng.permutation(np.arange(count) % len(WNIDS))
        names = [f"{split}/{next(numbers)}.ppm" for _ in range(count)]
        for name, picture in zip(names, paint(rng, world, labels, NOISE), strict=True):
            files[name] = b"P6\n16 16\n255\n" + picture.transpose(1, 2, 0).tobytes()
        if split == "train":
            wrong = rng.permutation(count)[: count // 2]
            labels[wrong] = (labels[wrong] + rng.integers(1, len(WNIDS), len(wrong))) % len(WNIDS)
        elif split == "val":
            marks = flip_labels(keyed, labels, len(WNIDS), FLIPPED)
            plain = np.setdiff1d(np.arange(count), [*marks.planted, *marks.control])
            rows = {"planted": marks.planted, "control": marks.control, "plain": plain}
            marked = {key: [names[row] for row in places] for key, places in rows.items()}
            marked["names"] = [WNIDS[label] for label in marks.names]
            labels = marks.labels
        told = dict(zip(names, (WNIDS[label] for label in labels), strict=True))
        (truth if split == "test" else given).update(told)
    files["noisy_imagenette.csv"] = table(given, rng)
    write_tar(hidden / "noisy-imagenette-mini.tar.gz", {f"noisy-imagenette-mini/{name}": files[name] for name in files})
    digests = {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(given)[::10]}
    facts = {"test": truth, "given": given, "marks": marked, "digests": digests}
    (hidden / "truth.json").write_text(json.dumps(facts))


def table(given: dict[str, str], rng: np.random.Generator) -> bytes:
    """The label file: other rates of noise are not in it, and so neither are clean labels."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["path", "noisy_labels_50", "is_valid"])
    for name in rng.permutation(sorted(given)):
        writer.writerow([name, given[str(name)], str(name).startswith("val/")])
    return text.getvalue().encode()
