"""Writes a cassette while calls are made: one YAML document an exchange, so that a crash loses none but the last."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import yaml

from bench.gateway.bodies import clip, write_all
from bench.gateway.exchanges import Exchange, Heading
from bench.gateway.prices import Prices
from bench.gateway.protocol import Call, Dialect, digest_json, shallow
from bench.gateway.streams import Events
from bench.schema import Model


class Recorder:
    """The cassette of one role. `redact` takes out everything that looks like a secret."""

    def __init__(self, path: Path, model: str, prices: Prices | None, redact: Callable[[str], str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._redact = redact
        self._count = 0
        self._frame = ""
        self._previous: dict[Dialect, tuple[int, list[Any]]] = {}
        self._write(Heading(schema_=2, model=model, prices=prices))

    def whole(self, call: Call, status: int, content: bytes) -> None:
        """Record an answer that came in one piece."""
        try:
            body = clip(shallow(json.loads(content.decode("utf-8"))), len(content))
        except (ValueError, RecursionError):
            body = content.decode("utf-8", "replace")
        self._exchange(call, {"status": status, "body": body})

    async def tee(self, call: Call, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """Record a stream as it goes by; one that breaks is not recorded."""
        events, seen = Events(), bytearray()
        async with aclosing(chunks):
            async for chunk in chunks:
                seen += chunk
                yield chunk
        texts = [event.decode("utf-8", "replace") for event in events.feed(bytes(seen))]
        self._exchange(call, {"events": [*texts, events.rest().decode("utf-8", "replace")]})

    def close(self) -> None:
        os.close(self._file)

    def _exchange(self, call: Call, answer: dict[str, Any]) -> None:
        items = json.loads(self._redact(json.dumps(call.items)))
        after, before = self._previous.get(call.dialect, (0, []))
        shorter = min(len(before), len(items))
        kept = next((at for at in range(shorter) if before[at] != items[at]), shorter)
        self._count += 1
        self._previous[call.dialect] = (self._count, items)
        digest = digest_json([call.dialect, call.frame])
        frame: Any = "same" if digest == self._frame else json.loads(self._redact(json.dumps(call.frame)))
        self._frame = digest
        answer = json.loads(self._redact(json.dumps(answer)))
        self._write(
            Exchange(
                protocol=call.dialect, frame=frame, after=after if kept else 0, kept=kept, new=items[kept:], **answer
            )
        )

    def _write(self, document: Model) -> None:
        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        data = document.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        data = {"schema": 2, **data} if isinstance(document, Heading) else data
        text = yaml.dump(data, Dumper=dumper, allow_unicode=True, sort_keys=False, width=120, explicit_start=True)
        write_all(self._file, text.encode("utf-8", "replace"))
