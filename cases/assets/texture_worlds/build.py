"""The painter of textures and the plain baseline of cases that judge classifiers, for their data.py."""

import shutil
from pathlib import Path


def build(out: Path, seed: int) -> None:
    for name in ("textures.py", "plain.py"):
        shutil.copyfile(Path(__file__).with_name(name), out / name)
