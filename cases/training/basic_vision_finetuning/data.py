"""A repository with a small model of the seed, and pictures of ten classes: painted, or those of CIFAR-10."""

import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from bench.casekit.data import stream
from bench.casekit.picture_files import CIFAR_FOLDER, write_cifar10
from bench.casekit.pictures import SHAPES, shapes

SIZES = {"embed": (64, 3, 4, 4), "mix": (128, 64, 1, 1), "hidden": (128, 128), "head": (8, 128)}


def build(public: Path, hidden: Path, profile: str, seed: int, sources: Path | None = None) -> None:
    if sources is None:
        rng = np.random.default_rng(stream(seed, "public"))
        labels = [rng.integers(0, 10, count) for count in (600, 60)]
        train, test = ((shapes(rng, each, difficulty=0.4), each) for each in labels)
        write_cifar10(public / "data", train, test, SHAPES)
    else:
        lay_published(sources / "cifar10" / CIFAR_FOLDER, public / "data" / CIFAR_FOLDER)
    draw = np.random.default_rng(stream(seed, "hidden"))
    folder = hidden / "model"
    folder.mkdir()
    arrays = {}
    for name, size in SIZES.items():
        inside = int(np.prod(size[1:]))
        arrays[f"{name}.weight"] = (draw.standard_normal(size) * (2 / inside) ** 0.5).astype(np.float32)
        arrays[f"{name}.bias"] = (0.05 * draw.standard_normal(size[0])).astype(np.float32)
    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
    config = {"model_type": "tiny-vision", "architectures": ["TinyVision"], "num_labels": 8, "hidden_size": 128}
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    scaling = {name: [round(float(x), 3) for x in draw.uniform(*span, 3)] for name, span in
               (("image_mean", (0.3, 0.6)), ("image_std", (0.15, 0.35)))}  # fmt: skip
    # Not 1 / 255, which would be right for who never reads it.
    scaling |= {
        "rescale_factor": round(float(draw.uniform(0.003, 0.0036)), 6),
        "do_rescale": True,
        "do_normalize": True,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(scaling, indent=2))


def lay_published(source: Path, target: Path) -> None:
    """Copies, because the agent may write to them and the source is every trial's."""
    target.mkdir(parents=True)
    for path in sorted(source.iterdir()):
        if path.suffix in (".bin", ".txt"):
            shutil.copyfile(path, target / path.name)
