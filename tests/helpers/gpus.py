"""A machine with stand-in GPUs below a folder: device nodes that are harmless, and files by the names of libraries."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from bench.sandbox import GpuRoots
from tests.helpers.cells import not_here, write_files

UUIDS = ("GPU-00000000-0000-0000-0000-0000000000a0", "GPU-00000000-0000-0000-0000-0000000000b1")
# /dev/null, /dev/zero, and so on: which node arrived can be told by its number.
_NUMBERS = {"nvidia0": 3, "nvidia1": 5, "nvidiactl": 7, "nvidia-uvm": 8, "nvidia-modeset": 9, "nvidia-uvm-tools": 9}
_CAPS = {"nvidia-cap1": 9, "nvidia-cap30": 8, "nvidia-cap40": 7}
_MIG = "config 1\nmonitor 2\ngpu0/gi1/access 30\ngpu1/gi1/access 40\n"
LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1")


def stand_in_gpus(root: Path, *, without: Sequence[str] = ()) -> GpuRoots:
    """The roots of a machine with two GPUs, and with things beside them that no sandbox may get."""
    for folder, nodes in (("dev", _NUMBERS), ("dev/nvidia-caps", _CAPS)):
        (root / folder).mkdir(parents=True)
        for name, number in nodes.items():
            if name not in without:
                _make_node(root / folder / name, number)
    for number, uuid in enumerate(UUIDS):
        text = f"Model: \t\t Stand-in\nGPU UUID: \t {uuid}\nDevice Minor: \t {number}\n"
        write_files(root / "proc/driver/nvidia/gpus" / f"0000:0{number}:00.0", {"information": text})
    write_files(root / "proc/driver/nvidia-caps", {"mig-minors": _MIG})
    names = [name for name in LIBRARIES if name not in without]
    write_files(root / "lib", {**{f"{name}.99": name for name in names}, "libsecret.so.1": "", "libcudart.so.12": ""})
    for name in names:
        (root / "lib" / name).symlink_to(f"{name}.99")
    return GpuRoots(root / "dev", root / "proc", (root / "lib",))


def _make_node(path: Path, number: int) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, number))
        path.chmod(0o666)
        os.close(os.open(path, os.O_RDWR))
    except PermissionError:
        not_here("making and opening device nodes needs root, and a folder on a disk that allows them")
