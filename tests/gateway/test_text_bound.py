"""No text is billed as more tokens than are set aside for it, however it was chosen; prose and code cost no fortune."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import tiktoken
from tokenizers import Tokenizer

from bench.gateway.text_bound import most_tokens
from tests.helpers.gateway_live import MODELS, live, storm
from tests.helpers.provider import PRICES, Reply, ScriptedUpstream, Usage

# litellm ships them; importing it takes seconds.
VOCABULARIES = Path(str(getattr(find_spec("litellm"), "origin", ""))).parent / "litellm_core_utils" / "tokenizers"
RARE = "qxzjkvw"
DENSE: dict[str, tuple[str, ...]] = {
    "letters and digits in turns": ("abcxyz", "0123"),
    "digits and signs in turns": (string.digits, string.punctuation),
    "numbers of one digit": (string.digits, " "),
    "any letters": (string.ascii_letters,),
    "letters that make no word": (RARE,),
    "words of one letter": (string.ascii_lowercase, " "),
    "words of rare letters": (RARE, RARE, RARE, " "),
    "anything that can be typed": (string.ascii_letters + string.digits + string.punctuation,),
    "cuneiform": ("".join(map(chr, range(0x12000, 0x12300))),),
    "hangul": ("".join(map(chr, range(0xAC00, 0xD000))),),
    "spaces and tabs": (" ", "\t"),
    "control characters": ("".join(map(chr, range(1, 32))),),
}
"""Texts that are made to be dense -> of which characters, in turns."""
ORDINARY = ("docs/gateway.md", "bench/gateway/calls.py", "cases/basics/hello_world/task.md")


@pytest.fixture(scope="module")
def tokenizers() -> list[Callable[[str], int]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(VOCABULARIES))
        openai = tiktoken.get_encoding("cl100k_base")
    anthropic = Tokenizer.from_file(str(VOCABULARIES / "anthropic_tokenizer.json"))
    return [
        lambda text: len(openai.encode(text, disallowed_special=())),
        lambda text: len(anthropic.encode(text).ids),
    ]


@pytest.mark.parametrize("kind", DENSE)
def test_a_text_that_is_made_dense_has_no_more_tokens(kind: str, tokenizers: list[Callable[[str], int]]) -> None:
    rng = random.Random(kind)
    text = "".join(rng.choice(turn) for _ in range(3000 // len(DENSE[kind])) for turn in DENSE[kind])
    for count in tokenizers:
        assert count(text) <= most_tokens(json.dumps(text, ensure_ascii=False).encode())


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_text_is_not_set_aside_as_a_token_a_byte(name: str, tokenizers: list[Callable[[str], int]]) -> None:
    """Otherwise agents would be refused long before their limit."""
    text = (Path(__file__).parents[2] / name).read_text(encoding="utf-8")
    body = json.dumps(text).encode()
    assert max(count(text) for count in tokenizers) <= most_tokens(body) <= 0.75 * len(body)


def test_a_text_of_a_token_a_byte_keeps_to_the_dollar_limit(tmp_path: Path) -> None:
    """Many callers at once: what is set aside for all of them is what they can use."""
    text = "\U00012000" * 1000
    prices = tmp_path / "own.json"
    plain = {"input": PRICES["input"], "output": PRICES["output"]}
    prices.write_text(
        json.dumps({"schema": 1, "version": "without caches", "models": dict.fromkeys(MODELS.values(), plain)})
    )
    used = Usage(len(text.encode()), 1)
    with ScriptedUpstream(lambda body, protocol: Reply("x", usage=used, hang_s=0.1)) as upstream:
        with live(tmp_path, upstream, cost_usd=0.1, own_prices=prices) as through:
            statuses = storm(through, 16, messages=[{"role": "user", "content": text}], max_tokens=1)
        assert set(statuses) == {200, 402}
        assert upstream.usage_totals.cost_usd <= 0.1
