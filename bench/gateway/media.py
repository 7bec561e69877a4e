"""The most tokens that images and documents of a request can be billed as; what cannot be bounded is refused.

The formulas are the providers' own, rounded up where models differ: of one provider the most expensive rule counts.
What a document holds is known to its reader alone: with one, the whole input is what the model's window can hold.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from bench.gateway import google
from bench.gateway.image_size import read_image
from bench.gateway.json_values import Json
from bench.gateway.request import Call, Dialect, RequestRefused
from bench.gateway.text_bound import most_tokens

Family = Literal["openai", "anthropic", "gemini", "other"]
"""Whose rule counts; `other`: unknown, so the most expensive of all."""
_LARGEST_SIDE = 65_535
_LONG_CONTEXT, _LONG_WINDOW = "context-1m", 1_000_000
"""Anthropic's beta, by which some models take more than their window."""
_REWRITTEN: tuple[Dialect, ...] = ("messages", "responses")
"""Of these litellm writes calls of tools anew for other providers, each character that is not ASCII as six."""
_DOCUMENTS = ("application/", "text/")
"""Beginnings of the media types that are billed as text, and as pictures of pages."""
_DATA_URL = re.compile(r"data:([\w.+/-]*)(?:;[\w=.+-]+)*;base64,")
_TEXT = frozenset(
    {
        None, "text", "input_text", "output_text", "summary_text", "reasoning_text", "refusal", "message", "reasoning",
        "thinking", "redacted_thinking", "tool_use", "tool_result", "tool_reference", "search_result", "function_call",
        "function_call_output", "custom_tool_call", "custom_tool_call_output", "local_shell_call", "shell_call",
        "local_shell_call_output", "shell_call_output", "apply_patch_call", "apply_patch_call_output",
        "computer_call", "computer_call_output", "tool_search_call", "tool_search_output", "function", "custom",
    }
)  # fmt: skip
"""Parts that are billed by their text."""
_IMAGES = frozenset({"image", "image_url", "input_image", "computer_screenshot"})
_FILES = frozenset({"file", "input_file", "document"})
_INSIDE = frozenset({"content", "output", "system", "instructions", "summary", "tool_calls"})
"""Fields that hold parts."""
_NESTED = (dict, list)
_TYPED_TOOL = 800
_TOOLS = 500
"""Tokens that providers add for tools: a prompt of their own, and per tool of a built-in type."""


class Bound(NamedTuple):
    """Of the media of one request."""

    tokens: int = 0
    encoded: int = 0
    """Bytes of the body that are not billed as text."""
    as_text: int = 0
    """The most tokens that these bytes would be billed as if they were text."""
    documents: int = 0
    """The same of the documents' bytes; 0: there are none."""

    def plus(self, tokens: int, data: str = "") -> Bound:
        """This and what `data` shows, for `tokens`."""
        more = most_tokens(data.encode("utf-8", "replace")) if data else 0
        return self._replace(
            tokens=self.tokens + tokens, encoded=self.encoded + len(data), as_text=self.as_text + more
        )  # fmt: skip

    def with_document(self, data: str) -> Bound:
        return self._replace(documents=self.documents + most_tokens(data.encode("utf-8", "replace")))

    def seen_by(self, formula: Formula) -> Bound:
        """Of an unknown provider it is not known whether it takes pictures for what they are."""
        return self if formula.family != "other" else self._replace(encoded=0, as_text=0)


_NO_MEDIA = Bound()


@dataclass(frozen=True)
class Formula:
    """How one model's provider bills images and documents."""

    family: Family
    model: str
    window: int = 0
    """The most tokens that its input can have; 0: unknown."""
    native: tuple[Dialect, ...] = ()
    """Protocols in which a request reaches the provider as the gateway has read it."""

    def image(self, width: int, height: int) -> int:
        """Tokens of one image, at the most expensive setting of detail."""
        rules = {"openai": self._openai, "anthropic": _anthropic, "gemini": _gemini}
        if self.family == "other":
            return max(*(rule(width, height) for rule in rules.values()), _open_models(width, height))
        return rules[self.family](width, height)

    def _openai(self, width: int, height: int) -> int:
        base, tile = (2833, 5667) if "4o-mini" in self.model else (85, 170)
        # With patches of 32 pixels, up to the budget of `original`, times the factor of the smallest models.
        patches = min(math.ceil(width / 32) * math.ceil(height / 32), 10_000)
        return max(base + tile * _tiles(width, height), math.ceil(2.46 * patches)) + 16


