"""Compiled templates, kept where Python keeps its own bytecode: to compile all of them takes half a second."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import marshal
import sys
from pathlib import Path
from types import CodeType

import jinja2
from jinja2.bccache import Bucket, BytecodeCache

from bench.base.files import write_atomic

_DIGEST = 32
"""Bytes of SHA-256."""


class CompiledTemplates(BytecodeCache):
    """Beside each template in `__pycache__`: who can write there can change the program's own bytecode as well.

    Jinja's own cache of files reads pickles, from a folder that may be anyone's.
    """

    def __init__(self, sources: str) -> None:
        """`sources`: the digest of what stands in the code of a template beside its text: filters of constants."""
        self._about = f"{sys.version} {jinja2.__version__} {sources}"

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        return filename or ""

    def get_source_checksum(self, source: str) -> str:
        return hashlib.sha256(f"{self._about}\0{source}".encode()).hexdigest()

    def load_bytecode(self, bucket: Bucket) -> None:
        try:
            content = _place(bucket.key).read_bytes()
        except (OSError, ValueError):
            return
        digest, code = content[:_DIGEST], content[_DIGEST:]
        if digest != _signed(bucket.checksum, code):
            return
        found = marshal.loads(code)  # noqa: S302  as Python does with its own, and its digest is right
        bucket.code = found if isinstance(found, CodeType) else None

    def dump_bytecode(self, bucket: Bucket) -> None:
        if sys.dont_write_bytecode or not bucket.key:
            return
        code = marshal.dumps(bucket.code)
        with contextlib.suppress(OSError):  # an installation that this user may not write to
            write_atomic(_place(bucket.key), _signed(bucket.checksum, code) + code)


def _place(template: str) -> Path:
    return Path(importlib.util.cache_from_source(template))


def _signed(checksum: str, code: bytes) -> bytes:
    return hashlib.sha256(checksum.encode() + code).digest()
