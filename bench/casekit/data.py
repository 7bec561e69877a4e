"""For authors of data.py: seeds, deterministic writers; and the entry of the child process that runs one data.py."""

from __future__ import annotations

import gzip
import hmac
import io
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.base.child import load_module, receive_orders
from bench.base.files import write_atomic

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The earliest time that a zip archive can hold: the same bytes whenever the archive is written.
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)


def stream(seed: int, name: str) -> int:
    """The seed, of 128 bits, of one of several independent streams of random numbers: `public`, `hidden`, or any name.

    It derives from `seed` by HMAC, so that a generator whose state was recovered from what it drew tells nothing of
    the seed, nor of another stream. `numpy.random.default_rng` takes it whole, and Python's own generator, too.
    """
    return int.from_bytes(hmac.digest(f"{seed:x}".encode(), name.encode(), "sha256")[:16], "big")


def write_npz(path: Path, **arrays: NDArray[Any]) -> None:
    """Write arrays as a compressed .npz, byte-identical for equal arrays."""
    import numpy

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(arrays):
            content = io.BytesIO()
            numpy.lib.format.write_array(content, numpy.ascontiguousarray(arrays[name]), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _ZIP_TIME), content.getvalue(), zipfile.ZIP_DEFLATED)
    write_atomic(path, stream.getvalue())


def write_tar(path: Path, files: Mapping[str, bytes]) -> None:
    """Write files as a .tar.gz, byte-identical for equal content: sorted, no times, no owners."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size = len(files[name])
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(files[name]))
    write_atomic(path, gzip.compress(stream.getvalue(), compresslevel=6, mtime=0))


def main() -> None:
    """Entry of the child process: run one data.py as told on standard input, whose end ends it."""
    orders, _ = receive_orders()
    script = Path(orders["script"])
    sys.path[:0] = orders["code"]
    module = load_module("data", script)
    # Only where case.yaml names some: most cases do not know of them.
    more = {"sources": Path(orders["sources"])} if orders["sources"] else {}
    module.build(Path(orders["public"]), Path(orders["hidden"]), orders["profile"], orders["seed"], **more)
