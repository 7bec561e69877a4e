"""Images and documents are priced before they are sent, never below what a provider bills; what has no price waits."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

from bench.gateway.backends.google_translation import as_chat
from bench.gateway.google import Target
from bench.gateway.image_size import read_image
from bench.gateway.media import Bound, Formula, media_bound, set_media_aside
from bench.gateway.request import Call, RequestRefused, read_call
from bench.gateway.text_bound import most_tokens
from tests.helpers import media
from tests.helpers.gateway_live import UNLIMITED, WINDOW, live
from tests.helpers.media import MODELS, SHAPES, Json
from tests.helpers.provider import Reply, ScriptedUpstream, Usage
from tests.helpers.sampling import at_night

PROTOCOLS = ["chat", "responses", "messages"]
DETAILS = [None, "low", "high", "auto", "original"]


def sizes(rng: random.Random, count: int) -> list[tuple[int, int]]:
    """Squares, strips, and the sizes around which formulas jump."""
    edges = [1, 28, 32, 255, 256, 384, 385, 512, 513, 767, 768, 769, 1024, 1568, 2047, 2048, 2049, 8000, 16383]
    drawn = [(rng.randint(1, 9000), rng.randint(1, 9000)) for _ in range(count)]
    return drawn + [(rng.choice(edges), rng.choice(edges)) for _ in range(count)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_size_is_read_from_the_header(shape: str) -> None:
    for width, height in sizes(random.Random(1), 50):
        data = SHAPES[shape](width, height)
        found = read_image(data)
        assert found is not None
        assert found[1:] == (width, height)
        assert read_image(data[:9]) is None


def test_of_several_headers_the_largest_counts() -> None:
    """Readers differ in which of them they take."""
    small, large = media.png(16, 16), media.png(4000, 3000)
    assert read_image(small + large[8:]) == ("image/png", 4000, 3000)
    frame, scan = media.jpeg(4000, 3000)[20:-4], b"\xff\xda\x00\x02pixels\xff\x00\xff\xd0more"
    assert read_image(media.jpeg(16, 16)[:-4] + scan + frame + scan) == ("image/jpeg", 4000, 3000)
    assert read_image(media.webp(16, 16) + media.webp(4000, 3000)[12:]) == ("image/webp", 4000, 3000)
    assert read_image(media.jpeg(16, 16)[:-4] + b"\xff\xdc\x00\x04\x0f\xa0" + scan) is None, "a later count of lines"


@pytest.mark.parametrize("model", MODELS)
def test_no_model_bills_more_than_its_bound(model: str) -> None:
    family, bill = MODELS[model]
    for width, height in sizes(random.Random(2), 3000):
        billed = max(bill(width, height, detail) for detail in DETAILS)
        assert Formula(family, f"{family}/{model}").image(width, height) >= billed, (width, height)  # type: ignore[arg-type]
        assert Formula("other", f"openai/{model}").image(width, height) >= billed, (width, height)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("result", [at_night(False), True])
def test_the_dollar_limit_holds_whatever_is_shown(tmp_path: Path, protocol: str, result: bool) -> None:
    """Any mixture of texts, images and documents, also in results of tools, billed by any model's own formula."""
    rng = random.Random(f"{protocol} {result}")
    bill = MODELS[rng.choice([name for name in MODELS if name != "gpt-4o-mini"])][1]
    worth: dict[str, int] = {}

    def script(body: Json, protocol: str) -> Reply:
        return Reply("ok", usage=Usage(worth[body["metadata"]["n"]] + len(json.dumps(body)) // 8000, 10))

    limit = 0.4
    with ScriptedUpstream(script) as upstream, live(tmp_path, upstream, cost_usd=limit, calls=1000) as through:
        statuses = []
        for number in range(25):
            parts, tokens, window = [media.text_part(protocol, "look")], 0, UNLIMITED
            for _ in range(rng.randint(1, 3)):
                if rng.random() < 0.2:
                    parts.append(media.document_part(protocol, b"%PDF-1.7 whatever it packs"))
                    tokens += rng.randint(1, WINDOW)
                    window = WINDOW
                    continue
                (width, height), detail = rng.choice(sizes(rng, 1)), rng.choice(DETAILS)
                data = SHAPES[rng.choice(list(SHAPES))](width, height)
                parts.append(media.image_part(protocol, data, detail))
                tokens += bill(width, height, detail)
            worth[str(number)] = min(tokens, (window or tokens) - 100)
            asked = media.request_with(protocol, parts, result)
            statuses.append(through.post(protocol, **asked, metadata={"n": str(number)}).status_code)
        assert set(statuses) <= {200, 402}
        assert 200 in statuses
        assert upstream.usage_totals.cost_usd <= limit


def test_a_tiny_file_of_a_large_image_does_not_pass_for_its_bytes(tmp_path: Path) -> None:
    script = [Reply("ok", usage=Usage(1600, 10))] * 50
    with ScriptedUpstream(script) as upstream, live(tmp_path, upstream, cost_usd=0.02) as through:
        asked = media.request_with("messages", [media.image_part("messages", media.png(1568, 1568))] * 10, False)
        assert through.post("messages", **asked).json()["error"]["limit"] == "cost_limit"
    assert upstream.requests == []


_UNPRICED: list[tuple[Json, str]] = [
    ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, "input_audio"),
    ({"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}, "video_url"),
    ({"type": "hologram"}, "hologram"),
    ({"type": ["image"]}, "type"),
    ({"type": "image_url", "image_url": {"url": "data:image/svg+xml;base64,PHN2Zz4="}}, "image_url"),
    ({"type": "image_url", "image_url": {"url": "data:image/png,raw"}}, "image_url"),
    ({"type": "input_image", "image_url": "data:image/png;base64,%%%"}, "image_url"),
    ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}, "source.data"),
    ({"type": "file", "file": {"file_data": "data:audio/wav;base64,AAAA"}}, "file_data"),
    ({"type": "file", "file": {"file_data": "AAAA", "format": "audio/wav"}}, "file_data"),
    ({"type": "document", "source": {"type": "base64", "media_type": "video/mp4", "data": "AAAA"}}, "source"),
    (
        {"type": "image_url", "image_url": {"url": "data:image/gif;base64," + media.encoded(media.png(9, 9))}},
        "image_url",
    ),
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_has_no_price_is_refused_under_a_limit(tmp_path: Path, protocol: str) -> None:
    with ScriptedUpstream([Reply("ok")] * 5) as upstream, live(tmp_path, upstream) as through:
        for (part, named), result in itertools.product(_UNPRICED, (False, True)):
            told = through.post(protocol, **media.request_with(protocol, [part], result))
            assert told.status_code == 400, part
            assert f"field `{named}" in told.json()["error"]["message"]
    assert upstream.requests == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_without_a_limit_it_is_the_providers_affair(tmp_path: Path, protocol: str) -> None:
    script = [Reply("ok")] * len(_UNPRICED)
    with ScriptedUpstream(script) as upstream, live(tmp_path, upstream, cost_usd=UNLIMITED) as through:
        for part, _ in _UNPRICED:
            assert through.post(protocol, **media.request_with(protocol, [part], False)).status_code == 200, part


def call_of(*parts: Any) -> Call:
    body = {"model": "m", **media.request_with("messages", list(parts), False)}
    return read_call("messages", json.dumps(body).encode(), {})


def test_documents_of_text_count_as_text_and_their_images_as_images() -> None:
    formula = Formula("anthropic", "anthropic/claude")
    text = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}}
    assert media_bound(call_of(text), formula) == Bound()
    image = media.image_part("messages", media.png(700, 700))
    inside = {"type": "document", "source": {"type": "content", "content": [image, {"type": "text", "text": "x"}]}}
    assert media_bound(call_of(inside), formula) == media_bound(call_of(image), formula)
    hidden = {"type": "document", "source": {"type": "content", "content": [{"type": "video"}]}}
    with pytest.raises(RequestRefused, match="`video`"):
        media_bound(call_of(hidden), formula)