def _tiles(width: int, height: int) -> int:
    """Tiles of 512 pixels after the fit into 2048 and the shorter side's into 768, whether small ones grow or not."""
    fit = min(1.0, 2048 / max(width, height))
    wide, high = width * fit, height * fit
    shrink = min(1.0, 768 / min(wide, high))
    grow = min(max(1.0, 768 / min(wide, high)), 2048 / max(wide, high))
    return max(math.ceil(wide * by / 512) * math.ceil(high * by / 512) for by in (shrink, max(shrink, grow)))


def _anthropic(width: int, height: int) -> int:
    patches = math.ceil(width / 28) * math.ceil(height / 28)
    # Larger ones are made smaller until they have about 4,800.
    return min(max(math.ceil(width * height / 750), patches), 5000) + 16


def _gemini(width: int, height: int) -> int:
    unit = min(max(min(width, height) // 1.5, 256), 768)
    return max(258 * math.ceil(width / unit) * math.ceil(height / unit), 2240) + 16


def _open_models(width: int, height: int) -> int:
    return max(min(math.ceil(width / 14) * math.ceil(height / 14), 16_384), 8000)


def set_media_aside(call: Call, formula: Formula) -> None:
    """Write the bound of all media into `call`; raises `RequestRefused` for what has none."""
    bound = media_bound(call, formula)
    if call.dialect in _REWRITTEN and call.dialect not in formula.native:
        call.text_tokens = max(call.text_tokens, most_tokens(json.dumps(call.data).encode("ascii")))
    call.media_tokens, call.media_bytes = bound.tokens, bound.encoded
    call.text_tokens -= bound.as_text + bound.documents
    if bound.documents:
        long = _LONG_CONTEXT in call.headers.get("anthropic-beta", "")
        call.window = max(formula.window, _LONG_WINDOW if long else 0)


def media_bound(call: Call, formula: Formula) -> Bound:
    """The bound of all media in `call`; raises `RequestRefused` for what has none."""
    if call.dialect == "generate":
        return _google_bound(call, formula)
    bound = _NO_MEDIA
    for part in _parts(call):
        kind = part.get("type")
        if kind is not None and not isinstance(kind, str):
            raise _refused("type", "a part's type must be a string")
        if "audio" in part and part["audio"] is not None:
            raise _refused("audio", "what sound costs is not known")
        if kind in _TEXT:
            continue
        if kind in _IMAGES:
            name, declared, data = _image(part, kind)
            bound = bound.plus(formula.image(*_sized(name, declared, data)), data)
        elif kind in _FILES:
            bound = _with_file(bound, part, str(kind), formula)
        else:
            raise _refused(str(kind)[:60], "what such a part costs is not known")
    return bound.plus(_tools(call)).seen_by(formula)


_GOOGLE_TEXT = frozenset({
    "text", "thought", "thoughtSignature", "functionCall", "functionResponse", "executableCode", "codeExecutionResult",
    "partMetadata",
})  # fmt: skip
"""Fields of Google's parts that are billed by their text."""


def _google_bound(call: Call, formula: Formula) -> Bound:
    bound = _NO_MEDIA
    for content in google.contents_of(call.data):
        for part in google.parts_of(content):
            if others := sorted(part.keys() - _GOOGLE_TEXT - {"inlineData"}):
                raise _refused(others[0][:60], "what such a part costs is not known")
            held = part.get("inlineData")
            if held is None:
                continue
            data = held.get("data") if isinstance(held, dict) else None
            kind = str(held.get("mimeType")) if isinstance(held, dict) else ""
            if not isinstance(data, str):
                raise _refused("inlineData", "its `data` must be base64")
            if kind.startswith("image/"):
                bound = bound.plus(formula.image(*_sized("inlineData", [kind], data)), data)
            else:
                bound = _with_document(bound, "inlineData", [kind], data, formula)
    tools = call.data.get("tools")
    if isinstance(tools, list) and tools:
        bound = bound.plus(_TOOLS + _TYPED_TOOL * sum("computerUse" in it for it in tools))
    return bound.seen_by(formula)


def _parts(call: Call) -> Iterator[Json]:
    """Every part that is billed as input, and the items that hold them."""
    if call.dialect == "embeddings":
        if any(isinstance(item, dict) for item in call.items):
            raise _refused("input", "only texts are embedded")
        return
    pending: list[Any] = [*call.items, call.data.get("system"), call.data.get("instructions")]
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, dict):
            yield item
            for name, value in item.items():
                if name in _INSIDE and type(value) in _NESTED:
                    pending.append(value)


def _tools(call: Call) -> int:
    tools = call.data.get("tools") or call.data.get("functions")
    if not isinstance(tools, list) or not tools:
        return 0
    typed = sum(isinstance(it, dict) and it.get("type") not in (None, "function", "custom") for it in tools)
    return _TOOLS + _TYPED_TOOL * typed


def _image(part: Json, kind: str) -> tuple[str, list[Any], str]:
    """The name of the field with the image, the media types that are declared for it, and its base64."""
    if kind == "image":
        source = part.get("source")
        if isinstance(source, dict) and source.get("type") == "base64" and isinstance(source.get("data"), str):
            return "source.data", [source.get("media_type")], source["data"]
        raise _refused("source", "send the image itself as base64: what another one costs is not known")
    picture = part.get("image_url")
    address = picture.get("url") if isinstance(picture, dict) else picture
    if not isinstance(address, str) or not (head := _DATA_URL.match(address)):
        raise _refused("image_url", "send the image itself as a data: URL with base64")
    more = [picture["format"]] if isinstance(picture, dict) and picture.get("format") is not None else []
    return "image_url", [head[1], *more], address[head.end() :]


def _sized(name: str, declared: list[Any], data: str) -> tuple[int, int]:
    found = read_image(_decoded(name, data))
    if found is None:
        raise _refused(name, "this is not a PNG, JPEG, GIF or WebP image whose size can be read")
    # By which type an image is read is the provider's choice.
    if wrong := [it for it in declared if str(it).lower().replace("/jpg", "/jpeg") != found.kind]:
        raise _refused(name, f"it is declared as {str(wrong[0])[:60]!r} and is {found.kind}; declare what it is")
    if max(found.width, found.height) > _LARGEST_SIDE:
        raise _refused(name, f"a side has at most {_LARGEST_SIDE} pixels")
    return found.width, found.height


def _with_file(bound: Bound, part: Json, kind: str, formula: Formula) -> Bound:
    if kind == "document":
        source = part.get("source")
        how = source.get("type") if isinstance(source, dict) else None
        if isinstance(source, dict) and how == "text" and isinstance(source.get("data"), str):
            return bound
        if isinstance(source, dict) and how == "content":
            # A text, or blocks that are no different from those outside of documents.
            inner = Call("messages", {"messages": [{"content": source.get("content")}]}, 0, "", "", {})
            return Bound(*map(sum, zip(bound, media_bound(inner, formula), strict=True)))
        data = source.get("data") if isinstance(source, dict) else None
        declared = source.get("media_type") if isinstance(source, dict) else None
        return _with_document(bound, "source.data", [declared], data, formula)
    held = part.get("file") if kind == "file" else part
    held = held if isinstance(held, dict) else {}
    data, declared = held.get("file_data"), [held.get("format"), held.get("mime_type")]
    if isinstance(data, str) and (head := _DATA_URL.match(data)):
        data, declared = data[head.end() :], [*declared, head[1]]
    return _with_document(bound, "file_data", declared, data, formula)


def _with_document(bound: Bound, name: str, declared: list[Any], data: Any, formula: Formula) -> Bound:
    if not isinstance(data, str) or not data:
        raise _refused(name, "send the document itself as base64")
    if wrong := [it for it in declared if it and not str(it).lower().startswith(_DOCUMENTS)]:
        raise _refused(name, f"what {str(wrong[0])[:60]!r} costs is not known; send its text instead")
    if not formula.window:
        raise _refused(
            name, "a document can be as much as the model's window holds, and no price table says how much that is."
            " Send its text instead; whoever runs this can name `max_input` of the model in the file MLDB_PRICES",
        )  # fmt: skip
    return bound.with_document(data)


def _decoded(name: str, data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise _refused(name, "this is not plain base64") from None


def _refused(name: str, why: str) -> RequestRefused:
    message = f"field `{name}` cannot be priced before it is sent, and this cell has a limit to keep: {why}"
    return RequestRefused(400, "not_allowed", message)
