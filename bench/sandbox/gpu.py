"""The GPU of a cell: device nodes and driver libraries by list, which are all that a sandbox shows of the driver.

Standard library only. What lies where is looked up below roots that a caller may name: a container may have the driver
elsewhere, and a test has stand-ins in a folder.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

GUEST_GPU = "/run/bench/gpu"
NO_DEVICE = Path(__file__).resolve().parent / "no_device"
"""An empty file in the place of each device node, for our own process that must not open one."""
GPU_LIMIT = "; GPU work limited by wall time alone, GPU memory not limited"
"""For `Launch.enforcement`: the kernel accounts neither to a process."""
_CONTROL = ("nvidiactl", "nvidia-uvm")
_LIBRARIES = (
    "libcuda.so",
    "libcudadebugger.so",
    "libnvidia-allocator.so",
    "libnvidia-cfg.so",
    "libnvidia-gpucomp.so",
    "libnvidia-ml.so",
    "libnvidia-nvvm.so",
    "libnvidia-ptxjitcompiler.so",
)
"""What CUDA programs load of the driver; everything else of CUDA comes with the programs."""
_NODE = re.compile(r"nvidia(\d+)")
_ENTRY = re.compile(r"^\s*(\S+) \(([^)]*)\) => (/\S+)$", re.MULTILINE)
_ARCHITECTURES = {"x86_64": "x86-64", "aarch64": "AArch64"}


@dataclass(frozen=True)
class GpuRoots:
    """Where to look."""

    dev: Path = Path("/dev")
    proc: Path = Path("/proc")
    libraries: tuple[Path, ...] | None = None
    """Folders; None: those in which the machine's loader finds the driver, then those of LD_LIBRARY_PATH."""


