"""The start of a trial: the case's files and generated data, cached by seed."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.base.child import log_tail, python_child
from bench.base.errors import InfraError, UserError
from bench.base.files import digest_folder, lay_over, lock, temporary_folder, write_atomic
from bench.base.install import find_data_folders
from bench.cell.assets import lay_assets
from bench.cell.sources import SourceCache, sources_of
from bench.formats.case import Case
from bench.guest.trees import remove_tree
from bench.sandbox import base_environment

_BUILD_S = 600
_COMPLETE = "complete"
"""Written last; holds the digest of everything beside it."""


@dataclass(frozen=True)
class StartState:
    """What a trial begins with; shared and never written to."""

    workspace: Path
    """Starter files with the public data laid over them."""
    hidden: Path
    """What only the judge and the services see."""


def prepare_start(case: Case, profile: str, seed: int, cache: Path, fetched: Path | None = None) -> StartState:
    """The start of a trial from the cache, built first if it is not there or damaged; raises `InfraError`.

    fetched: cache of published data; default: the installation's.
    """
    # A digest of the seed: paths of hidden files get into messages, and with them into records.
    tag = hashlib.sha256(f"start\0{seed}".encode()).hexdigest()[:16] if case.part("data.py").is_file() else "0"
    place = cache / "starts" / f"{case.id}-{case.digest[7:23]}-{profile}-{tag}"
    if not _is_intact(place):
        with lock(place.with_name(f".{place.name}.lock")):
            # Another process may have built it meanwhile.
            if not _is_intact(place):
                _build(case, profile, seed, place, cache, fetched)
    return StartState(place / "workspace", place / "hidden")


def _is_intact(place: Path) -> bool:
    """Built to its end, and since then nothing in it has changed."""
    try:
        return (place / _COMPLETE).read_bytes() == _digest(place)
    except OSError:
        return False


def _digest(place: Path) -> bytes:
    return f"{digest_folder(place, skip=frozenset(), without=frozenset({_COMPLETE}))}\n".encode()


def _build(case: Case, profile: str, seed: int, place: Path, cache: Path, fetched: Path | None) -> None:
    """Build in place: an incomplete folder is never used, and the next builder clears what a killed one left."""
    remove_tree(place)
    workspace, hidden, public = (place / name for name in ("workspace", "hidden", "public"))
    try:
        for made in (workspace, hidden, public):
            made.mkdir(parents=True)
        lay_over(case.part("workspace"), workspace)
        build_data(case, profile, seed, public, hidden, cache, fetched)
        lay_over(public, workspace)
        remove_tree(public)
        write_atomic(place / _COMPLETE, _digest(place))
    except BaseException:
        remove_tree(place)
        raise


def build_data(
    case: Case,
    profile: str,
    seed: int,
    public: Path,
    hidden: Path,
    cache: Path | None = None,
    fetched: Path | None = None,
) -> None:
    """Lay out the case's assets, and run its data.py, which may read them, in a process that ends with this one.

    cache: for assets, and fetched: for published data; default: the installation's. Raises `InfraError` with what
    data.py printed.
    """
    if case.spec.assets:
        lay_assets(case, public, hidden, cache or find_data_folders().cache)
    if not case.part("data.py").is_file():
        return
    if not sources_of(case, profile):
        _run_builder(case, profile, seed, public, hidden, "")
        return
    with temporary_folder("sources") as folder:
        _lay_sources(case, profile, fetched or find_data_folders().cache, folder)
        _run_builder(case, profile, seed, public, hidden, str(folder))


def _lay_sources(case: Case, profile: str, cache: Path, folder: Path) -> None:
    try:
        SourceCache.below(cache).lay(case, profile, folder)
    except UserError as error:
        raise InfraError("data_error", str(error)) from None


def _run_builder(case: Case, profile: str, seed: int, public: Path, hidden: Path, sources: str) -> None:
    orders = {
        "script": str(case.part("data.py")),
        "code": [str(folder) for folder in case.parts("hidden")],
        "public": str(public),
        "hidden": str(hidden),
        "profile": profile,
        "seed": seed,
        "sources": sources,
    }
    env = base_environment(home="/nonexistent", tmp=tempfile.gettempdir(), python=Path(sys.executable), cpus=1)
    with python_child("bench.casekit.data", orders, env=env) as builder:
        try:
            code = builder.popen.wait(_BUILD_S)
        except subprocess.TimeoutExpired:
            raise InfraError("data_error", f"data.py of {case.id} took over {_BUILD_S} s") from None
        if code != 0:
            cause = "builder_killed" if code < 0 else "data_error"
            raise InfraError(cause, f"data.py of {case.id} failed (status {code}): {log_tail(builder.log)}")
