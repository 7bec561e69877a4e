"""Where a shard that runs without GitHub finds its plan and leaves its bundle: a prefix in S3 that it alone knows.

The role of the jobs may read and write objects below the bundles' prefix, and cannot list: without the random part of
another shard's prefix it reaches nothing there. A bundle is written once, under a condition.
"""

from __future__ import annotations

import hashlib
import io
import secrets
import stat
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.base.errors import UserError
from bench.base.files import sha256_bytes
from bench.formats.agent import Agent
from bench.formats.agent_files import CASSETTES, regular_files
from bench.machines.lease import Lease

PLAN = "plan.json"
REPOSITORY = "repository"
"""Beside the plan, which in an agent's folder would be a file of the agent's."""
_INPUTS = "inputs.tar.gz"
_BUNDLE = "bundle.zip"
_MOST_INPUTS = 256 << 20
_SCRATCH = "scratch"


class ShardPlace:
    """The prefix `root` of a bucket, by a client of boto3 whose errors pass through."""

    def __init__(self, client: Any, root: str) -> None:
        self._s3 = client
        self._root = root.rstrip("/")

    def put_inputs(self, lease: Lease, inputs: bytes) -> tuple[str, str]:
        """A new prefix for the shard with its inputs, and their digest."""
        owner = hashlib.sha256(lease.repository.lower().encode()).hexdigest()[:8]
        prefix = f"{self._root}/{owner}/{lease.run}-{lease.attempt}/{lease.id}-{secrets.token_hex(16)}"
        bucket, key = _split(prefix)
        self._s3.put_object(Bucket=bucket, Key=f"{key}/{_INPUTS}", Body=inputs)
        return prefix, sha256_bytes(inputs)

    def fetch_inputs(self, prefix: str, digest: str) -> bytes:
        """The inputs as they were put; raises `UserError` where they are not."""
        inputs = self._fetch(prefix, _INPUTS, _MOST_INPUTS)
        if inputs is None or sha256_bytes(inputs) != digest:
            raise UserError("does not match its digest", where=f"{prefix}/{_INPUTS}", remedy="provision anew")
        return inputs

    def put_bundle(self, prefix: str, bundle: bytes) -> None:
        """Leave the bundle; a second one is refused."""
        bucket, key = _split(prefix)
        self._s3.put_object(Bucket=bucket, Key=f"{key}/{_BUNDLE}", Body=bundle, IfNoneMatch="*")

    def fetch_bundle(self, prefix: str, most: int) -> bytes | None:
        """The bundle, of at most so many bytes; None where there is none. A prefix elsewhere is refused."""
        if not prefix.startswith(f"{self._root}/"):
            raise UserError(f"{prefix[:200]!r} is not below {self._root}", where="bundle")
        return self._fetch(prefix, _BUNDLE, most)

    def _fetch(self, prefix: str, name: str, most: int) -> bytes | None:
        bucket, key = _split(prefix)
        try:
            answer = self._s3.get_object(Bucket=bucket, Key=f"{key}/{name}")
        except self._s3.exceptions.NoSuchKey:
            return None
        with answer["Body"] as body:
            content = body.read(most + 1)
        if len(content) > most:
            raise UserError(f"has more than {most} bytes", where=f"{prefix}/{name}", remedy="plan smaller shards")
        assert isinstance(content, bytes)
        return content


def _split(url: str) -> tuple[str, str]:
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key


def pack_inputs(plan: bytes, agents: Sequence[Agent], workspace: Path) -> bytes:
    """The plan, and the agents of the workspace at their places below it, which a shard elsewhere does not have.

    Raises `UserError` for an agent that lies outside of the workspace.
    """
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=6) as tar:
        entry = tarfile.TarInfo(PLAN)
        entry.size = len(plan)
        tar.addfile(entry, io.BytesIO(plan))
        added: set[str] = set()
        for agent in agents:
            for path in _files_of(agent):
                name = _below(path, workspace)
                if name not in added:
                    added.add(name)
                    tar.add(path, name, recursive=False)
    if packed.tell() > _MOST_INPUTS:
        raise UserError(f"plan and agents take {packed.tell()} bytes, more than {_MOST_INPUTS}", where="batch")
    return packed.getvalue()


def _files_of(agent: Agent) -> list[Path]:
    kept = regular_files(agent.folder / CASSETTES)
    shared = [path for files in agent.shared_files.values() for path in files.paths.values()]
    return [*agent.files.paths.values(), *kept.values(), *shared]


def _below(path: Path, workspace: Path) -> str:
    # Not resolved: a link within the folder is packed as that link.
    if not path.is_relative_to(workspace):
        raise UserError(f"lies outside of {workspace}", where=path, remedy="name an agent of the repository")
    return f"{REPOSITORY}/{path.relative_to(workspace)}"


def unpack_inputs(inputs: bytes, folder: Path) -> None:
    """Write what `pack_inputs` has packed below the folder."""
    with tarfile.open(fileobj=io.BytesIO(inputs), mode="r:gz") as tar:
        (folder / REPOSITORY).mkdir(parents=True)
        if hasattr(tarfile, "data_filter"):
            tar.extractall(folder, filter="data")
        else:
            # An early 3.11: the archive is ours, its digest was compared.
            tar.extractall(folder)  # noqa: S202


def pack_bundle(folder: Path) -> bytes:
    """Everything below the folder but what killed cells left, which may hold what agents are not to know."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as bundle:
        for name, path in sorted(regular_files(folder).items()):
            if _SCRATCH not in name.split("/") and stat.S_ISREG(path.lstat().st_mode):
                bundle.write(path, name)
    return packed.getvalue()
