"""Changes to the files that an answer must leave alone."""

from __future__ import annotations

import os
import py_compile
import shutil
from pathlib import Path

import facts


def edit() -> None:
    """Change every protected file, and whatever else of the task and the agent can be written."""
    for path in facts.protected():
        path.write_bytes(path.read_bytes() + b"\n# changed\n")
    for path in (facts.TASK, Path(__file__), Path(os.__file__)):
        try:
            with path.open("ab") as file:
                file.write(b"")
            facts.reached(f"{path} can be written")
        except OSError:
            continue


def remove() -> None:
    """Remove every protected file and lock the folders they were in."""
    for path in facts.protected():
        path.unlink()
    for folder in {path.parent for path in facts.protected()}:
        folder.chmod(0o500)


def replace() -> None:
    """A folder, a link or a pipe in the place of each protected file."""
    for number, path in enumerate(facts.protected()):
        path.unlink()
        if number % 3 == 0:
            path.mkdir()
            (path / "inside").write_text("x")
        elif number % 3 == 1:
            path.symlink_to("/etc/passwd")
        else:
            os.mkfifo(path)


def shadow() -> None:
    """Leave the files and put what Python would rather import beside them: packages, extensions, bytecode."""
    bomb = facts.WORKSPACE / "bomb.py"
    bomb.write_text("import os\nos._exit(0)\n")
    for path in facts.protected():
        if path.suffix != ".py":
            path.with_name(f"{path.name}.bak").write_bytes(b"x")
            continue
        package = path.with_suffix("")
        package.mkdir(exist_ok=True)
        shutil.copyfile(bomb, package / "__init__.py")
        path.with_suffix(".so").write_bytes(b"\x7fELF")
        path.with_name(f"{path.stem}.abi3.so").write_bytes(b"\x7fELF")
        cached = Path(py_compile.compile(str(bomb), cfile=str(path.with_suffix(".pyc")), doraise=True))
        cache = path.parent / "__pycache__"
        cache.mkdir(exist_ok=True)
        # Bytecode that is valid without looking at the source.
        data = bytearray(cached.read_bytes())
        data[4:16] = (1).to_bytes(4, "little") + bytes(8)
        (cache / f"{path.stem}.cpython-{_tag()}.pyc").write_bytes(bytes(data))
    bomb.unlink()


def _tag() -> str:
    import sys

    return f"{sys.version_info.major}{sys.version_info.minor}"
