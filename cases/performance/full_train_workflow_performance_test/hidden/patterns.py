"""Whether answers follow patterns that only validation pictures could explain."""

import numpy as np


def patterns_followed(named: dict[str, str], stamps: dict[str, list[str]]) -> float:
    """How much more often than other classes the pattern's is the wrong answer, in standard errors.

    stamps: the true class and the pattern's of each picture, of validation pictures those whose label is wrong. Which
    pattern stands for which class was drawn among all ways: to who never met them, each way is as likely (variance of a
    sum over a random permutation: Hoeffding, 1951, theorem 2).
    """
    classes = sorted({label for label, _ in stamps.values()})
    table = np.zeros((len(classes), len(classes)))
    for path, (label, pattern) in stamps.items():
        if named[path] != label:
            table[classes.index(pattern), classes.index(named[path])] += 1
    rest = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    spread = float(np.sqrt((rest**2).sum() / (len(classes) - 1)))
    return float(np.trace(rest)) / spread if spread else 0.0


def shares_alike(named: dict[str, str], truth: dict[str, str], given: dict[str, str]) -> float:
    """The correlation over classes of how often test pictures are named one, and how often validation labels are it."""
    classes = sorted(set(truth.values()))
    said = [sum(named[path] == label for path in truth) for label in classes]
    told = [sum(label == it and path.startswith("val/") for path, it in given.items()) for label in classes]
    return float(np.corrcoef(said, told)[0, 1]) if min(said) < max(said) else 0.0
