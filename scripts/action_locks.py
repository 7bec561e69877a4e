"""The packages that the Action installs, each with its version and hashes: `.github/actions/locks/*.txt`.

    python -m scripts.action_locks           write all of them anew, with the versions that are installed here
    python -m scripts.action_locks --torch   only the hashes of PyTorch's CPU build, from its own index: at a release
    python -m scripts.action_locks --check   whether they fit pyproject.toml; status 1 where they do not

All locks are parts of one resolution of what pyproject.toml asks for, so that any of them fit together. `tools` has
the installer, `core` what every job needs, `NAME` what the extra of that name needs besides. PyTorch is apart:
`torch-cpu` comes from an index of its own, `torch-gpu` from PyPI with the libraries for CUDA.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / ".github" / "actions" / "locks"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu/"
_OLDEST = "3.11"
_NOT_LOCKED = {"dev"}
_GPU = re.compile(r"(torch|triton|nvidia-.*|cuda-.*)")
_ENTRY = re.compile(r"(?m)^([A-Za-z0-9_.-]+)==\S+(?:[^\n]*\\\n)*[^\n]*\n")
_HEAD = "# Written by scripts/action_locks.py; do not edit.\n"
_HEAD_TORCH = f"{_HEAD}# Hashes are added at a release, from {TORCH_INDEX}: `python -m scripts.action_locks --torch`.\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--torch", action="store_true", help="the hashes of PyTorch's CPU build alone")
    what.add_argument("--check", action="store_true", help="whether the locks fit pyproject.toml")
    said = parser.parse_args()
    if said.check:
        faults = find_faults(LOCKS, wanted_extras())
        print("\n".join(faults) or f"{len(list(LOCKS.glob('*.txt')))} locks fit pyproject.toml")
        return bool(faults)
    LOCKS.mkdir(exist_ok=True)
    if not said.torch:
        for name, text in make_locks().items():
            (LOCKS / f"{name}.txt").write_text(text, encoding="utf-8")
    else:
        with urllib.request.urlopen(f"{TORCH_INDEX}torch/", timeout=60) as page:  # noqa: S310  a fixed address
            hashes = torch_hashes(page.read().decode(), torch_version())
        if not hashes:
            print(f"{TORCH_INDEX} has no torch {torch_version()}", file=sys.stderr)
            return 1
        _write_torch(torch_version(), hashes)
    return 0


def wanted_extras() -> dict[str, list[str]]:
    """What pyproject.toml asks for: `core`, and each extra that is locked."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name: list(it) for name, it in project["optional-dependencies"].items() if name not in _NOT_LOCKED}
    return {"core": list(project["dependencies"]), **extras}


def entries(text: str) -> dict[str, list[str]]:
    """The packages of a lock; of one that differs between versions of Python, an entry each."""
    found: dict[str, list[str]] = {}
    for match in _ENTRY.finditer(text):
        found.setdefault(match[1], []).append(match[0])
    return found


def make_locks() -> dict[str, str]:
    """The text of every lock but that of PyTorch's CPU build, whose hashes another index knows."""
    wanted = wanted_extras()
    with tempfile.TemporaryDirectory() as folder:
        every_line = [line for lines in wanted.values() for line in lines]
        everything = _resolved(every_line, Path(folder), _installed())
        parts = {name: entries(_resolved(lines, Path(folder), everything)) for name, lines in wanted.items()}
        tools = _resolved(["uv"], Path(folder))
    core = set(parts["core"])
    locks = {"tools": tools}
    for name, found in parts.items():
        mine = {key: it for key, it in found.items() if (name == "core" or key not in core) and not _GPU.fullmatch(key)}
        locks[name] = _HEAD + _joined(mine)
    gpu = {key: it for key, it in entries(everything).items() if _GPU.fullmatch(key)}
    locks["torch-gpu"] = _HEAD + _joined(gpu)
    version = gpu["torch"][0].split("==")[1].split()[0]
    if not (LOCKS / "torch-cpu.txt").is_file() or torch_version() != version:
        _write_torch(version, [])
    return locks


def _installed() -> str:
    """The versions that the tests run with; a local part, such as +cpu, belongs to one build."""
    found = {it.metadata["Name"]: it.version.split("+")[0] for it in importlib.metadata.distributions()}
    return "\n".join(f"{name}=={version}" for name, version in found.items() if name != "ml-dev-bench")


def torch_version() -> str:
    return entries((LOCKS / "torch-cpu.txt").read_text(encoding="utf-8"))["torch"][0].split("==")[1].split()[0]


def torch_hashes(page: str, version: str) -> list[str]:
    """SHA-256 of the Linux builds of this version on a page of PyTorch's index."""
    pattern = rf'href="[^"]*torch-{re.escape(version)}(?:%2B|\+)cpu-[^"]*linux[^"]*#sha256=([0-9a-f]{{64}})"'
    return sorted(set(re.findall(pattern, page)))


def find_faults(folder: Path, wanted: Mapping[str, list[str]]) -> list[str]:
    """What of the locks does not fit what is wanted, a line each."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    faults = []
    held = {path.stem: entries(path.read_text(encoding="utf-8")) for path in folder.glob("*.txt")}
    for name, lines in wanted.items():
        if name not in held:
            faults.append(f"{name}.txt is missing")
            continue
        known = {**held["core"], **held[name], **({"torch": held["torch-cpu"]["torch"]} if name == "ml" else {})}
        for requirement in map(Requirement, lines):
            package = canonicalize_name(requirement.name)
            versions = [entry.split("==")[1].split()[0] for entry in known.get(package, [])]
            if not versions or not all(requirement.specifier.contains(it) for it in versions):
                faults.append(f"{name}.txt: {requirement} is wanted, locked is {', '.join(versions) or 'nothing'}")
    for name, found in held.items():
        bare = [package for package, texts in found.items() if not all("--hash=sha256:" in text for text in texts)]
        if bare and name != "torch-cpu":
            faults.append(f"{name}.txt: no hash for {', '.join(bare)}")
    return faults


def _resolved(lines: list[str], folder: Path, constraints: str = "") -> str:
    """The packages that `lines` need on every machine, with their hashes; constraints: a lock, or lines."""
    (folder / "wanted.in").write_text("\n".join(lines), encoding="utf-8")
    # Without their hashes: as constraints only versions count.
    (folder / "constraints.txt").write_text(re.sub(r"(?m) \\$|^ .*$", "", constraints), encoding="utf-8")
    command = ["uv", "pip", "compile", "--quiet", "--universal", "--python-version", _OLDEST, "--generate-hashes"]
    command += ["--no-header", "--no-annotate", "--constraint", "constraints.txt", "wanted.in"]
    command[0] = str(Path(sys.executable).with_name("uv"))
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def _joined(found: Mapping[str, list[str]]) -> str:
    return "".join(text for _, texts in sorted(found.items()) for text in texts)


def _write_torch(version: str, hashes: list[str]) -> None:
    line = " \\\n".join([f"torch=={version}", *(f"    --hash=sha256:{it}" for it in hashes)])
    (LOCKS / "torch-cpu.txt").write_text(f"{_HEAD_TORCH}{line}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
