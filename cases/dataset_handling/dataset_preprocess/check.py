"""The arrays decide: the true pictures, and what leads from them to each augmented version."""

import posixpath
from typing import Any

import numpy as np
from draws import faults
from explain import Found, explain

from bench.judge import Workspace, array, check, close, holds_only, mapping, number, once, sequence, string

BATCH = "data/cifar-10-batches-bin/data_batch_1.bin"
COUNT, VERSIONS, SHAPE = 10, 3, (3, 32, 32)
INFO, PREPROCESSED, AUGMENTED = "preprocessing_info.json", "preprocessed", "augmented"
FACTORS = ("brightness", "contrast", "saturation")
ALIKE = 0.9
"""Correlation with a picture of the batch, which no scale changes; of noise at most 0.1."""
LEAST_EXPLAINED = 0.95
"""Rough interpolation explains 0.98, a hue turned by 18 degrees 0.92, another picture of the ten at most 0.5."""
MOST_MOVED, MOST_STRETCHED, MOST_TINTED = 0.05, 0.15, 0.0005
"""Nearest neighbour: 0.023, 0.06, 0.0001. Turned about the pixel (16, 16): 0.09; zoomed by 1.02: 0.26; hue: 0.0013."""
MOST_BENT = 0.35
"""Any weights, nearest neighbour: at most 0.18 (standard deviation 0.06); HSV or HSL: 0.38 to 1.3, mostly 1."""


@once
def batch(ws: Workspace) -> Any:
    """All pictures of the batch, N x 3 x 32 x 32 in [0, 1]."""
    records = np.frombuffer(ws.original(BATCH).read_bytes(), np.uint8).reshape(-1, 3073)
    return records[:, 1:].reshape(-1, *SHAPE) / 255.0


def pictures(ws: Workspace) -> Any:
    """The true pictures, 10 x 3 x 32 x 32 in [0, 1]."""
    return batch(ws)[:COUNT]


def names(ws: Workspace, folder: str) -> list[str]:
    return [posixpath.basename(path) for path in ws.files(f"{folder}/*.npy")]


def load(ws: Workspace, path: str) -> Any:
    """An array of the promised type and shape, as float64."""
    loaded = ws.npy(path, max_mb=1)
    assert str(loaded.dtype) == "float32", f"{path} is {loaded.dtype}, not float32"
    return array(loaded, shape=SHAPE)


@once
def bases(ws: Workspace) -> list[str]:
    """Names of the preprocessed pictures without ending."""
    found = names(ws, PREPROCESSED)
    assert len(found) == COUNT, f"{PREPROCESSED} holds {len(found)} .npy files, expected {COUNT}"
    return [name.removesuffix(".npy") for name in found]


@once
def rows(ws: Workspace) -> dict[str, int]:
    """Which true picture each base name shows: the nearest one."""
    found = {}
    for base in bases(ws):
        values = load(ws, f"{PREPROCESSED}/{base}.npy")
        found[base] = int(np.argmin(np.abs(pictures(ws) * 2 - 1 - values).mean(axis=(1, 2, 3))))
    return found


@once
def explanations(ws: Workspace) -> list[list[Found]]:
    """Of each picture's three versions, in the order of the base names."""
    return [
        [
            explain(pictures(ws)[row], (load(ws, f"{AUGMENTED}/{base}_v{version}.npy") + 1) / 2)
            for version in range(1, VERSIONS + 1)
        ]
        for base, row in rows(ws).items()
    ]


@check(weight=3, required=True)
def info_describes_the_data(ws: Workspace) -> None:
    """The information file has all keys with the agreed values."""
    info = mapping(ws.json(INFO), keys=["dataset", "preprocessing", "preprocessed_data_path", "augmented_data_path"])
    assert string(info["dataset"]) == "CIFAR10", f"dataset is {info['dataset'][:40]!r}, expected 'CIFAR10'"
    for key, folder in (("preprocessed_data_path", PREPROCESSED), ("augmented_data_path", AUGMENTED)):
        path = posixpath.normpath(string(info[key]))
        assert path == folder, f"{key} is {path[:60]!r}, expected {folder!r}"
    done = mapping(info["preprocessing"], keys=["normalization", "expected_shape", "value_range"])
    scaling = mapping(done["normalization"], keys=["mean", "std"])
    facts = {"mean": scaling["mean"], "std": scaling["std"], **done}
    for key, wanted in {"mean": [0.5] * 3, "std": [0.5] * 3, "expected_shape": SHAPE, "value_range": (-1, 1)}.items():
        values = [number(value) for value in sequence(facts[key], length=len(wanted))]
        assert values == list(wanted), f"{key} is {values}, expected {list(wanted)}"


