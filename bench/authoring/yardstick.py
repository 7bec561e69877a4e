"""How slow this machine is, so that a budget of CPU seconds asks the same of a case everywhere."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from statistics import fmean

REFERENCE_S = 0.11
"""CPU seconds that the fixed work takes on the reference machine, on which nothing else runs."""
_EVERY_S = 8.0


@contextlib.contextmanager
def samples() -> Iterator[list[float]]:
    """CPU seconds of the fixed work at the beginning and from time to time while the block runs.

    A machine that others share changes its pace within seconds. Sampling takes a core one second in sixty.
    """
    found, over = [_seconds()], threading.Event()

    def go_on() -> None:
        while not over.wait(_EVERY_S):
            found.append(_seconds())

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def slowness(found: Sequence[float]) -> float:
    """CPU seconds that one second's work of the reference machine took here, at least 1: a faster one earns nothing.

    The fixed work is Python's own; of a training it is true within a fifth or so.
    """
    return max(1.0, fmean(found) / REFERENCE_S)


def _seconds() -> float:
    began = time.thread_time()
    table = {str(number): number * 0.5 for number in range(60_000)}
    text = json.dumps(table)
    json.loads(text)
    zlib.compress(text.encode())
    return time.thread_time() - began
