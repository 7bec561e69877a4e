"""The traces of one stored run, wherever they are: reads its manifest and no more of the branch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.errors import UserError
from bench.store.chain import manifest_of
from bench.store.gitplace import open_place
from bench.store.manifest import StoredTrace, parse_manifest
from bench.store.place import Place, Tip, TryAgain
from bench.store.traceplace import INLINE, TracePlace, fetch
from bench.store.traces import inflate, key_of
from bench.store.tree import find


@dataclass(frozen=True)
class Shelf:
    """The traces of a run."""

    traces: list[StoredTrace]
    place: Place
    tip: Tip

    def read(self, trace: StoredTrace, where: TracePlace | None) -> bytes:
        """The archive of a trace, proven to be what was stored; `where` None: as the manifest says.

        Raises `UserError`.
        """
        if trace.place != INLINE:
            return fetch(trace, where)
        path = f"traces/{key_of(trace.digest)}"
        entry = find(self.place, self.tip.tree, [path]).get(path)
        if entry is None:
            raise UserError("is gone", where=path, remedy="`results verify` tells what else is")
        return inflate(self.place.blob(entry.sha), trace.digest, path)


@contextmanager
def open_shelf(repository: Path | str, branch: str, run: str, attempt: int) -> Iterator[Shelf]:
    """The traces of a stored run; raises `UserError` where there is no such run."""
    try:
        with open_place(repository, branch) as place:
            tip = place.tip()
            path = manifest_of(place, tip, f"{run}-{attempt}") if tip else None
            entry = find(place, tip.tree, [path]).get(path) if tip and path else None
            if tip is None or path is None or entry is None:
                raise UserError("no such run is stored", where=f"run {run}, attempt {attempt}", remedy="name another")
            yield Shelf(parse_manifest(place.blob(entry.sha), path).traces, place, tip)
    except TryAgain as fault:
        raise UserError(str(fault), where=str(repository), remedy="check the address and the network") from None