@once
def assert_pictures(ws: Workspace) -> None:
    """Each array shows a picture of the batch, in whatever scale: the form without content earns nothing."""
    known = batch(ws).reshape(-1, np.prod(SHAPE))
    known = known - known.mean(axis=1, keepdims=True)
    for base in bases(ws):
        values = load(ws, f"{PREPROCESSED}/{base}.npy").ravel()
        values = np.clip(values, -1e6, 1e6) - np.clip(values, -1e6, 1e6).mean()
        sizes = np.linalg.norm(known, axis=1) * np.linalg.norm(values)
        assert (known @ values >= ALIKE * np.maximum(sizes, 1e-9)).any(), (
            f"{base[:60]}.npy shows no picture of the batch"
        )


@check(weight=3, required=True)
def ten_arrays_have_the_form(ws: Workspace) -> None:
    """The folder of preprocessed pictures holds ten float32 arrays (3, 32, 32), pictures of the batch, alone."""
    assert_pictures(ws)
    holds_only(ws, PREPROCESSED, [f"{base}.npy" for base in bases(ws)])


@check(weight=6, required=True)
def values_are_normalised(ws: Workspace) -> None:
    """They are the first ten pictures, each once, normalised to (x - 0.5) / 0.5."""
    for base, row in rows(ws).items():
        close(load(ws, f"{PREPROCESSED}/{base}.npy"), pictures(ws)[row] * 2 - 1, rtol=0, atol=1e-5, what=base[:60])
    shown = sorted(rows(ws).values())
    assert shown == list(range(COUNT)), f"of the pictures 0 to 9 these are there: {shown}"


@check(weight=3, required=True)
def thirty_versions_are_named(ws: Workspace) -> None:
    """Each picture has its versions _v1, _v2 and _v3 as float32 arrays in [-1, 1], and nothing else is there."""
    assert_pictures(ws)
    wanted = {f"{base}_v{version}.npy" for base in bases(ws) for version in range(1, VERSIONS + 1)}
    holds_only(ws, AUGMENTED, wanted)
    for name in sorted(wanted):
        widest = float(np.abs(load(ws, f"{AUGMENTED}/{name}")).max())
        assert widest <= 1 + 1e-5, f"{name} has a value of size {widest:.4g}; after clipping it is at most 1"


@check(weight=3, required=True)
def versions_show_their_picture(ws: Workspace) -> None:
    """Each version is its own picture after a flip, a rotation of at most 15 degrees and a jitter within its bounds."""
    for base, versions in zip(bases(ws), explanations(ws), strict=True):
        for version, found in enumerate(versions, start=1):
            name = f"{base[:60]}_v{version}"
            assert found.explained >= LEAST_EXPLAINED, (
                f"{name}: flip, rotation and jitter of its picture explain {found.explained:.2f} of it"
            )
            assert abs(found.degrees) <= 17.5, f"{name} is turned by {found.degrees:.0f} degrees"
    factors = np.array([found.factors for versions in explanations(ws) for found in versions])
    outside = int(((factors < 0.72) | (factors > 1.28)).any(axis=1).sum())
    assert outside <= 3, f"{outside} of {len(factors)} versions have a factor of the jitter far from 0.8 to 1.2"
    every = [found for versions in explanations(ws) for found in versions]
    for about, sizes, most in (
        ("moved besides, or turned about another point than the centre", [it.moved for it in every], MOST_MOVED),
        ("stretched or sheared besides", [it.stretched for it in every], MOST_STRETCHED),
    ):
        size = float(np.median(sizes))
        assert size <= most, f"the versions are {about} (by {size:.2f} pixels, the median)"
    mixed = np.array([np.prod(it.factors[:2]) * (1 - it.factors[2]) for it in every])
    there, room = np.array([it.bent for it in every]).T
    assert abs(there @ mixed) <= MOST_BENT * max(room @ mixed**2, 1e-9), (
        "saturation does not mix with a weighted mean of each pixel's channels (but as in HSV, HSL or the like)"
    )
    tinted = float(np.mean([it.tinted for it in every]))
    assert tinted <= MOST_TINTED, (
        f"the channels change otherwise than by the jitter (hue, contrast by channel or the like: {tinted:.4f})"
    )


@check(weight=2, required=True)
def versions_are_drawn_anew(ws: Workspace) -> None:
    """Flip, angle and all three factors vary over the set, with the picture and with the version, each by itself."""
    found = list(faults(explanations(ws)))
    assert not found, "; ".join(found[:4])
