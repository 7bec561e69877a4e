"""System calls that Python does not offer."""

from __future__ import annotations

import platform
import subprocess
import sys

_GATHERED = """
from bench.guest.kernel import Kernel

held = [bytes([number]) * (1 << 12) for number in range(256) for _ in range(64)]
made = Kernel().gather_memory()
assert all(block == bytes([number // 64]) * (1 << 12) for number, block in enumerate(held))
print(made)
"""


def test_memory_is_gathered_and_stays_what_it_was() -> None:
    """64 MiB in blocks that fill whole pages; how many of the huge ones find room is the kernel's business."""
    done = subprocess.run([sys.executable, "-c", _GATHERED], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    new_enough = tuple(map(int, platform.release().split(".")[:2])) >= (6, 1)
    assert 0 <= int(done.stdout) <= 256 and (new_enough or done.stdout == "0\n")
