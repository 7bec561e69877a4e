"""Hidden files on their way to the agent's code, which gets their content and no path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bench.guest import codec


class Hidden(os.PathLike[str]):
    """A file that only the judge sees; as an argument of a call it becomes a path in the subject."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)

    def read_bytes(self) -> bytes:
        return self.path.read_bytes()


def outgoing(value: object, buffers: list[bytes]) -> Any:
    """Like `codec.encode`, with hidden files sent by content."""
    if isinstance(value, Hidden):
        buffers.append(value.read_bytes())
        return {"t": "file", "n": value.path.name, "b": len(buffers) - 1}
    if isinstance(value, (list, tuple)):
        return {"t": "list", "v": [outgoing(item, buffers) for item in value]}
    if isinstance(value, dict):
        return {"t": "dict", "v": {str(key): outgoing(item, buffers) for key, item in value.items()}}
    tree, parts = codec.encode(value, scalars=False)
    if parts:
        tree["b"] += len(buffers)
        buffers.extend(parts)
    return tree
