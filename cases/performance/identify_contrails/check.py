"""Measures the global Dice of submission.csv, and of train.py on the scenes of another instrument.

The second is what a submission cannot show: that train.py makes such masks, and learns how from the scenes at hand.
"""

from typing import Any

import numpy as np
from sky import HERE, SIDE, Scene, scenes

from bench.casekit.programs import learns_again
from bench.judge import Labels, check, once, submission

BASELINE, TARGET = 0.338, 0.66
BAR = 0.4  # three standard deviations above what the starter reaches; ten per cent are a bit more than one
TRAIN, TEST = 120, 80
APART, RUN_S = 0.15, 90
MOST_AHEAD = 0.02  # masks that lie where the contrails lie lose 0.05 or more when they are moved by a pixel
MOST_TEXT = 30_000  # characters of a mask: 2048 runs of a pixel have 14,000


@check(weight=10, required=True)
def submission_is_complete(ws: Any) -> None:
    """submission.csv has one mask for every test scene, in sorted runs that do not overlap."""
    _submitted(ws)


@check(weight=25)
def close_to_the_best(ws: Any) -> float:
    """Credit for the Dice of the submission, from the starter's to the best known."""
    return float(ws.scale(_dice(ws), floor=BASELINE, target=TARGET))


@check(weight=25, required=True)
def ten_percent_better(ws: Any) -> None:
    """The global Dice of the submission is over 0.4, so over 10 % above the starter's, with pixels numbered rightly."""
    assert _dice(ws) > BAR, f"global Dice {_dice(ws):.3f}, wanted more than {BAR:.3f}"
    truth, found = (it.transpose(0, 2, 1).reshape(len(it), -1) for it in (_answers(ws)[1], _submitted(ws)))
    for pixels in (1, -1, SIDE, -SIDE):
        ahead = global_dice(truth, np.roll(found, pixels, axis=1)) - _dice(ws)
        assert ahead <= MOST_AHEAD, f"with {pixels} more on each pixel number the Dice would be {ahead:.3f} higher"


@check(weight=30, required=True)
def program_learns_another_instrument(ws: Any) -> None:
    """train.py, run on the scenes of another instrument, gets over the same bar."""
    reached = _rerun(ws)
    assert reached > BAR, f"global Dice {reached:.3f} on scenes of another instrument, wanted more than {BAR:.3f}"


@check(weight=5, required=True)
def submission_is_the_programs(ws: Any) -> None:
    """submission.csv is not much better than what train.py reaches where the judge runs it."""
    ahead = _dice(ws) - _rerun(ws)
    assert ahead <= APART, f"submission.csv has a Dice {ahead:.3f} above that of train.py on other scenes"


def global_dice(truth: Any, found: Any) -> float:
    """Of all pixels of all scenes together; masks of 0 and 1 in equal order."""
    return 2 * float((truth & found).sum()) / max(1.0, float(truth.sum()) + float(found.sum()))


def decoded(what: str, text: str) -> Any:
    """The mask of a text, 64 x 64. AssertionError that says which rule it breaks."""
    flat = np.zeros(SIDE * SIDE, np.uint8)
    assert len(text) <= MOST_TEXT, f"{what} has {len(text):,} characters"
    words = [] if text.strip() == "-" else text.split()
    assert words or text.strip() == "-", f"{what} is blank; an empty mask is written as -"
    odd = [word for word in words if not (word.isascii() and word.isdecimal() and len(word) <= 4)]
    assert not odd, f"{what} has {odd[:1]!r:.40}, wanted whole numbers from 1 to {flat.size}"
    numbers = [int(word) for word in words]
    assert len(numbers) % 2 == 0, f"{what} has {len(numbers)} numbers, wanted a start and a length for each run"
    free = 1
    for start, length in zip(numbers[::2], numbers[1::2], strict=True):
        assert start >= 1 and length >= 1, f"{what}: the run {start} {length} is not positive"
        assert start >= free, f"{what}: the run {start} {length} is not sorted, or overlaps with the one before"
        free = start + length
        assert free <= flat.size + 1, f"{what}: the run {start} {length} ends after pixel {flat.size}"
        flat[start - 1 : free - 1] = 1
    return flat.reshape(SIDE, SIDE).T


def _masks(folder: Any, ids: list[str]) -> Any:
    """N x 64 x 64, in the order of `ids`."""
    found = submission(folder, "submission.csv", ids={"record_id": ids}, columns={"encoded_pixels": Labels()})
    texts = zip(ids, found["encoded_pixels"], strict=True)
    return np.stack([decoded(f"submission.csv, the mask of {it}", text) for it, text in texts])


@once
def _answers(ws: Any) -> tuple[list[str], Any]:
    with np.load(ws.hidden("answers.npz").path) as file:
        return file["ids"].tolist(), file["masks"]


@once
def _submitted(ws: Any) -> Any:
    return _masks(ws, _answers(ws)[0])


@once
def _dice(ws: Any) -> float:
    reached = global_dice(_answers(ws)[1], _submitted(ws))
    ws.metric("dice", reached)
    return reached


@once
def _rerun(ws: Any) -> float:
    """Global Dice of train.py on the scenes of another instrument; of the workspace only Python files are left."""
    rng = ws.numpy_rng("another instrument")
    direction = HERE + float(rng.uniform(0.6, 1.4)) * np.pi
    known, asked = scenes(rng, TRAIN, direction), scenes(rng, TEST, direction)
    inputs = _files("train", known, labelled=True) | _files("test", asked, labelled=False)
    ran = learns_again(ws, ["python", "train.py"], inputs, RUN_S, kept=["encode.py"])
    reached = global_dice(np.stack([it.mask for it in asked]), _masks(ran, [it.name for it in asked]))
    ws.metric("dice_other_instrument", reached)
    return reached


def _files(folder: str, drawn: list[Scene], labelled: bool) -> dict[str, bytes]:
    return {f"{folder}/{name}": content for scene in drawn for name, content in scene.files(labelled)}
