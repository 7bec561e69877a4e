"""The entry of the child process that builds one shared asset of the cases: cases/assets/<name>/build.py."""

from __future__ import annotations

import resource
from pathlib import Path

from bench.base.child import load_module, receive_orders

_LIMITS = {resource.RLIMIT_DATA: 2 << 30, resource.RLIMIT_FSIZE: 256 << 20}


def main() -> None:
    """Run one `build(out, seed)` as told on standard input, whose end ends it."""
    orders, _ = receive_orders()
    for limit, most in _LIMITS.items():
        resource.setrlimit(limit, (most, most))
    load_module("asset", Path(orders["script"])).build(Path(orders["out"]), orders["seed"])
