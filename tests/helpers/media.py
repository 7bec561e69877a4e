"""Images and documents of any size in few bytes, and a provider that bills them by the published formulas."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]


def png(width: int, height: int) -> bytes:
    """The header of an image, which is all that a size takes."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))


def jpeg(width: int, height: int, before: int = 0) -> bytes:
    """With `before` segments of 60,000 bytes ahead of the size."""
    extra = (b"\xff\xe1" + struct.pack(">H", 60_000) + bytes(59_998)) * before
    frame = struct.pack(">HBHHB", 17, 8, height, width, 3) + bytes(9)
    return b"\xff\xd8\xff\xe0" + struct.pack(">H", 16) + bytes(14) + extra + b"\xff\xc0" + frame + b"\xff\xda\x00\x02"


def gif(width: int, height: int) -> bytes:
    """Whose frame is larger than its screen."""
    return b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0, 0, 0) + b"," + struct.pack("<HHHHB", 0, 0, width, height, 0)


def webp(width: int, height: int) -> bytes:
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF" + bytes(4) + b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + size


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


_KINDS = {b"GIF8": "image/gif", b"\xff\xd8": "image/jpeg", b"RIFF": "image/webp"}


def image_part(protocol: str, data: bytes, detail: str | None = None) -> Json:
    """An image as a part of a message in `protocol`."""
    kind = next((kind for start, kind in _KINDS.items() if data.startswith(start)), "image/png")
    if protocol == "messages":
        return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": encoded(data)}}
    url = f"data:{kind};base64,{encoded(data)}"
    more = {"detail": detail} if detail else {}
    if protocol == "responses":
        return {"type": "input_image", "image_url": url, **more}
    return {"type": "image_url", "image_url": {"url": url, **more}}


def document_part(protocol: str, data: bytes, kind: str = "application/pdf") -> Json:
    if protocol == "messages":
        source = {"type": "base64", "media_type": kind, "data": encoded(data)}
        return {"type": "document", "source": source}
    url = f"data:{kind};base64,{encoded(data)}"
    if protocol == "responses":
        return {"type": "input_file", "filename": "a.pdf", "file_data": url}
    return {"type": "file", "file": {"filename": "a.pdf", "file_data": url}}


def text_part(protocol: str, text: str) -> Json:
    return {"type": "input_text" if protocol == "responses" else "text", "text": text}


def request_with(protocol: str, parts: list[Json], as_result: bool) -> Json:
    """A request whose user, or whose tool, shows `parts`."""
    if protocol == "responses":
        said: Json = {"role": "user", "content": parts}
        result: Json = {"type": "function_call_output", "call_id": "c", "output": parts}
        call: Json = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
        return {"input": [call, result] if as_result else [said], "max_output_tokens": 10}
    if protocol == "messages":
        use: Json = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {}}]}
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": parts}]}
        return {"messages": [use, result] if as_result else [{"role": "user", "content": parts}], "max_tokens": 10}
    asked: Json = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    use = {"role": "assistant", "content": None, "tool_calls": [asked]}
    result = {"role": "tool", "tool_call_id": "c", "content": parts}
    return {"messages": [use, result] if as_result else [{"role": "user", "content": parts}], "max_tokens": 10}


def _tile_model(base: int, tile: int) -> Callable[[int, int, str | None], int]:
    def bill(width: int, height: int, detail: str | None) -> int:
        if detail == "low":
            return base
        fit = min(1.0, 2048 / max(width, height))
        shrink = min(1.0, 768 / (min(width, height) * fit)) * fit
        return base + tile * math.ceil(width * shrink / 512) * math.ceil(height * shrink / 512)

    return bill


def _patch_model(factor: float, most: int) -> Callable[[int, int, str | None], int]:
    def bill(width: int, height: int, detail: str | None) -> int:
        return math.ceil(factor * min(math.ceil(width / 32) * math.ceil(height / 32), most))

    return bill


def _anthropic_model(side: int, most: int) -> Callable[[int, int, str | None], int]:
    def bill(width: int, height: int, detail: str | None) -> int:
        fit = min(1.0, side / max(width, height))
        return min(math.ceil(width * fit * height * fit / 750), most)

    return bill


def _gemini(width: int, height: int, detail: str | None) -> int:
    if max(width, height) <= 384:
        return 258
    unit = min(max(min(width, height) / 1.5, 256), 768)
    return 258 * math.ceil(width / unit) * math.ceil(height / unit)


MODELS: dict[str, tuple[str, Callable[[int, int, str | None], int]]] = {
    "gpt-4o": ("openai", _tile_model(85, 170)), "gpt-5": ("openai", _tile_model(70, 140)),
    "o1": ("openai", _tile_model(75, 150)), "gpt-4o-mini": ("openai", _tile_model(2833, 5667)),
    "gpt-4.1-mini": ("openai", _patch_model(1.62, 1536)), "gpt-4.1-nano": ("openai", _patch_model(2.46, 1536)),
    "gpt-5.4": ("openai", _patch_model(1.0, 10_000)),
    "claude-sonnet": ("anthropic", _anthropic_model(1568, 1600)),
    "claude-opus": ("anthropic", _anthropic_model(2576, 4784)), "gemini-flash": ("gemini", _gemini),
}  # fmt: skip
"""Models with the family of their provider, and what they bill for an image of a size and a detail."""
SHAPES: dict[str, Callable[[int, int], bytes]] = {
    "png": png, "jpeg": jpeg, "gif": gif, "webp": webp, "late": lambda w, h: jpeg(w, h, 2),
}  # fmt: skip
