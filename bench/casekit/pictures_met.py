"""What a program takes of pictures beside the gradients of its training: running averages, and files that it opens.

It stands alone, as `labels_counted` does, and lies beside the program: a module of the judge that the program imports
calls `begin`. What the process writes is a claim: a program can change it.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from pathlib import Path
from typing import Any


def source() -> bytes:
    """The text of this module."""
    return Path(__file__).read_bytes()


def begin(torch: Any, into: str, files: str) -> None:
    """Write down from now on what renews running averages, and which files are opened.

    The JSON file `into` has, so far, `averaged`: the largest number of examples that a running average of batch
    normalisation was renewed by, and `opened`: the names of opened files in which the pattern `files` is found.
    """
    averaged: dict[int, int] = {}
    kept: list[Any] = []  # an average whose number another one takes over would be counted with it
    opened: list[str] = []
    functional, pattern = torch.nn.functional, re.compile(files)
    normalised = functional.batch_norm

    def write() -> None:
        counts = {"averaged": max(averaged.values(), default=0), "opened": sorted(opened)}
        Path(into).write_text(json.dumps(counts))

    @functools.wraps(normalised)
    def counted(
        values: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: bool = False,
        *args: Any, **options: Any,
    ) -> Any:  # fmt: skip
        if training and running_mean is not None:
            if id(running_mean) not in averaged:
                kept.append(running_mean)
            averaged[id(running_mean)] = averaged.get(id(running_mean), 0) + len(values)
            write()
        return normalised(values, running_mean, running_var, weight, bias, training, *args, **options)

    def hear(event: str, args: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(args[0], str | bytes | os.PathLike):
            return
        name = os.fsdecode(args[0])
        if pattern.search(name) and name not in opened:
            opened.append(name)
            write()

    write()
    functional.batch_norm = counted
    sys.addaudithook(hear)
