"""Children that read their orders from standard input, which stays open: its end tells them that the runner is gone."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any


def send_orders(child: subprocess.Popen[bytes], orders: dict[str, Any] | bytes) -> None:
    """Write one line of orders. That a child was killed before it read them is seen by how it ended."""
    assert child.stdin is not None
    data = orders if isinstance(orders, bytes) else json.dumps(orders).encode()
    data += b"\n"
    # Past the buffer: what it still held when the child had gone would be an error again at its closing.
    try:
        while data:
            data = data[os.write(child.stdin.fileno(), data) :]
    except BrokenPipeError:
        return
