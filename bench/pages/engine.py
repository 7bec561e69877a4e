"""Vega, which draws charts without a browser and without the network: in this process, or in one beside it."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any, Protocol

from bench.base.child import Child, log_tail, private_answers, python_child
from bench.base.errors import UserError
from bench.pages.strict_svg import strict_svg
from bench.pages.vega import Spec

_DRAWING = threading.Lock()


class Engine(Protocol):
    """What draws."""

    def chart(self, spec: Spec, name: str) -> str:
        """As strict SVG, the same for the same chart; `name` begins its ids."""

    def picture(self, svg: str) -> bytes:
        """As PNG."""


class Here:
    """In this process, for one thread at a time: Vega has a thread of its own, and draws without Python's lock."""

    def chart(self, spec: Spec, name: str) -> str:
        with _vega() as vega:
            text = vega.vegalite_to_svg(spec, allowed_base_urls=[])
        return strict_svg(text, name)

    def picture(self, svg: str) -> bytes:
        with _vega() as vega:
            drawn: bytes = vega.svg_to_png(svg)
        return drawn


class _Beside:
    """Orders to a process, one after the other."""

    def __init__(self, child: Child) -> None:
        self._child, self._turn = child, threading.Lock()

    def chart(self, spec: Spec, name: str) -> str:
        return self._answer({"spec": spec, "name": name}).decode()

    def picture(self, svg: str) -> bytes:
        return self._answer({"svg": svg})

    def _answer(self, order: dict[str, Any]) -> bytes:
        """An answer is its length in a line, and itself."""
        line, popen = json.dumps(order).encode() + b"\n", self._child.popen
        assert popen.stdin is not None and popen.stdout is not None
        with self._turn:
            try:
                popen.stdin.write(line)
                popen.stdin.flush()
                said = popen.stdout.readline()
                # Of a process that was killed at it, an answer may be cut off anywhere.
                if said.endswith(b"\n") and len(answer := popen.stdout.read(int(said))) == int(said):
                    return answer
            except BrokenPipeError:
                pass
        raise RuntimeError(f"the process that draws ended: {log_tail(self._child.log)}")


@contextmanager
def engine_beside() -> Iterator[Engine]:
    """A process that draws while this one does something else; it takes most of a second to start."""
    require("vl_convert")
    with python_child(__name__, b"") as child:
        yield _Beside(child)


def main() -> None:
    """In the process beside, until the end of its orders."""
    answers, here = private_answers(), Here()
    _draw_nothing()
    for line in filter(bytes.strip, sys.stdin.buffer):
        order = json.loads(line)
        answer = here.picture(order["svg"]) if "svg" in order else here.chart(**order).encode()
        answers.write(b"%d\n%s" % (len(answer), answer))
        answers.flush()


def require(*libraries: str) -> None:
    """Raises `UserError` where a library of the drawings is missing."""
    missing = [name for name in libraries if find_spec(name) is None]
    if missing:
        raise UserError(f"needs {', '.join(missing)}", where="the site", remedy="pip install 'ml-dev-bench[site]'")


@contextmanager
def _vega() -> Iterator[Any]:
    require("vl_convert")
    import vl_convert

    with _DRAWING:
        yield vl_convert


@cache
def start_engine() -> None:
    """Begin to load Vega beside what this process does: its first drawing takes half a second longer than others."""
    if find_spec("vl_convert") is not None:
        threading.Thread(target=_draw_nothing, name="vega").start()


def _draw_nothing() -> None:
    with _vega() as vega:
        vega.vegalite_to_svg({"data": {"values": []}, "mark": "point"}, allowed_base_urls=[])
