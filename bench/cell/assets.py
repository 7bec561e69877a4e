"""Shared assets of the cases, such as a tiny model: built once by the digest of their sources, kept in the cache."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from bench.base.child import log_tail, python_child
from bench.base.errors import InfraError
from bench.base.files import digest_folder, lay_over, lock, write_atomic
from bench.formats.case import Case
from bench.guest.trees import remove_tree
from bench.sandbox import base_environment

_BUILD_S = 300
_SEED = 1
"""The same for everyone: an asset is not secret."""
_COMPLETE = "complete"
"""Written last; holds the digest of what was built."""


def lay_assets(case: Case, workspace: Path, hidden: Path, cache: Path) -> None:
    """Put the case's assets where it wants them: into its workspace, or into `hidden`/assets; raises `InfraError`."""
    for name, wanted in case.spec.assets.items():
        built = build_asset(case.asset(name), cache)
        target = workspace / wanted.workspace if wanted.workspace else hidden / "assets" / name
        target.mkdir(parents=True, exist_ok=True)
        lay_over(built, target)


def build_asset(source: Path, cache: Path) -> Path:
    """The folder of the built asset; raises `InfraError` where it cannot be built."""
    place = cache / "assets" / f"{source.name}-{digest_folder(source)[7:23]}"
    if not _is_intact(place):
        with lock(place.with_name(f".{place.name}.lock")):
            # Another process may have built it meanwhile.
            if not _is_intact(place):
                _build(source, place)
    return place / "files"


def _is_intact(place: Path) -> bool:
    try:
        return (place / _COMPLETE).read_text() == digest_folder(place / "files")
    except OSError:
        return False


def _build(source: Path, place: Path) -> None:
    remove_tree(place)
    files = place / "files"
    files.mkdir(parents=True)
    orders = {"script": str(source / "build.py"), "out": str(files), "seed": _SEED}
    env = base_environment(home="/nonexistent", tmp=tempfile.gettempdir(), python=Path(sys.executable), cpus=1)
    try:
        with python_child("bench.casekit.assets", orders, env=env) as builder:
            try:
                code = builder.popen.wait(_BUILD_S)
            except subprocess.TimeoutExpired:
                raise InfraError("data_error", f"the asset {source.name} took over {_BUILD_S} s to build") from None
            if code != 0:
                cause = "builder_killed" if code < 0 else "data_error"
                raise InfraError(cause, f"the asset {source.name} cannot be built: {log_tail(builder.log)}")
        write_atomic(place / _COMPLETE, digest_folder(files).encode())
    except BaseException:
        remove_tree(place)
        raise
