"""Workspaces that are expensive to read. What is made here is small; what a careless reader makes of it is not."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import io
import json
import os
import struct
import time
import zipfile
import zlib
from pathlib import Path

import facts

_GIGABYTE = 10**9
_SPARSE_FILES = 30
_MOST_ENTRIES = 50_000
_PER_FOLDER = 1000
_DEPTH = 3000
_BOMB_MB = 48
"""Of a file that is really written."""
_TENSOR_BYTES = 487 << 20
_RESERVED = 4 << 20
_RESERVES = {"FS_IOC_RESVSP": 0x40305828, "FS_IOC_RESVSP64": 0x4030582A, "FS_IOC_ZERO_RANGE": 0x40305839}
"""Commands by which a file system sets room aside without a byte written."""


def _places(*suffixes: str) -> list[Path]:
    """The expected results, and a file of each of these kinds beside them."""
    found = facts.outputs()
    for path in found:
        facts.clear_place(path)
    folders = sorted({path.parent for path in found} | {facts.WORKSPACE})
    return [*found, *(folder / f"hoard{suffix}" for folder in folders for suffix in suffixes)]


def _sparse(path: Path, size: int) -> bool:
    """A file of this size that takes no room; False where files may not be that long."""
    with path.open("wb") as file:
        try:
            file.truncate(size)
        except OSError:
            file.truncate((facts.FACTS["limits"]["disk_mb"] << 20) - 1)
            return False
    return True


def sparse_files() -> None:
    """Thirty files of a gigabyte each that take no room on the disk, results among them."""
    paths = [*_places(), *(facts.WORKSPACE / f"sparse-{number}" for number in range(_SPARSE_FILES))][:_SPARSE_FILES]
    facts.say("made", long=sum(_sparse(path, _GIGABYTE) for path in paths), files=len(paths))


def many_entries() -> None:
    """Fifty thousand entries: files, folders, links and names of two hundred bytes."""
    until = time.monotonic() + facts.FACTS["limits"]["agent_s"] * 0.6
    made = 0
    while made < _MOST_ENTRIES and time.monotonic() < until:
        folder = facts.WORKSPACE / f"many-{made // _PER_FOLDER}"
        folder.mkdir()
        handle = os.open(folder, os.O_RDONLY)
        for number in range(_PER_FOLDER):
            name = f"{number}-{'n' * (200 if number % 10 == 0 else 1)}"
            if number % 5 == 0:
                os.mkdir(name, dir_fd=handle)
            elif number % 5 == 1:
                os.symlink("0", name, dir_fd=handle)
            else:
                os.close(os.open(name, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=handle))
        os.close(handle)
        made += _PER_FOLDER
    facts.say("made", entries=made)


def deep_trees() -> None:
    """Trees of three thousand folders, in the workspace and where results are expected."""
    starts = [facts.WORKSPACE / f"deep-{number}" for number in range(4)]
    for path in facts.outputs():
        facts.clear_place(path)
        starts.append(path)
    for start in starts:
        start.mkdir()
        os.chdir(start)
        for number in range(_DEPTH):
            os.mkdir("d")
            os.chdir("d")
            if number % 100 == 0:
                open("file", "w").close()
    os.chdir("/")


def tensors() -> None:
    """Tensor files in the place of results: half a gigabyte of zeros that takes no room, shapes beyond all memory."""
    for number, path in enumerate(_places(".safetensors")):
        size = min(_TENSOR_BYTES, (facts.FACTS["limits"]["disk_mb"] << 20) - (1 << 16))
        kind, width = (("F32", 4), ("BF16", 2), ("U8", 1))[number % 3]
        entry = {"dtype": kind, "shape": [size // width], "data_offsets": [0, size // width * width]}
        lies = {"dtype": "F64", "shape": [1 << 40, 1 << 40], "data_offsets": [0, 8]}
        names = _tensor_names() or ["layers.0.weight"]
        header = json.dumps({names[0]: entry, **dict.fromkeys(names[1:], lies)}).encode()
        with path.open("wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            try:
                file.truncate(8 + len(header) + size)
            except OSError:
                facts.say("refused", detail=f"{path.name}: {size} bytes")


def _tensor_names() -> list[str]:
    """The names in a checkpoint of the workspace, so that a reader finds what it looks for."""
    for path in facts.files_below(facts.WORKSPACE):
        if path.endswith(".safetensors") and os.path.getsize(path) < 1 << 24:
            data = Path(path).read_bytes()
            size = struct.unpack("<Q", data[:8])[0] if len(data) > 8 else 0
            if 0 < size < len(data):
                return [name for name in json.loads(data[8 : 8 + size]) if name != "__metadata__"]
    return []


def _npy_header(shape: str) -> bytes:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (63 - (10 + len(text)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def archives() -> None:
    """Archives in the place of results: four gigabytes of zeros in a few megabytes, and a hundred thousand members."""
    bomb = io.BytesIO()
    with (
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("images.npy", "w", force_zip64=True) as member,
    ):
        member.write(_npy_header("(536870912,)"))
        for _ in range(4096):
            member.write(bytes(1 << 20))
    crowd = io.BytesIO()
    with zipfile.ZipFile(crowd, "w") as archive:
        for number in range(100_000 if len(facts.outputs()) < 3 else 20_000):
            archive.writestr(f"{number}.npy", b"")
    liar = io.BytesIO()
    with zipfile.ZipFile(liar, "w") as archive:
        archive.writestr("labels.npy", _npy_header("(1099511627776, 1099511627776)") + bytes(64))
    forms = [bomb.getvalue(), crowd.getvalue(), liar.getvalue(), zlib.compress(bytes(_BOMB_MB << 20))]
    for number, path in enumerate(_places(".npz", ".npy", ".zip")):
        path.write_bytes(forms[number % len(forms)])


def documents() -> None:
    """Documents in the place of results: millions of lists, keys, rows and digits, and nothing but depth."""
    size = min(_BOMB_MB, facts.FACTS["limits"]["disk_mb"] // 4) << 20
    numbered = ",".join(f'"{number}":[]' for number in range(size // 12))
    forms = {
        ".json": [
            "[" + "[]," * (size // 3) + "[]]",
            "{" + numbered + "}",
            "[" * (size // 2) + "]" * (size // 2),
            "[" + "9" * (size // 4) + "]",
        ],
        ".csv": [
            "a,b\n" + "1,2\n" * (size // 4),
            "Id,SalePrice\n" + ",".join("1" * (size // 2)) + "\n",
            '"' + "x" * size,
        ],
        ".py": ["[" + "()," * (size // 16) + "()]\n", "x = " + "-" * (size // 32) + "1\n"],
    }
    forms[""] = ["x" * size]
    for number, path in enumerate(_places(".json", ".csv")):
        choice = forms.get(path.suffix, forms[""])
        path.write_text(choice[number % len(choice)])


def reserved_room() -> None:
    """Room on the disk without writing, by `fallocate` and by commands to the file system."""
    library = ctypes.CDLL(None, use_errno=True)
    library.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    order = struct.pack("=hhiqqiI16x", 0, 0, 0, 0, _RESERVED, 0, 0)

    def by_command(handle: int, command: int) -> None:
        fcntl.ioctl(handle, command, order)

    ways = {name: (lambda handle, it=command: by_command(handle, it)) for name, command in _RESERVES.items()}
    ways |= {
        f"fallocate {mode}": (lambda handle, it=mode: library.fallocate(handle, it, 0, _RESERVED)) for mode in (0, 1)
    }
    for number, (name, take) in enumerate(ways.items()):
        handle = os.open(facts.WORKSPACE / f"reserved-{number}", os.O_RDWR | os.O_CREAT, 0o644)
        with contextlib.suppress(OSError):
            take(handle)
        if os.fstat(handle).st_blocks:
            facts.reached(f"{name} took {os.fstat(handle).st_blocks} blocks of the disk without writing")
        os.close(handle)
    facts.say("made", ways=len(ways))
