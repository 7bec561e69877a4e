"""What an agent's environment consists of: its requirements for pip, and the packages of its npm lock.

Only files of the agent are read, and nothing of them is executed.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.base.errors import UserError
from bench.base.files import write_atomic
from bench.formats.agent import Agent

_MAX_BYTES = 1 << 20
_MAX_LOCK_BYTES = 16 << 20
_MAX_LINE = 20_000
_SPEC = r"\s*([<>=!~(][^@;#\s][^@;#]*)?"
# A line that says what to get from an index or another machine, and names nothing in the agent's folder.
_PLAIN = re.compile(
    rf"[A-Za-z0-9][A-Za-z0-9._-]*\s*(\[[^\]]*\])?({_SPEC}|\s*@\s*(git\+)?https?://\S+)\s*(;.*?)?(\s+--hash=\S+)*"
    r"|(--pre|--no-index|--require-hashes|--prefer-binary)"
    r"|(--no-binary|--only-binary|--trusted-host)[ =]\s*\S+"
    r"|(-i|--index-url|--extra-index-url)[ =]?\s*https?://\S+"
)
_REFERENCE = re.compile(r"(?:-r|-c|--requirement|--constraint)(?:\s+|=|(?<=-[rc]))\s*(\S.*)")
_ARCHIVES = (".whl", ".zip", ".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tbz", ".tar.xz", ".txz")
_CPUS = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}
"""npm's names of processors."""
_DIGESTS = {"sha512": 64, "sha384": 48, "sha256": 32}
"""Bytes of the digests by which an archive may be known."""
_NAME = re.compile(r"(@[a-z0-9~_-][a-z0-9._~-]*/)?[A-Za-z0-9~_-][A-Za-z0-9._~-]*")
_PLACE = re.compile(rf"node_modules/{_NAME.pattern}(/node_modules/{_NAME.pattern})*")
_VERSION = re.compile(r"[0-9A-Za-z.+-]{1,128}")
_NPM = "https://registry.npmjs.org/"
"""Whose addresses stand in a lock wherever the packages came from."""
_REMEDY = "write it with `npm install --package-lock-only`, and name packages of a registry alone"


@dataclass(frozen=True)
class Requirements:
    """The requirements file with those that it refers to."""

    folder: Path
    files: Mapping[str, bytes]
    local: bool
    """They may name something else in the agent's folder: all of it is shown to the build, and counts."""

    @classmethod
    def of(cls, agent: Agent, folder: Path) -> Requirements:
        """Raises `UserError` for a file that is not one of the agent's."""
        files: dict[str, bytes] = {}
        pending, local = [agent.spec.environment.requirements] if agent.spec.environment.requirements else [], False
        while pending:
            name = os.path.normpath(pending.pop())
            if name in files:
                continue
            if name not in agent.files.names or (folder / name).is_symlink():
                fault = f"{name[:200]!r} is not one of the agent's files, which lie in its folder and are kept by git"
                remedy = "add it to the folder and to git, or remove what names it"
                raise UserError(f"field `environment.requirements`: {fault}", where=agent.file, remedy=remedy)
            if (folder / name).stat().st_size > _MAX_BYTES:
                fault, remedy = f"is larger than {_MAX_BYTES >> 10} KiB", "name packages in it, nothing else"
                raise UserError(fault, where=agent.folder / name, remedy=remedy)
            files[name] = (folder / name).read_bytes()
            for line in lines(files[name]):
                if (match := _REFERENCE.fullmatch(line)) is not None:
                    pending.append(os.path.join(os.path.dirname(name), match[1].strip("'\"")))
                elif not _is_plain(line):
                    local = True
        return cls(folder, files, local)

    def copy(self, agent: Agent, target: Path) -> None:
        """Lay what the build may see of the agent's folder into `target`, where it may write."""
        target.mkdir(parents=True, exist_ok=True)
        if self.local:
            agent.files.copy(target, writable=True)
        for name, content in self.files.items():
            write_atomic(target / name, content)


def _is_plain(line: str) -> bool:
    """Whether a line of requirements names nothing in the agent's folder. In doubt it does."""
    if len(line) > _MAX_LINE or not _PLAIN.fullmatch(line):
        return False
    return "://" in line or not line.split(";", maxsplit=1)[0].strip().lower().endswith(_ARCHIVES)


def lines(content: bytes) -> Iterator[str]:
    """The lines of a requirements file as pip joins them, without comments."""
    text = re.sub(r"\\\r?\n", " ", content.decode("utf-8", "replace"))
    for line in text.splitlines():
        if line := re.sub(r"(^|\s)#.*", "", line).strip():
            yield line


@dataclass(frozen=True)
class NpmPackage:
    """One entry of a lock that belongs on this machine."""

    place: str
    """Below the environment's folder of packages, such as `node_modules/a/node_modules/b`."""
    name: str
    version: str
    integrity: str
    """The strongest digest, as `sha512-<base64>`."""
    resolved: str
    """Its address as the lock has it; empty: where its registry keeps it."""
    bin: Mapping[str, str]

    @property
    def is_node(self) -> bool:
        """A Node for this machine, as the registry has them."""
        return re.fullmatch(r"node-linux-(x64|arm64)", self.name) is not None

    def url(self, registry: str) -> str:
        """Where to get it: the lock's own address, with the registry that this machine's owner has chosen."""
        if self.resolved and not self.resolved.startswith(_NPM):
            return self.resolved
        path = self.resolved.removeprefix(_NPM) or f"{self.name}/-/{self.name.split('/')[-1]}-{self.version}.tgz"
        return f"{registry.rstrip('/')}/{path}"


