"""Whether answers follow patterns that only validation pictures could explain."""

import numpy as np


def patterns_followed(named: dict[str, str], truth: dict[str, str], stamps: dict[str, str]) -> float:
    """How much more often than other classes the pattern's is the wrong answer, in standard errors.

    Which pattern stands for which class was drawn among all ways: to who never met them, each way is as likely
    (variance of a sum over a random permutation: Hoeffding, 1951, theorem 2).
    """
    classes = sorted(set(truth.values()))
    table = np.zeros((len(classes), len(classes)))
    for path, label in truth.items():
        if named[path] != label:
            table[classes.index(stamps[path]), classes.index(named[path])] += 1
    rest = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    spread = float(np.sqrt((rest**2).sum() / (len(classes) - 1)))
    return float(np.trace(rest)) / spread if spread else 0.0
