"""The chain of manifests, and the register of runs: what tells without reading the branch what is on it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bench.errors import UserError
from bench.files import sha256_bytes
from bench.store.place import Place, Tip
from bench.store.tree import find, walk

_LAST = re.compile(
    r"^(?:Manifest-Digest: (?P<digest>sha256:[0-9a-f]{64})\n)?Manifest: (?P<path>manifests/\S+)$", re.MULTILINE
)
"""Ends the message of every commit of ours: the manifest that was stored last, by this commit or one before."""
_FOREIGN = 1000
"""Commits of others that are stepped over in search of one of ours."""


@dataclass(frozen=True)
class Link:
    """The manifest stored last."""

    path: str
    digest: str

    def trailer(self) -> str:
        return f"Manifest-Digest: {self.digest}\nManifest: {self.path}\n"


def last_link(place: Place, tip: Tip) -> Link | None:
    """The end of the chain, as the newest commit of ours names it; None: nothing was stored yet.

    Raises `UserError` where the branch no longer has what that commit names.
    """
    commit = tip
    for _ in range(_FOREIGN):
        if named := list(_LAST.finditer(commit.message)):
            return _link(place, tip, named[-1]["path"], named[-1]["digest"])
        if not commit.parents:
            break
        commit = place.ancestor(commit.parents[0])
    if "manifests" in find(place, tip.tree, ["manifests"]):
        raise UserError(
            "no commit tells which manifest was stored last",
            where="manifests",
            remedy="somebody changed the results branch by hand; restore its last good commit",
        )
    return None


def parse_trailer(message: str) -> str | None:
    """The manifest that a commit message names, None where it names none."""
    found = list(_LAST.finditer(message))
    return found[-1]["path"] if found else None


def key_path(key: str) -> str:
    """Where the register keeps a run's entry: `keys/<two hex digits>/<run>-<attempt>`, for even folders."""
    return f"keys/{sha256_bytes(key.encode())[7:9]}/{key}"


def manifest_of(place: Place, tip: Tip, key: str) -> str | None:
    """The path of the manifest of `<run>-<attempt>`, whatever its day; None: no such run is stored."""
    path = key_path(key)
    held = find(place, tip.tree, [path, "keys"])
    if path in held:
        return place.blob(held[path].sha).decode("utf-8", "replace").strip()
    if "keys" not in held:
        return unregistered(place, tip).get(key)
    return None


def unregistered(place: Place, tip: Tip) -> dict[str, str]:
    """Run to manifest, of a branch from before there was a register; read once, then it is written down."""
    held = find(place, tip.tree, ["keys", "manifests"])
    if "keys" in held or "manifests" not in held:
        return {}
    paths = walk(place, held["manifests"].sha, "manifests/")
    return {path.rpartition("/")[2].removesuffix(".json"): path for path in sorted(paths) if path.endswith(".json")}


def _link(place: Place, tip: Tip, path: str, digest: str | None) -> Link:
    entry = find(place, tip.tree, [path]).get(path)
    if entry is None:
        raise UserError(
            "was stored last and is gone",
            where=path,
            remedy="somebody changed the results branch by hand; restore its last good commit",
        )
    return Link(path, digest or sha256_bytes(place.blob(entry.sha)))
