"""Images and documents are priced before they are sent, never below what a provider bills; what has no price waits."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

from bench.gateway.file_bounds import MOST_PAGES, image_size, pdf_bound
from bench.gateway.media import Formula, media_bound
from bench.gateway.request import Call, RequestRefused, read_call
from tests.helpers import media
from tests.helpers.gateway_live import UNLIMITED, live
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
        assert image_size(data) == (width, height)
        assert image_size(data[:9]) is None


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
            parts, tokens = [media.text_part(protocol, "look")], 0
            for _ in range(rng.randint(1, 3)):
                if rng.random() < 0.2:
                    pages = rng.randint(1, 3)
                    parts.append(media.pdf_part(protocol, media.pdf(pages, b"word " * 50)))
                    tokens += pages * (3000 + bill(2000, 2800, None))
                    continue
                (width, height), detail = rng.choice(sizes(rng, 1)), rng.choice(DETAILS)
                data = SHAPES[rng.choice(list(SHAPES))](width, height)
                parts.append(media.image_part(protocol, data, detail))
                tokens += bill(width, height, detail)
            worth[str(number)] = tokens
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
    ({"type": "file", "file": {"file_data": "data:application/msword;base64,AAAA"}}, "file_data"),
    ({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}}, "source"),
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
    assert media_bound(call_of(text), formula) == (0, 0, 0)
    image = media.image_part("messages", media.png(700, 700))
    inside = {"type": "document", "source": {"type": "content", "content": [image, {"type": "text", "text": "x"}]}}
    assert media_bound(call_of(inside), formula) == media_bound(call_of(image), formula)
    hidden = {"type": "document", "source": {"type": "content", "content": [{"type": "video"}]}}
    with pytest.raises(RequestRefused, match="`video`"):
        media_bound(call_of(hidden), formula)


def test_pages_and_text_of_a_pdf_are_bounded() -> None:
    plain, packed = media.pdf(3, b"word " * 1000, packed=False), media.pdf(3, b"word " * 1000)
    for data in (plain, packed):
        found = pdf_bound(data)
        assert found is not None
        assert found[0] == 3
        assert found[1] >= 3 * 5000
    twice = plain.replace(b"10 0 R 11 0 R", b"10 0 R 10 0 R")
    assert pdf_bound(twice) is not None
    assert (pdf_bound(twice) or (0, 0))[0] == MOST_PAGES, "the same page many times over"
    escaped = plain.replace(b"/Kids", b"/K#69ds").replace(b"/Type/Page/", b"/Type/P#61ge/").replace(b"/Count 3", b"")
    assert (pdf_bound(escaped) or (0, 0))[0] == 3
    for unread in (b"", b"%PDF-1.4 /Encrypt", b"%PDF-1.4 /Encr#79pt", b"%PDF-1.4 /LZWDecode", b"PK\x03\x04"):
        assert pdf_bound(unread) is None
    assert pdf_bound(media.pdf(1, bytes(60_000_000))) is None, "a bomb is not unpacked to its end"


def test_media_cost_nothing_extra_where_there_are_none() -> None:
    assert media_bound(call_of({"type": "text", "text": "x" * 1000}), Formula("other", "m")) == (0, 0, 0)
