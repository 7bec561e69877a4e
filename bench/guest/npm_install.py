"""Installs the packages of an npm lock as `npm ci --ignore-scripts` does, without npm or Node.

One file, run in a sandbox. Its only argument is a file of orders, from `bench.cell.wanted_packages`. Every archive
is compared with the digest of the lock before anything of it is unpacked. Scripts run of the named packages alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

_AT_ONCE = 4
_TRIES = 3
_WAIT_S = 2.0
_TIMEOUT_S = 120
_CHUNK = 1 << 20
_MAX_BYTES = 8 << 30
_SHELL = "/bin/sh"
_LAUNCHER = """#!/bin/sh
exec "{node}" "{program}" "$@"
"""


def install(orders: dict[str, Any]) -> None:
    """Unpack the ordered packages below `orders["target"]`, run the named scripts, and link the programs."""
    root = Path(orders["target"])
    packages = orders["packages"]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for done in [pool.submit(_fetch, package, root) for package in packages]:
            done.result()
    programs = root / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    node = _link_node(packages, root, programs)
    for package in packages:
        _link_programs(package, root, programs, node)
    for package in packages:
        if package["name"] in orders["scripts"]:
            _run_scripts(root / package["path"], programs)
    print("Successfully installed", flush=True)


def _fetch(package: dict[str, Any], root: Path) -> None:
    print(f"Downloading {package['name']}", flush=True)
    with tempfile.TemporaryFile() as archive:
        _download(package, archive)
        print(f"Installing collected packages: {package['name']}", flush=True)
        archive.seek(0)
        _unpack(archive, root / package["path"])
    print(f"Processing {package['name']}", flush=True)


def _download(package: dict[str, Any], archive: BinaryIO) -> None:
    """Raises `SystemExit` for an archive that is not the lock's, or that does not come."""
    algorithm, _, wanted = package["integrity"].partition("-")
    for attempt in range(1, _TRIES + 1):
        archive.seek(0)
        archive.truncate()
        digest, size = hashlib.new(algorithm), 0
        try:
            with urllib.request.urlopen(package["url"], timeout=_TIMEOUT_S) as answer:  # noqa: S310
                length = answer.headers.get("Content-Length")
                while block := answer.read(_CHUNK):
                    size += len(block)
                    if size > _MAX_BYTES:
                        sys.exit(f"{package['name']}: more than {_MAX_BYTES >> 30} GB")
                    digest.update(block)
                    archive.write(block)
            if length is not None and size != int(length):
                raise OSError(f"{size} of {length} bytes came")
        except OSError as error:
            if attempt == _TRIES or getattr(error, "code", 503) in (401, 403, 404, 405, 410):
                sys.exit(f"{package['name']}: {package['url']} cannot be downloaded: {error}")
            time.sleep(_WAIT_S * attempt)
            continue
        if base64.b64encode(digest.digest()).decode() == wanted:
            return
        sys.exit(f"{package['name']}: {package['url']} does not have the digest of the lock ({algorithm})")


def _unpack(archive: BinaryIO, folder: Path) -> None:
    """Regular files alone, as npm does, without the archive's top folder; executable where the archive says so."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=archive, mode="r:*") as opened:
        for member in opened:
            parts = [part for part in member.name.split("/") if part not in ("", ".")][1:]
            if not member.isreg() or not parts or ".." in parts:
                continue
            path = folder.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            source = opened.extractfile(member)
            assert source is not None
            with source, open(path, "wb") as target:
                while block := source.read(_CHUNK):
                    target.write(block)
            path.chmod(0o755 if member.mode & stat.S_IXUSR else 0o644)


def _link_node(packages: list[dict[str, Any]], root: Path, programs: Path) -> Path | None:
    """The Node that the lock brings, first among the programs; None without one."""
    for package in packages:
        if package["node"]:
            target = Path(root, package["path"], "bin", "node")
            target.chmod(0o755)
            _link(programs / "node", target)
            return target
    return None


def _link_programs(package: dict[str, Any], root: Path, programs: Path, node: Path | None) -> None:
    """Name a package's programs in `programs`: scripts of Node start with the environment's own one, if it has one."""
    for name, inside in package["bin"].items():
        target = root / package["path"] / os.path.normpath(inside)
        if not target.is_file() or "/" in name or (programs / name).is_symlink():
            continue
        target.chmod(0o755)
        with open(target, "rb") as file:
            first = file.readline(200)
        if node is not None and first.startswith(b"#!") and b"node" in first:
            launcher = programs / name
            launcher.write_text(_LAUNCHER.format(node=node, program=target))
            launcher.chmod(0o755)
        else:
            _link(programs / name, target)


def _link(link: Path, target: Path) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(target, link.parent))


def _run_scripts(folder: Path, programs: Path) -> None:
    """A package's install scripts, in npm's order. Raises `SystemExit` for one that fails."""
    scripts = json.loads((folder / "package.json").read_text(encoding="utf-8")).get("scripts", {})
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "npm_config_offline": "true"}
    for name in ("preinstall", "install", "postinstall"):
        if name not in scripts:
            continue
        print(f"Building wheel: {name} of {folder.name}", flush=True)
        done = subprocess.run([_SHELL, "-c", scripts[name]], cwd=folder, env=environment, check=False)
        if done.returncode:
            sys.exit(f"{folder.name}: its script {name} ended with status {done.returncode}: {scripts[name][:200]}")


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as given:
        install(json.load(given))
