"""The command line as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def mldb(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *map(str, arguments)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, timeout=300, check=False)
