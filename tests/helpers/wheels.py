"""Small wheels, made by hand."""

from __future__ import annotations

import zipfile
from pathlib import Path


def make_wheel(folder: Path, name: str = "tinything", requires: str = "") -> str:
    """A wheel with one module and one program; returns its file name."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": "WORD = 'from the agent'\n\ndef main():\n    print('program of the agent')\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n" + requires,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name}-program = {name}:main\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    wheel = f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(folder / wheel, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)
    return wheel
