"""What draws charts and pictures, in this process or beside it."""

from __future__ import annotations

import io
import tempfile
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from bench.base.child import python_child
from bench.pages.engine import Here, _Beside, engine_beside
from bench.pages.vega import Spec, ink, layer, layered, number

_SVG = "<svg xmlns='http://www.w3.org/2000/svg' width='20' height='{}'><rect width='20' height='9' fill='#123'/></svg>"


def _chart(width: int) -> Spec:
    return layered(
        [layer([{"x": width, "\u2028": "ä <b>\n"}], "circle", {"x": number("x")}, color=ink("ink"))], width, 20
    )


def test_a_process_beside_draws_the_same_for_several_threads_at_once() -> None:
    here, charts, pictures = (
        Here(),
        [_chart(width) for width in range(50, 62)],
        [_SVG.format(it) for it in range(6, 12)],
    )
    with engine_beside() as beside, ThreadPoolExecutor(4) as pool:
        drawn = [pool.submit(beside.chart, it, f"name-{at}") for at, it in enumerate(charts)]
        images = [pool.submit(beside.picture, it) for it in pictures]
        assert [it.result() for it in drawn] == [here.chart(it, f"name-{at}") for at, it in enumerate(charts)]
        assert [it.result() for it in images] == [here.picture(it) for it in pictures]
        assert len({it.result() for it in images}) == len(pictures)


def test_a_process_that_ends_says_why_and_nobody_waits_for_it() -> None:
    with engine_beside() as beside:
        with pytest.raises(RuntimeError, match=r"the process that draws ended: (.|\n)*ink"):
            beside.chart({**_chart(50), "background": "#abcdef", "mark": "bar"}, "name")
        with pytest.raises(RuntimeError, match="the process that draws ended"):
            beside.chart(_chart(50), "name")


def test_what_a_process_that_has_ended_did_not_read_is_no_error() -> None:
    """Whether it has read a line before it ends is a race."""
    with python_child("bench.pages", b"") as child:
        assert child.popen.stdin is not None
        child.popen.wait()
        child.popen.stdin.write(b"{}\n")
        with pytest.raises(BrokenPipeError):
            child.popen.stdin.flush()


@pytest.mark.parametrize("said", [b"", b"1", b"10\n", b"10\n<svg></sv"])
def test_an_answer_that_is_cut_off_is_no_drawing(said: bytes) -> None:
    with tempfile.TemporaryFile() as log:
        child: Any = SimpleNamespace(popen=SimpleNamespace(stdin=io.BytesIO(), stdout=io.BytesIO(said)), log=log)
        with pytest.raises(RuntimeError, match="the process that draws ended"):
            _Beside(child).picture("<svg/>")
