"""Masks as text. Do not modify this file.

Pixels are numbered from 1, down the first column, then down the second. A run is the number of its first pixel and its
length; the runs of a mask are written one after the other, separated by spaces, and `-` stands for an empty mask.
"""

import numpy as np


def encode(mask):
    """The text of a mask (rows x columns, 0 or 1)."""
    flat = np.concatenate([[0], np.asarray(mask).T.ravel() != 0, [0]]).astype(int)
    starts, ends = np.flatnonzero(np.diff(flat) == 1), np.flatnonzero(np.diff(flat) == -1)
    return " ".join(f"{start + 1} {end - start}" for start, end in zip(starts, ends)) or "-"


def decode(text, shape=(64, 64)):
    """The mask of a text, uint8."""
    flat = np.zeros(shape[0] * shape[1], np.uint8)
    numbers = [] if text.strip() == "-" else [int(number) for number in text.split()]
    for start, length in zip(numbers[::2], numbers[1::2]):
        flat[start - 1 : start - 1 + length] = 1
    return flat.reshape(shape[1], shape[0]).T
