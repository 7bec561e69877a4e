"""Runs generate on the judge's tokens and weights, inside the subject. Nothing here knows what is right."""

import contextlib
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def outputs(weights: list[dict[str, Array]], calls: list[dict[str, Any]]) -> dict[str, Any]:
    """What generate gives for each call, in one process, and what it has left of weights and tokens.

    A call names its weights by their place, and parts of them that change in place before it: one number, or (-1) the
    order of the rows. Those of odd places are seen as arrays that nobody but their owner may write.
    """
    generate = importlib.import_module("inference").generate
    seen = [{name: _locked(part) if at % 2 else part for name, part in it.items()} for at, it in enumerate(weights)]
    found = []
    for call in calls:
        if call["after_nan"]:
            # What such a call gives is free, and what it leaves behind must not count.
            with contextlib.suppress(Exception):
                generate(
                    np.pad(call["tokens"], ((0, 0), (0, 1))), {name: part * np.nan for name, part in seen[0].items()}
                )
        chosen = weights[call["weights"]]
        for name, place in call["changed"]:
            if place < 0:
                chosen[name][:] = chosen[name][::-1].copy()
            else:
                chosen[name].flat[place] += 4
        tokens = LAYOUTS[call["layout"]](call["tokens"])
        following, logits = (_plain(part) for part in generate(tokens, seen[call["weights"]]))
        found.append({"following": following, "logits": logits, "tokens": tokens.copy()})
    return {"found": found, "weights": seen}


def _locked(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "plain": np.copy,
    "locked": lambda tokens: _locked(tokens.copy()),
    "columns": np.asfortranarray,
    "slice": lambda tokens: np.repeat(np.pad(tokens, 1), 2, axis=1)[1:-1, 2:-2:2],
}
"""The same tokens, as views of other arrays may have them."""


def rounds(weights: dict[str, Array], tokens: Array, signs: Array) -> dict[str, Array]:
    """One call of generate for each batch of `tokens`: its tokens, and the sum of all logits, each with its sign."""
    generate = importlib.import_module("inference").generate
    total = np.zeros((4, weights["head"].shape[1]))
    following = np.zeros((len(signs), 4), dtype=np.int64)
    for at, sign in enumerate(signs):
        following[at], logits = (_plain(part) for part in generate(tokens[at], weights))
        total += sign * logits
    return {"following": following, "total": total}


def _plain(part: Any) -> Array:
    """An ordinary array: an object that would compute its values later is refused."""
    if type(part) is not np.ndarray:
        raise TypeError(f"generate returned {type(part).__name__}, not a numpy array")
    return part