PACKED = {
    "a PDF": ("application/pdf", b"%PDF-1.7 streams in streams"),
    "an office file that begins as a PDF": (
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document", b"%PDF-1.4 PK"
    ),
    "a table": ("text/csv", b"7$9%3!1@" * 50),
}  # fmt: skip


@pytest.mark.parametrize("family", ["openai", "anthropic", "gemini", "other"])
@pytest.mark.parametrize("kind", PACKED)
def test_a_document_sets_aside_what_the_window_holds(kind: str, family: Any) -> None:
    """However many there are, and whatever their bytes say: nothing less is a bound."""
    declared, data = PACKED[kind]
    part = media.document_part("messages", data, declared)
    formula = Formula(family, "m", 200_000)
    for parts in ([part], [part, part, media.image_part("messages", media.png(99, 99))]):
        call = call_of(*parts)
        set_media_aside(call, formula)
        assert call.worst_input == 200_000
        assert call.likely_input < 20_000, "an answer without usage is not charged with a whole window"
    long = call_of({"type": "text", "text": "7" * 300_000}, part)
    set_media_aside(long, formula)
    assert long.worst_input > 300_000, "a table may be wrong about the window"
    beta = call_of(part)
    beta.headers = {"anthropic-beta": "context-1m-2025-08-07"}
    set_media_aside(beta, formula)
    assert beta.worst_input == 1_000_000


