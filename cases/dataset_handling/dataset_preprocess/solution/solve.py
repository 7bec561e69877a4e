"""Ten pictures: normalised, and three augmented versions of each."""

import json
from pathlib import Path

import numpy as np
from scipy import ndimage

COUNT, VERSIONS = 10, 3
MIDDLE = [0.5, 0.5, 0.5]
GREY = np.array([0.299, 0.587, 0.114]).reshape(3, 1, 1)
BEFORE, AFTER = Path("preprocessed"), Path("augmented")


def load() -> np.ndarray:
    """The first pictures, N x 3 x 32 x 32 in [0, 1]."""
    records = np.fromfile("data/cifar-10-batches-bin/data_batch_1.bin", np.uint8).reshape(-1, 3073)
    return records[:COUNT, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / 255


def normalise(picture: np.ndarray) -> np.ndarray:
    return ((picture - 0.5) / 0.5).astype(np.float32)


def rotate(picture: np.ndarray, degrees: float) -> np.ndarray:
    return ndimage.rotate(picture, degrees, axes=(2, 1), reshape=False, order=1).clip(0, 1)


def jitter(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    brightness, contrast, saturation = rng.uniform(0.8, 1.2, 3)
    picture = (brightness * picture).clip(0, 1)
    mean = (picture * GREY).sum(0).mean()
    picture = (contrast * picture + (1 - contrast) * mean).clip(0, 1)
    grey = (picture * GREY).sum(0, keepdims=True)
    return (saturation * picture + (1 - saturation) * grey).clip(0, 1)


def augment(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    picture = jitter(picture, rng)
    if rng.random() < 0.5:
        picture = picture[:, :, ::-1]
    return rotate(picture, rng.uniform(-15, 15))


def main() -> None:
    rng = np.random.default_rng(16)
    BEFORE.mkdir(exist_ok=True)
    AFTER.mkdir(exist_ok=True)
    for number, picture in enumerate(load()):
        np.save(BEFORE / f"image_{number}.npy", normalise(picture))
        for version in range(1, VERSIONS + 1):
            np.save(AFTER / f"image_{number}_v{version}.npy", normalise(augment(picture, rng)))
    done = {"normalization": dict.fromkeys(("mean", "std"), MIDDLE), "expected_shape": [3, 32, 32], "value_range": [-1, 1]}
    info = {"dataset": "CIFAR10", "preprocessing": done}
    info |= {"preprocessed_data_path": BEFORE.name, "augmented_data_path": AFTER.name}
    Path("preprocessing_info.json").write_text(json.dumps(info, indent=2))


if __name__ == "__main__":
    main()