@dataclass(frozen=True)
class Gpu:
    """One GPU of this machine, with everything that a job needs to use it."""

    minor: int
    """The number in the name of its device node."""
    uuid: str = ""
    """By which CUDA knows it whatever else is there; empty where the driver does not say."""
    devices: tuple[tuple[str, str], ...] = ()
    """Path here and path in a guest, its own node and those that all GPUs share."""
    libraries: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Gpu:
        """The one of which `facts` came back from JSON."""
        pairs = {name: tuple((str(a), str(b)) for a, b in facts[name]) for name in ("devices", "libraries")}
        return cls(int(facts["minor"]), str(facts["uuid"]), **pairs)

    def facts(self) -> dict[str, Any]:
        return asdict(self)

    def variables(self, *, isolated: bool, hidden: bool = False) -> dict[str, str]:
        """The environment of a job; hidden: of a process that must see none."""
        # A guest has one node, which is its first GPU whatever its number here.
        visible = self.uuid or ("0" if isolated else str(self.minor))
        found = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "" if hidden else visible}
        if hidden:
            # A library that asks torch while it is imported is answered without CUDA, which does not survive a fork.
            found["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
        if isolated:
            found["LD_LIBRARY_PATH"] = f"{GUEST_GPU}/lib"
        return found

    def nodes(self, *, hidden: bool = False) -> list[tuple[str, str]]:
        """Device nodes of this machine, each with its place in a guest.

        hidden: those of a process that forks for others: at places where no library looks, see `placeholders`.
        """
        return [(source, hidden_place(place) if hidden else place) for source, place in self.devices]

    def placeholders(self) -> dict[str, str]:
        """Where a fork finds the node that belongs at each place of `/dev`."""
        return {place: hidden_place(place) for _, place in self.devices}


def hidden_place(place: str) -> str:
    return f"{GUEST_GPU}{place}"


def find_gpus(roots: GpuRoots | None = None) -> list[Gpu]:
    """The GPUs of this machine by their numbers, each with the driver's libraries; empty where there is none."""
    roots = roots or GpuRoots()
    minors = sorted(_minors(roots.dev))
    if not minors:
        return []
    libraries = tuple(_libraries(roots))
    shared = [name for name in _CONTROL if _is_node(roots.dev / name)]
    uuids = _uuids(roots.proc)
    found = []
    for minor in minors:
        names = [f"nvidia{minor}", *shared, *_capabilities(roots, minor)]
        devices = tuple((str(roots.dev / name), f"/dev/{name}") for name in names)
        found.append(Gpu(minor, uuids.get(minor, ""), devices, libraries))
    return found


def missing_parts(gpu: Gpu) -> list[tuple[str, str]]:
    """What CUDA needs and is not there: its name, and the remedy."""
    places = {place for _, place in gpu.devices}
    libraries = {Path(place).name for _, place in gpu.libraries}
    found = []
    if "/dev/nvidiactl" not in places:
        found.append(("/dev/nvidiactl", "install NVIDIA's driver, and run nvidia-smi once as root"))
    if "/dev/nvidia-uvm" not in places:
        found.append(("/dev/nvidia-uvm", "run `nvidia-modprobe -u -c=0` as root"))
    if "libcuda.so.1" not in libraries:
        found.append(("libcuda.so.1", "install the driver's libraries (libnvidia-compute, or libcuda1), then ldconfig"))
    return found


def _minors(dev: Path) -> Iterator[int]:
    try:
        names = os.listdir(dev)
    except OSError:
        return
    for name in names:
        if (match := _NODE.fullmatch(name)) is not None and _is_node(dev / name):
            yield int(match[1])


def _is_node(path: Path) -> bool:
    """No link: what it leads to could be anything."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode)


def _uuids(proc: Path) -> dict[int, str]:
    found = {}
    for path in sorted(proc.glob("driver/nvidia/gpus/*/information")):
        try:
            facts = dict(re.findall(r"^([^:\n]+):\s*(.*?)\s*$", path.read_text(), re.MULTILINE))
        except OSError:
            continue
        # The driver writes question marks while it does not know.
        if re.fullmatch(r"GPU-[0-9a-f-]{36}", uuid := facts.get("GPU UUID", "")):
            found[int(facts.get("Device Minor", -1))] = uuid
    return found


def _capabilities(roots: GpuRoots, minor: int) -> Iterator[str]:
    """Nodes of the parts into which this GPU is divided (MIG): never those that set it up or watch all of them."""
    try:
        text = (roots.proc / "driver/nvidia-caps/mig-minors").read_text()
    except OSError:
        return
    for number in re.findall(rf"^gpu{minor}/\S+ (\d+)$", text, re.MULTILINE):
        name = f"nvidia-caps/nvidia-cap{number}"
        if _is_node(roots.dev / name):
            yield name


def _libraries(roots: GpuRoots) -> Iterator[tuple[str, str]]:
    """Each name of each library on the list, with the file that it leads to."""
    seen = set()
    for folder in roots.libraries if roots.libraries is not None else _loader_folders():
        for library in _LIBRARIES:
            for path in sorted(folder.glob(f"{library}*")):
                if path.is_file() and path.name not in seen:
                    seen.add(path.name)
                    yield str(path.resolve()), f"{GUEST_GPU}/lib/{path.name}"


def _loader_folders() -> Sequence[Path]:
    """Folders in which the machine's loader finds libraries of the list that are for its own processor."""
    found: list[Path] = []
    if (program := shutil.which("ldconfig", path="/sbin:/usr/sbin:/bin:/usr/bin")) is not None:
        said = subprocess.run([program, "-p"], capture_output=True, text=True, timeout=10, check=False).stdout
        wanted = _ARCHITECTURES.get(platform.machine(), "")
        entries = _ENTRY.findall(said)
        found = [Path(place).parent for name, kind, place in entries if wanted in kind and name.startswith(_LIBRARIES)]
    # Where the driver is mounted into a container, the loader's cache may not know it.
    found += [Path(folder) for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder.startswith("/")]
    return list(dict.fromkeys(found))
