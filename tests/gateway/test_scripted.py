"""The scripted models, asked by the official clients: every protocol, whole and streamed, and the refusal of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.gateway.backends.providers import find_role, prices_of_role
from bench.gateway.backends.scripted import ANSWERS, REFUSES, SENTENCE
from bench.gateway.launch import Gateway, open_gateway
from bench.guest.forwarding import forward, listen
from tests.helpers.gateway import ledger_lines, spec_in

if TYPE_CHECKING:
    import anthropic
    import openai

ASKED: Any = [{"role": "user", "content": "Say hello."}]


@dataclass
class Asking:
    gateway: Gateway
    openai: openai.OpenAI
    anthropic: anthropic.Anthropic


@contextmanager
def asking(folder: Path, model: str) -> Iterator[Asking]:
    import anthropic
    import openai

    spec = spec_in(folder, models={"main": model}, cassettes=None, environment={})
    with open_gateway(spec) as gateway:
        listener = listen()
        forward(listener, str(folder / "g.sock"))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        settings: Any = {"api_key": gateway.key, "max_retries": 0}
        yield Asking(
            gateway, openai.OpenAI(base_url=f"{url}/v1", **settings), anthropic.Anthropic(base_url=url, **settings)
        )


def everything(asked: Asking) -> list[str]:
    """What every protocol says, whole and streamed."""
    chat, responses, messages = asked.openai.chat.completions, asked.openai.responses, asked.anthropic.messages
    said = [str(chat.create(model="bench-main", messages=ASKED).choices[0].message.content)]
    pieces = chat.create(model="bench-main", messages=ASKED, stream=True, stream_options={"include_usage": True})
    said.append("".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices))
    said.append(responses.create(model="bench-main", input="Say hello.").output_text)
    with responses.stream(model="bench-main", input="Say hello.") as stream:
        said.append(stream.get_final_response().output_text)
    answer = messages.create(model="bench-main", max_tokens=50, messages=ASKED)
    said.append("".join(block.text for block in answer.content if block.type == "text"))
    with messages.stream(model="bench-main", max_tokens=50, messages=ASKED) as streamed:
        said.append(streamed.get_final_text())
    return said


def test_every_protocol_is_answered_and_nothing_is_billed(tmp_path: Path) -> None:
    with asking(tmp_path, ANSWERS) as asked:
        assert everything(asked) == [SENTENCE] * 6
        assert asked.anthropic.messages.count_tokens(model="bench-main", messages=ASKED).input_tokens > 0
        found = asked.openai.embeddings.create(model="bench-main", input=["a", "b"], encoding_format="float")
        assert [len(it.embedding) for it in found.data] == [8, 8]
    (usage,) = asked.gateway.state().usage
    assert (usage.calls, usage.failed_calls, usage.cost_usd, usage.cost_status) == (6, 0, 0.0, "simulated")
    assert not usage.faults
    assert {line["status"] for line in ledger_lines(tmp_path / "calls.jsonl")} == {"ok"}


def test_every_protocol_is_refused_as_a_limit_refuses(tmp_path: Path) -> None:
    import anthropic
    import openai

    with asking(tmp_path, REFUSES) as asked:
        ways: tuple[Callable[[], object], ...] = (
            lambda: asked.openai.chat.completions.create(model="bench-main", messages=ASKED),
            lambda: asked.openai.chat.completions.create(model="bench-main", messages=ASKED, stream=True),
            lambda: asked.openai.responses.create(model="bench-main", input="x"),
            lambda: asked.anthropic.messages.create(model="bench-main", max_tokens=5, messages=ASKED),
        )
        for ask in ways:
            with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as refused:
                ask()
            assert isinstance(refused.value, openai.APIStatusError | anthropic.APIStatusError)
            assert refused.value.status_code == 402
    state = asked.gateway.state()
    assert (state.limit_hit, state.error) == ("step_limit", None)
    assert state.usage[0].calls == 0 and state.usage[0].failed_calls == 4


def test_a_scripted_model_needs_no_cassette_and_no_key(tmp_path: Path) -> None:
    for model in (ANSWERS, REFUSES):
        role = find_role(model, "main", "any", None, None, {})
        assert role.simulated and role.prices == prices_of_role(model, "main", "any", None, None)
