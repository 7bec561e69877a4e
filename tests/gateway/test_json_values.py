"""Values of JSON that are nested deeper than anything here can walk through."""

from __future__ import annotations

import json
import random
import time

import pytest

from bench.gateway.answers import read_answer
from bench.gateway.json_values import DEEPEST, read_shallow, shallow
from bench.gateway.streams import event_data

DEEP = "[" * 5000 + r'"a ] \" [ in a string"' + "]" * 5000
COUNTED = {"promptTokenCount": 200, "candidatesTokenCount": 700, "thoughtsTokenCount": 15_000}


def _tree(rng: random.Random, levels: int) -> object:
    if levels == 0:
        return rng.choice([1, 'a "quote" ] {', "\\", None, [], {}])
    below = [_tree(rng, max(levels - rng.randint(1, 3), 0)) for _ in range(rng.randint(0, 2))] + [
        _tree(rng, levels - 1)
    ]
    return below if rng.random() < 0.5 else {f'"{at}[\\': it for at, it in enumerate(below)}


def test_too_deep_a_value_is_read_as_far_as_it_is_shallow() -> None:
    for seed in range(20):
        tree = [_tree(random.Random(seed), 12) for _ in range(3)]
        for _ in range(DEEPEST - 8):
            tree = [tree, "beside"]
        text = json.dumps(tree)
        # The deep neighbour is what makes the second way necessary.
        whole = read_shallow(f"[{DEEP}, {text}]")
        assert whole[1] == shallow([None, tree])[1]
        assert json.dumps(whole).count("nested too deeply") >= 1


@pytest.mark.parametrize("broken", ["[" * 5000, DEEP[:-1], DEEP + "]", DEEP + ",", '{"a": ' + DEEP + ', "b": "c'])
def test_what_is_deep_and_broken_is_not_json(broken: str) -> None:
    with pytest.raises(ValueError):
        read_shallow(broken)


def test_strings_without_an_end_take_no_quadratic_time() -> None:
    began = time.process_time()
    with pytest.raises(ValueError):
        read_shallow("[" * 5000 + '"' + '\\"' * 3_000_000)
    assert time.process_time() - began < 30


def test_usage_is_read_beside_an_answer_that_is_too_deep() -> None:
    part = {"functionCall": {"name": "f", "args": {"x": "deep"}}}
    candidate = {"finishReason": "STOP", "content": {"parts": [part]}}
    body = json.dumps({"candidates": [candidate], "usageMetadata": COUNTED}).replace('"deep"', DEEP)
    answer = read_answer("generate", body.encode())
    assert answer is not None
    assert (answer.usage, answer.finish_reason) == (COUNTED, "STOP")
    event = event_data(f"data: {body}\r\n\r\n".encode())
    assert event is not None
    assert event["usageMetadata"] == COUNTED
