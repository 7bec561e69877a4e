"""What a stream says is passed on and settled once, however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from bench.gateway.answers import Answer
from bench.gateway.request import Call
from bench.gateway.streams import StreamLost, forward

DELTA = b'data: {"choices": [{"index": 0, "delta": {"content": "hello"}, "finish_reason": "stop"}]}\n\n'
USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}\n\n'
LAST = b"data: [DONE]\n\n"


async def _passed(parts: list[bytes]) -> tuple[bytes, list[str]]:
    """What a client gets of a stream that breaks after `parts`, and the faults that were settled."""

    async def chunks() -> AsyncGenerator[bytes, None]:
        for part in parts:
            yield part
        raise StreamLost("a library is missing")

    faults: list[str] = []

    async def settle(answer: Answer, fault: str, gone: bool) -> None:
        faults.append(fault)

    got = b""
    options = {"stream_options": {"include_usage": True}}
    call = Call("chat", options, 100, "", "m", {}, stream=True)
    try:
        async for piece in forward(call, chunks(), settle):
            got += piece
    except StreamLost:
        faults.append("cut")
    return got, faults


@pytest.mark.parametrize(
    ("parts", "faults"),
    [([DELTA, USAGE, LAST], [""]), ([DELTA, USAGE + LAST], [""]), ([DELTA, USAGE], ["stream_broken", "cut"])],
)
def test_a_stream_that_breaks_after_its_last_word_is_whole(parts: list[bytes], faults: list[str]) -> None:
    assert asyncio.run(_passed(parts)) == (b"".join(parts), faults)
