"""A checkpoint is a model's when every number of every tensor is."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from bench.casekit.tensors import unlike

STATE = {"head.weight": np.arange(6, dtype=np.float32).reshape(2, 3) / 7, "seen": np.array(12)}


def shown(state: dict[str, Any]) -> dict[str, Any]:
    """As the drivers of the cases say it, with torch's names for what NumPy does here."""
    parts = {name: np.ascontiguousarray(np.asarray(part, np.float32)) for name, part in state.items()}
    return {name: [list(state[name].shape), hashlib.sha256(part.tobytes()).hexdigest()] for name, part in parts.items()}


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_same_numbers_are_the_same_in_any_width_and_order(kind: Any) -> None:
    state = {name: np.array(part.astype(np.float32), kind, order="F") for name, part in STATE.items()}
    assert unlike(state, shown(STATE)) == []


@pytest.mark.parametrize(
    "other",
    [
        np.full((2, 3), STATE["head.weight"].mean()),
        STATE["head.weight"][::-1],
        STATE["head.weight"].reshape(3, 2),
        STATE["head.weight"] + np.float32(1e-6),
    ],
    ids=["one number with the same sum", "other order", "other shape", "a little off"],
)
def test_a_tensor_that_differs_is_named(other: Any) -> None:
    assert unlike({**STATE, "head.weight": other}, shown(STATE)) == ["head.weight"]


def test_a_tensor_that_one_of_them_lacks_is_named() -> None:
    assert unlike({"seen": STATE["seen"], "more": STATE["seen"]}, shown(STATE)) == ["head.weight", "more"]


@pytest.mark.parametrize("said", [None, 3, "text", [], [[2, 3]], [np.zeros(2), np.zeros(3)], [[2, 3], None, 1]])
def test_what_a_driver_says_may_be_anything(said: object) -> None:
    assert unlike({"seen": STATE["seen"]}, {"seen": said}) == ["seen"]