@dataclass(frozen=True)
class NpmLock:
    """The packages of a `package-lock.json` (version 2 or 3) for this machine, without those of development."""

    content: bytes = b""
    packages: tuple[NpmPackage, ...] = ()

    @classmethod
    def of(cls, agent: Agent, folder: Path) -> NpmLock:
        """Raises `UserError` for a lock that does not name every package with its version and digest."""
        wanted = agent.spec.environment
        if not wanted.npm:
            return cls()
        name = os.path.normpath(wanted.npm)
        where = agent.folder / name
        if name not in agent.files.names or (folder / name).is_symlink():
            fault = f"{name[:200]!r} is not one of the agent's files, which lie in its folder and are kept by git"
            raise UserError(
                f"field `environment.npm`: {fault}", where=agent.file, remedy="add it to the folder and to git"
            )
        if (folder / name).stat().st_size > _MAX_LOCK_BYTES:
            raise UserError(f"is larger than {_MAX_LOCK_BYTES >> 20} MiB", where=where, remedy=_REMEDY)
        content = (folder / name).read_bytes()
        packages = tuple(_npm_packages(content, where))
        lock = cls(content, packages)
        _require_node(lock, agent, where)
        unknown = sorted(set(wanted.npm_scripts) - {it.name for it in packages})
        if unknown:
            fault = f"field `environment.npm_scripts`: {unknown[0][:100]!r} is not a package of {name} for this machine"
            raise UserError(fault, where=agent.file, remedy="correct its name, or remove it")
        return lock

    def orders(self, target: str, registry: str, scripts: list[str]) -> dict[str, Any]:
        """What `bench.guest.npm_install` is told. target: the environment's folder as its sandbox sees it."""
        packages = [
            {
                "path": f"lib/{it.place}",
                "name": it.name,
                "url": it.url(registry),
                "integrity": it.integrity,
                # Programs of what other packages bring for themselves are not named.
                "bin": dict(it.bin) if it.place.count("node_modules/") == 1 else {},
                "node": it.is_node,
            }
            for it in self.packages
        ]
        return {"target": target, "packages": packages, "scripts": scripts}


def _npm_packages(content: bytes, where: Path) -> Iterator[NpmPackage]:
    try:
        found = json.loads(content)
        version, entries = found["lockfileVersion"], found["packages"].items()
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError("is not a lock of npm", where=where, remedy=_REMEDY) from None
    if version not in (2, 3):
        raise UserError(f"has the lockfileVersion {version!r}, not 2 or 3", where=where, remedy=_REMEDY)
    for place, entry in entries:
        # The first is the folder itself; what is bundled comes with the package that it is in.
        if place and isinstance(entry, dict) and not (entry.get("dev") or entry.get("inBundle")) and _is_ours(entry):
            yield _npm_package(place, entry, where)


def _is_ours(entry: Mapping[str, Any]) -> bool:
    """Whether an entry is for Linux, this processor and the GNU library, all of which our sandboxes have."""
    here = {"os": "linux", "cpu": _CPUS.get(platform.machine(), platform.machine()), "libc": "glibc"}
    for field, value in here.items():
        allowed = entry.get(field) or [value]
        allowed = [allowed] if isinstance(allowed, str) else allowed
        if f"!{value}" in allowed or not (value in allowed or all(it.startswith("!") for it in allowed)):
            return False
    return True


def _npm_package(place: str, entry: Mapping[str, Any], where: Path) -> NpmPackage:
    def wrong(fault: str) -> UserError:
        return UserError(f"package {place[:200]!r}: {fault}", where=where, remedy=_REMEDY)

    if not _PLACE.fullmatch(place) or ".." in place:
        raise wrong("is not at a place below node_modules")
    name, version = str(entry.get("name") or place.rpartition("node_modules/")[2]), str(entry.get("version", ""))
    resolved, bins = str(entry.get("resolved", "")), entry.get("bin") or {}
    if (
        entry.get("link")
        or (resolved and not resolved.startswith("https://"))
        or "@" in resolved.partition("?")[0][8:].split("/")[0]
    ):
        raise wrong("does not come from a registry")
    if not _NAME.fullmatch(name) or not _VERSION.fullmatch(version):
        raise wrong("has no name and version")
    digests = [it for it in str(entry.get("integrity", "")).split() if _is_digest(it)]
    if not digests:
        raise wrong("has no digest (`integrity`)")
    bins = {name.rsplit("/", maxsplit=1)[-1]: bins} if isinstance(bins, str) else bins
    best = max(digests, key=lambda it: _DIGESTS[it.partition("-")[0]])
    return NpmPackage(place, name, version, best, resolved, {str(key): str(value) for key, value in bins.items()})


def _is_digest(text: str) -> bool:
    algorithm, _, encoded = text.partition("-")
    try:
        return len(base64.b64decode(encoded, validate=True)) == _DIGESTS.get(algorithm, -1)
    except (binascii.Error, ValueError):
        return False


def _require_node(lock: NpmLock, agent: Agent, where: Path) -> None:
    """Raise `UserError` unless the lock brings the Node that the description wants."""
    wanted = agent.spec.environment.node
    if not wanted:
        return
    versions = [it.version for it in lock.packages if it.is_node]
    if not any(f"{version}.".startswith(f"{wanted}.") for version in versions):
        package = f"node-linux-{_CPUS.get(platform.machine(), platform.machine())}"
        brings = f", but {package}@{versions[0]}" if versions else ""
        fault = f"field `environment.node` wants Node {wanted}, and the lock does not bring it{brings}"
        remedy = f"`npm install --package-lock-only --force --save-optional {package}@{wanted}`"
        raise UserError(fault, where=where, remedy=remedy)
