"""How many labels a training went through, counted in the agent's process: laid beside its program and imported there.

It stands alone: a case gives its text to the program's folder (`learns_again(..., inputs={...: source()})`), and a
module of the judge that the program imports calls `begin`. Whatever the loss, a label counts each time that torch works
out the gradient of a loss in which its row has a part; two terms about one output count once. Where a case asks for it,
an optimiser that takes a step by a gradient it has used before counts its labels again, and an example that one loss
takes in several versions counts as often. The networks of an ensemble are counted apart, for each parameter by itself,
and together. What other processes derive is not counted; `note_children` tells that there were some. What the process
writes is a claim: a program can change it.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import math
import os
import re
import resource
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LAYER = re.compile(r"(?i)mm|mv|dot|linear|conv|embedding")
"""In the names of what makes rows of parameters and data; a penalty on parameters has none of it below."""
VIEW = ("View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Transpose", "TBackward", "Permute")
"""In the names of the same numbers in another shape: how many rows they are the tensor below tells."""


SCORES = re.compile("Softmax|LogSigmoid|BinaryCrossEntropy")
CHOICE = re.compile("Index(?!Add|Reduce)|Select|Slice|Gather|Take|Split|Unbind")
"""In the names of what takes some of many rows: no other has a part in the loss."""


def source() -> bytes:
    """The text of this module."""
    return Path(__file__).read_bytes()


def begin(torch: Any, classes: int, into: str, steps: bool = False, numbers: int = 0) -> None:
    """Count what the module `torch` derives from now on.

    The JSON file `into` has two counts so far: `labels`, the largest number of any parameter, and `together`, of all
    networks. classes: columns of an output. steps: whether a gradient counts again where an optimiser uses it again.
    numbers: how many an example has (3 x 32 x 32 of a picture); then each version of an example in a loss counts.
    """
    counts = _Counts(into)

    def counting(derive: Any) -> Any:
        @functools.wraps(derive)
        def counted(values: Any, *args: Any, **options: Any) -> Any:
            losses = [values] if isinstance(values, torch.Tensor) else list(values)
            counts.derive([loss for loss in losses if loss.grad_fn is not None], classes, numbers)
            return derive(values, *args, **options)

        return counted

    for name in ("backward", "grad"):
        setattr(torch.autograd, name, counting(getattr(torch.autograd, name)))
    if steps:
        importlib.import_module(torch.optim.Optimizer.__module__).register_optimizer_step_pre_hook(counts.step)


class _Counts:
    """The labels of each parameter, by its number, and of all networks together; written down at each change."""

    def __init__(self, into: str) -> None:
        self._into, self._together = into, 0
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []  # a parameter whose number another one takes over would be counted with it
        self._latest: dict[int, int] = {}  # labels of a parameter's gradient, and
        self._unused: set[int] = set()  # the parameters that no step was taken by since it was worked out
        self._write()

    def derive(self, losses: list[Any], classes: int, numbers: int) -> None:
        """Count the labels of losses whose gradient is being worked out."""
        for parameter in [leaf for loss in losses for leaf in _leaves(loss.grad_fn)]:
            # A term without labels gives it a gradient of its own, too.
            if id(parameter) not in self._latest:
                self._kept.append(parameter)
                self._latest[id(parameter)] = 0
            self._unused.add(id(parameter))
        for parameters, count in labels(losses, classes, numbers):
            self._together += count
            for parameter in parameters:
                self._seen[id(parameter)] = self._seen.get(id(parameter), 0) + count
                self._latest[id(parameter)] = count
        self._write()

    def step(self, optimiser: Any, *_: Any) -> None:
        """Count labels again whose gradient an optimiser has used before, or takes from another network."""
        stepped = [it for group in optimiser.param_groups for it in group["params"] if it.grad is not None]
        # What another network's gradient was copied into has none of its own.
        copied = max(self._latest.values(), default=0)
        used = {id(it): self._latest.get(id(it), copied) for it in stepped if id(it) not in self._unused}
        self._kept.extend(it for it in stepped if id(it) not in self._latest)
        for name, count in used.items():
            self._seen[name] = self._seen.get(name, 0) + count
        self._together += max(used.values(), default=0)
        self._unused.difference_update(map(id, stepped))
        self._write()

    def _write(self) -> None:
        told = {"labels": max(self._seen.values(), default=0), "together": self._together}
        Path(self._into).write_text(json.dumps(told))


def note_children(into: str) -> None:
    """Write into the JSON file `into`, when all is done, whether this process had children; until then it says so.

    A loader's workers are some. It stays so where another process began or ends in this one's place: a child that asks
    for the same file, or a copy of this process that ends while this one leaves without its last words.
    """
    file = Path(into).absolute()
    first, own = not file.exists(), os.getpid()
    file.write_text(json.dumps(True))
    atexit.register(lambda: file.write_text(json.dumps(not first or os.getpid() != own or _had_children())))


def _had_children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:  # none now; those before were waited for
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > 0
    return True


def labels(values: Iterable[Any], classes: int, numbers: int = 0) -> list[tuple[list[Any], int]]:
    """For each output in a loss its parameters and labels: the rows of the first tensors that are no single numbers.

    numbers: of an example; then a parameter of a first layer gets the more that it was given in several versions.
    """
    losses = [value.grad_fn for value in values if value.grad_fn is not None]
    told: dict[Any, int] = {}  # by nll_loss itself
    found: dict[Any, int] = {}
    others: dict[Any, int] = {}
    rest, known = list(losses), set()
    while rest:
        node = rest.pop()
        if node in known:
            continue
        known.add(node)
        if node.name().startswith("NllLoss"):
            target = node._saved_target
            count = int(((target >= 0) & (target != node._saved_ignore_index)).sum())
            told[_origin(_below(node)[0], classes)] = count
        elif math.prod(_shape(node)) == 1 or node.name().startswith(VIEW):
            rest += _below(node)
        elif any(LAYER.search(it.name()) for it in _all_below(node)):
            of_classes = classes in _shape(node) or sum(size != 1 for size in _shape(node)) == 1
            count = max(_rows(_shape(it), classes) for it in _scores_below(node) or [node])
            (found if of_classes else others)[_origin(node, classes)] = count
    outputs = [(_leaves(node), count) for node, count in (found | told).items()]
    # A term about features, such as their size, is one about the output that is made of them.
    labelled = {id(leaf) for leaves, _ in outputs for leaf in leaves}
    outputs += [(_leaves(it), count) for it, count in others.items() if not labelled & set(map(id, _leaves(it)))]
    return outputs + [
        ([leaf], count - counted)
        for leaf, count in (_versions(losses, numbers) if numbers else [])
        for counted in [sum(count for leaves, count in outputs if any(it is leaf for it in leaves))]
        if 0 < counted < count
    ]


def _scores_below(node: Any) -> list[Any]:
    """What scores of single rows were made into what this node sums up, such as a mean for each class."""
    rest, found = [node], list[Any]()
    while rest:
        here = rest.pop()
        if SCORES.search(here.name()):
            found.append(here)
        elif not LAYER.search(here.name()) and not CHOICE.search(here.name()):
            rest += _below(here)
    return found


def _leaves(node: Any) -> list[Any]:
    """The parameters that a node is made of."""
    return [leaf.variable for leaf in _all_below(node) if hasattr(leaf, "variable")]


def _versions(losses: Iterable[Any], numbers: int) -> list[tuple[Any, int]]:
    """The parameters of first layers and how many examples each got, by what is kept for their gradients.

    Rows alone would take the patches or time steps of one picture for many, and numbers alone one that was enlarged.
    """
    inputs: dict[int, tuple[Any, list[Any]]] = {}
    for node in set().union(*map(_all_below, losses)):
        for data in _data_of(node):
            for leaf in {id(leaf): leaf for part in _below(node) for leaf in _leaves(part)}.values():
                known = inputs.setdefault(id(leaf), (leaf, []))[1]
                if not any(it.shape == data.shape and bool((it == data).all()) for it in known):
                    known.append(data)
    return [
        (leaf, min(sum(len(it) for it in data), round(sum(it.numel() for it in data) / numbers)))
        for leaf, data in inputs.values()
    ]


def _data_of(node: Any) -> list[Any]:
    """The tensors that a layer keeps for its gradient and that nothing was derived for: data as they came in."""
    if not LAYER.search(node.name()) and "Norm" not in node.name():
        return []
    kept = [getattr(node, f"_saved_{name}", None) for name in ("input", "self", "mat1", "mat2")]
    return [it for it in kept if it is not None and not it.requires_grad and it.dim() > 1 and it.is_floating_point()]


def _below(node: Any) -> list[Any]:
    return [it for it, _ in node.next_functions if it is not None]


def _all_below(node: Any) -> set[Any]:
    """The node and all that it is made of."""
    rest, known = [node], {node}
    while rest:
        more = set(_below(rest.pop())) - known
        known |= more
        rest += more
    return known


def _rows(shape: tuple[int, ...], classes: int) -> int:
    """How many rows a tensor just below a loss has: a number for each, or one for each and every class."""
    sizes = [size for size in shape if size != 1]
    if sizes == [classes] and len(shape) > 1 and shape[0] == 1:
        return 1  # the rest of the last epoch may be one row
    if len(sizes) <= 1:
        return math.prod(sizes)
    return math.prod(sizes) // classes if classes in sizes else shape[0]  # of something else than classes


def _shape(node: Any) -> tuple[int, ...]:
    return tuple(node._input_metadata[0].shape) if node._input_metadata else ()


def _origin(node: Any, classes: int) -> Any:
    """The tensor of as many rows, further down, that this one is made of: two terms of one loss have the same."""
    count = _rows(_shape(node), classes)
    while not LAYER.search(node.name()):
        nearest = [it for it in _below(node) if _rows(_shape(it), classes) == count]
        if not nearest:
            break
        node = nearest[0]
    return node
