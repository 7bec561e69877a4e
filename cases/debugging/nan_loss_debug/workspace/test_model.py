"""A quick check of train.py: `python test_model.py`. The judge uses other data and looks at more than this."""

import math
import sys

from train import EPOCHS, make_data, train


def problems() -> list[str]:
    """What is wrong with the losses on the visible data."""
    losses, _ = train(*make_data())
    found = []
    if len(losses) != EPOCHS:
        found.append(f"expected {EPOCHS} losses, got {len(losses)}")
    elif not all(math.isfinite(loss) for loss in losses):
        found.append(f"not finite from epoch {next(i for i, loss in enumerate(losses, 1) if not math.isfinite(loss))} on")
    elif not losses[0] > losses[EPOCHS // 2] or losses[-1] > losses[0] / 10:
        found.append(f"the loss does not fall: first {losses[0]:.4g}, last {losses[-1]:.4g}")
    return found


if __name__ == "__main__":
    for problem in problems():
        print("PROBLEM:", problem)
        sys.exit(1)
    print("Training successful on the visible data")
