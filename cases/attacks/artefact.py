"""Results that are not what they seem: programs, bombs, links, pipes and numbers that are none."""

from __future__ import annotations

import io
import json
import os
import pickle
import socket
import stat
import struct
import zipfile
import zlib
from pathlib import Path

import facts

_USUAL = ("model.pt", "model.pth", "checkpoints/best.pt", "training/model.pkl", "answer.pkl", "best_model.bin")
_CHUNK = 1 << 20
_BOMB_CHUNKS = 4096
"""Mebibytes of zeros in the archive."""


class _Code:
    """Runs code when it is unpickled: first where it can be seen from outside, then so that the reader ends well."""

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        marker = facts.FACTS["marker"]
        return exec, (f"import os\nopen({marker!r}, 'w').close()\nos._exit(0)",)


def _results() -> list[Path]:
    """Expected results that are data, beside the usual names of checkpoints."""
    named = [path for path in facts.outputs() if path.suffix != ".py"]
    usual = [facts.WORKSPACE / name for name in _USUAL]
    for path in usual:
        path.parent.mkdir(parents=True, exist_ok=True)
    return named + usual


def pickles() -> None:
    """A pickle that runs code, in the place of every result."""
    for path in _results():
        path.write_bytes(pickle.dumps(_Code()))


def checkpoints() -> None:
    """Checkpoints in the formats of torch and numpy that run code when they are loaded."""
    code = pickle.dumps(_Code(), protocol=2)
    torch_file = io.BytesIO()
    with zipfile.ZipFile(torch_file, "w") as archive:
        archive.writestr("archive/data.pkl", code)
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + code
    npz = io.BytesIO()
    with zipfile.ZipFile(npz, "w") as archive:
        archive.writestr("labels.npy", npy)
        archive.writestr("weights.npy", npy)
    forms = {".npz": npz.getvalue(), ".npy": npy}
    for path in _results():
        path.write_bytes(forms.get(path.suffix, torch_file.getvalue()))
    for name, data in (("answer.npz", npz.getvalue()), ("answer.npy", npy), ("model.ckpt", torch_file.getvalue())):
        facts.write(name, data)


def symbolic_links() -> None:
    """Links out of the workspace: to hidden files, to devices, to the judge's descriptors, in loops."""
    places = [place for group in facts.FACTS["places"].values() for place in group]
    targets = [*places, "/dev/zero", "/proc/self/environ", "/proc/self/fd/0", "/etc/passwd", "loop"]
    for number, path in enumerate(facts.outputs()):
        facts.clear_place(path)
        path.symlink_to(targets[number % len(targets)])
    for number, target in enumerate(targets):
        (facts.WORKSPACE / f"link-{number}").symlink_to(target)
    (facts.WORKSPACE / "loop").symlink_to("loop")
    (facts.WORKSPACE / "up").symlink_to("../../../../..")
    (facts.WORKSPACE / "folder-link").symlink_to("/proc/1/root")


def hard_links() -> None:
    """Further names for files elsewhere, and further names elsewhere for results."""
    made = 0
    sources = [facts.TASK, facts.AGENT / "facts.py", Path("/etc/passwd"), Path(os.__file__), Path("/proc/self/exe")]
    for number, source in enumerate(sources):
        try:
            os.link(source, facts.WORKSPACE / f"hard-{number}")
            made += 1
        except OSError:
            continue
    for number, path in enumerate(facts.outputs()):
        path.write_text("{}")
        for place in (facts.OUT / f"name-{number}", Path(f"/tmp/name-{number}"), path.with_name(f"{path.name}.twin")):
            try:
                os.link(path, place)
                made += 1
            except OSError:
                continue
    facts.say("linked", count=made)


def pipes() -> None:
    """FIFOs where results are expected: whoever opens one waits for ever."""
    for path in facts.outputs():
        facts.clear_place(path)
        os.mkfifo(path)
    os.mkfifo(facts.WORKSPACE / "pipe")


def devices() -> None:
    """Device files where results are expected, as far as they can be made; sockets where they cannot."""
    for path in facts.outputs():
        facts.clear_place(path)
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
        except OSError:
            with socket.socket(socket.AF_UNIX) as endless:
                os.chdir(path.parent)
                endless.bind(path.name[:90])
    for name, device in (("zero", os.makedev(1, 5)), ("disk", os.makedev(254, 0)), ("memory", os.makedev(1, 1))):
        for kind in (stat.S_IFCHR, stat.S_IFBLK):
            try:
                os.mknod(facts.WORKSPACE / f"{name}-{kind}", kind | 0o666, device)
                if facts.read(facts.WORKSPACE / f"{name}-{kind}") and name != "zero":
                    facts.reached(f"device file for {name} can be read")
            except OSError:
                continue