def test_a_document_for_a_window_that_is_unknown_is_refused_with_a_remedy() -> None:
    with pytest.raises(RequestRefused, match="`max_input`"):
        media_bound(call_of(media.document_part("messages", b"%PDF-1.7")), Formula("openai", "m"))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_honest_document_passes_beside_a_limit_that_holds_a_window(tmp_path: Path, protocol: str) -> None:
    asked = media.request_with(protocol, [media.document_part(protocol, b"%PDF-1.7 and three pages")], False)
    replies = [Reply("ok", usage=Usage(9000, 10))] * 3
    with ScriptedUpstream(replies) as upstream, live(tmp_path, upstream, cost_usd=0.35) as through:
        assert [through.post(protocol, **asked).status_code for _ in range(3)] == [200, 200, 402]
        usage = through.gateway.state().usage[1 if protocol == "messages" else 0]
    assert (usage.cost_status, usage.tokens.input_uncached) == ("exact", 18_000), "what it did cost takes its place"


@pytest.mark.parametrize(
    "value", ["\U0001f600\U00013000" * 500, [1e15] * 500, {"\u00e9" * 400: [1e-5, "\u00e9" * 400]}]
)
def test_text_is_bounded_as_it_is_sent_after_a_translation(value: Any) -> None:
    """Numbers and characters can be longer there than in what the agent has sent."""
    parts = [
        {"functionResponse": {"name": "f", "response": {"r": value}}},
        {"functionCall": {"name": "f", "args": {"r": value}}},
    ]
    asked = {"contents": [{"role": role, "parts": [part]} for role, part in zip(("user", "model"), parts, strict=True)]}
    body = json.dumps(asked, ensure_ascii=False, separators=(",", ":")).replace("000000000000000.0", "e15").encode()
    call = read_call("generate", body, {}, Target("generate", "m", False, False))
    _, sent = as_chat(call, {**call.data, "model": "m"})
    result, asking = sent["messages"]
    texts = result["content"], asking["tool_calls"][0]["function"]["arguments"]
    assert sum(most_tokens(text.encode()) for text in texts) <= call.text_tokens


def test_what_litellm_writes_anew_is_bounded_as_it_writes_it() -> None:
    value = "\u00e9\U00013000" * 500
    use = {"type": "tool_use", "id": "c", "name": "f", "input": {"r": value}}
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "assistant", "content": [use]}]}
    raw = json.dumps(body, ensure_ascii=False).encode()
    native, foreign = read_call("messages", raw, {}), read_call("messages", raw, {})
    set_media_aside(native, Formula("anthropic", "m", native=("messages",)))
    set_media_aside(foreign, Formula("openai", "m", native=("chat", "responses")))
    assert native.text_tokens <= most_tokens(raw)
    assert foreign.text_tokens >= most_tokens(json.dumps({"r": value}).encode()) > native.text_tokens


def test_media_cost_nothing_extra_where_there_are_none() -> None:
    assert media_bound(call_of({"type": "text", "text": "x" * 1000}), Formula("other", "m")) == Bound()
