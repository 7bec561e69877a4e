"""Runs train.py as `python train.py` does, and writes into counted.json how many labels its training went through.

Whatever the loss, a label counts each time that torch works out the gradient of a loss in which its paper has a row.
The rows are read off the graph of the gradient. What this process writes is a claim: it is in the program's hands.
"""

import functools
import json
import math
import re
import runpy
import sys
from collections.abc import Iterable
from typing import Any

import torch

FIELDS = 16
LAYER = re.compile(r"(?i)mm|mv|dot|linear|conv|embedding")
"""In the names of what makes rows of parameters and data; a penalty on parameters has none of it below."""
seen = {"labels": 0}


def below(node: Any) -> list[Any]:
    return [it for it, _ in node.next_functions if it is not None]


def has_layer(node: Any) -> bool:
    """Whether data has part in the value, and not parameters alone."""
    rest, known = [node], set()
    while rest:
        it = rest.pop()
        if LAYER.search(it.name()):
            return True
        rest += [other for other in below(it) if other not in known]
        known.update(below(it))
    return False


def rows(shape: tuple[int, ...]) -> int:
    """How many papers a tensor just below a loss is of: it has a number for each, or for each and every field."""
    sizes = [size for size in shape if size != 1]
    if len(sizes) <= 1:
        return math.prod(sizes)
    return math.prod(sizes) // FIELDS if FIELDS in sizes else 0  # other widths are not of fields


def shape_of(node: Any) -> tuple[int, ...]:
    return tuple(node._input_metadata[0].shape) if node._input_metadata else ()


def source(node: Any) -> Any:
    """The tensor of as many rows, further down, that this one is made of: two terms of one loss have the same."""
    count = rows(shape_of(node))
    while not LAYER.search(node.name()):
        nearest = [it for it in below(node) if rows(shape_of(it)) == count]
        if not nearest:
            break
        node = nearest[0]
    return node


def labels(values: Iterable[torch.Tensor]) -> int:
    """Labels in losses: rows of the first tensors below them that are not a single number, each tensor once."""
    told: dict[Any, int] = {}  # by nll_loss itself
    found: dict[Any, int] = {}
    rest, known = [value.grad_fn for value in values if value.grad_fn is not None], set()
    while rest:
        node = rest.pop()
        if node in known:
            continue
        known.add(node)
        if node.name().startswith("NllLoss"):
            target = node._saved_target
            told[source(below(node)[0])] = int(((target >= 0) & (target != node._saved_ignore_index)).sum())
        elif math.prod(shape_of(node)) == 1:
            rest += below(node)
        elif has_layer(node):
            found[source(node)] = rows(shape_of(node))
    return sum((found | told).values())


def counting(derive: Any) -> Any:
    """`backward` or `grad` of torch.autograd, with a note of the labels in what it derives."""

    @functools.wraps(derive)
    def counted(values: Any, *args: Any, **options: Any) -> Any:
        seen["labels"] += labels([values] if isinstance(values, torch.Tensor) else list(values))
        return derive(values, *args, **options)

    return counted


for name in ("backward", "grad"):
    setattr(torch.autograd, name, counting(getattr(torch.autograd, name)))
sys.argv[0] = "train.py"
try:
    runpy.run_path("train.py", run_name="__main__")
finally:
    with open("counted.json", "w") as file:
        json.dump(seen, file)
