"""The chain of manifests: each names the digest of the one stored before it."""

from __future__ import annotations

from pydantic import ValidationError

from bench.errors import UserError
from bench.files import sha256_bytes
from bench.schema import explain
from bench.store.git import Git
from bench.store.manifest import Manifest

TRAILER = "Manifest: "
"""Begins the line of a commit message that names the manifest the commit brought."""


def last_manifest(git: Git, tip: str) -> str | None:
    """Digest of the manifest stored last.

    The newest commit names it. Where something else was committed in between, the chain itself tells: the last
    manifest is the one that no other names.
    """
    held = git.list_files(tip, "manifests")
    _, _, named = git.text("cat-file", "commit", tip).rpartition(f"\n{TRAILER}")
    if named in held:
        return sha256_bytes(git.read_one(held[named].sha))
    contents = dict(zip(held, git.read(entry.sha for entry in held.values()), strict=True))
    followed = {parse_manifest(content, path).previous for path, content in contents.items()}
    ends = [digest for content in contents.values() if (digest := sha256_bytes(content)) not in followed]
    if contents and len(ends) != 1:
        raise UserError(
            f"the chain of manifests has {len(ends)} ends instead of one",
            where="manifests",
            remedy="somebody changed the results branch by hand; restore its last good commit",
        )
    return ends[0] if ends else None


def parse_manifest(content: bytes, path: str) -> Manifest:
    """A stored manifest; a fault is a `UserError` that names the file."""
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        raise UserError(explain(error, Manifest), where=path, remedy="this is no manifest of schema 1") from None