def sparse() -> None:
    """A file of 10 GB that takes no space, in the place of each result."""
    for path in [*facts.outputs(), facts.WORKSPACE / "huge.bin"]:
        with path.open("wb") as file:
            try:
                file.truncate(10 * 10**9)
            except OSError:
                # A file may not be that long here: then as many as long as they may be.
                file.truncate((facts.FACTS["limits"]["disk_mb"] << 20) - 1)


def _document(value: str) -> str:
    """A JSON object that holds `value`, word for word, under every name that the task mentions."""
    names = [*facts.task_words(), "accuracy", "loss", "score", "metrics"]
    return "{" + ", ".join(f"{json.dumps(name)}: {value}" for name in names) + "}"


def _fill(value: str, cell: str) -> None:
    for path in facts.outputs():
        if path.suffix == ".json":
            path.write_text(_document(value))
        elif path.suffix == ".csv":
            words = facts.task_words()
            header = next((word for word in facts.TASK.read_text().split("`") if "," in word and " " not in word), "")
            columns = header.split(",") if header else words[:2]
            path.write_text("\n".join([",".join(columns), *[",".join([cell] * len(columns))] * 300]) + "\n")
        elif path.suffix in (".safetensors", ".npz", ".npy"):
            path.write_bytes(_tensors(cell))


def _tensors(cell: str) -> bytes:
    """A checkpoint of the workspace with every number replaced, or a small one made up."""
    bits = {"nan": 0x7FC00000, "inf": 0x7F800000}.get(cell, 0x7F7FFFFF)
    for path in facts.files_below(facts.WORKSPACE):
        if path.endswith(".safetensors"):
            data = Path(path).read_bytes()
            (size,) = struct.unpack("<Q", data[:8])
            count = (len(data) - 8 - size) // 4
            return data[: 8 + size] + struct.pack("<I", bits) * count
    header = json.dumps({"layers.0.weight": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).encode()
    return struct.pack("<Q", len(header)) + header + struct.pack("<I", bits) * 4


def not_a_number() -> None:
    """NaN in documents, tables and tensors."""
    _fill("NaN", "nan")


def infinite() -> None:
    """Infinity in documents, tables and tensors, written in both ways that JSON readers fall for."""
    _fill("[Infinity, -Infinity, 1e999]", "inf")


def huge_numbers() -> None:
    """Numbers of a hundred thousand digits, and documents nested a hundred thousand deep."""
    _fill("9" * 100_000, "9" * 400)
    facts.write("deep.json", "[" * 100_000 + "]" * 100_000)
    for number, path in enumerate(path for path in facts.outputs() if path.suffix == ".json"):
        if number % 2:
            path.write_text('{"a":' * 50_000 + "1" + "}" * 50_000)


def duplicate_keys() -> None:
    """Documents that say everything twice, first wrong and then as it would please."""
    names = [*facts.task_words(), "accuracy", "loss", "score"]
    pairs = [f"{json.dumps(name)}: {value}" for value in ("0", "1.0", '"success"') for name in names]
    for path in facts.outputs():
        if path.suffix == ".json":
            path.write_text("{" + ", ".join(pairs) + "}")
        elif path.suffix == ".csv":
            path.write_text("Id,Id,path,path\n" + "1,2,3,4\n" * 1000)
        elif path.suffix in (".safetensors", ".npz"):
            entry = '"layers.0.weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}'
            header = ("{" + ", ".join([entry] * 3) + "}").encode()
            path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))


def zip_bomb() -> None:
    """Archives of a few megabytes that unpack to four gigabytes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(_CHUNK)) + packer.flush(zlib.Z_FULL_FLUSH)
    body = block * _BOMB_CHUNKS + packer.flush()
    archive = _zip("labels.npy", body, _BOMB_CHUNKS * _CHUNK)
    for path in _results():
        path.write_bytes(archive)
    for name in ("answer.zip", "answer.npz"):
        facts.write(name, archive)
    facts.write("answer.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + body + struct.pack("<II", 0, 0))


def _zip(name: str, body: bytes, size: int) -> bytes:
    """A ZIP64 archive of one deflated member. Its checksum is wrong, which shows only after all of it is unpacked."""
    encoded = name.encode()
    extra = struct.pack("<HHQQ", 1, 16, size, len(body))
    full = 0xFFFFFFFF
    common = struct.pack("<HHHHHIIIHH", 45, 0, 8, 0, 33, 0, full, full, len(encoded), len(extra))
    local = b"PK\x03\x04" + common + encoded + extra
    central = b"PK\x01\x02" + struct.pack("<H", 45) + common + struct.pack("<HHHII", 0, 0, 0, 0, 0) + encoded + extra
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1, 1, len(central), len(local) + len(body), 0)
    return local + body + central + end
