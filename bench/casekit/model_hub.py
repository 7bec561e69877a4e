"""For authors of services.py: a model hub that the libraries of Hugging Face accept. Standard library only.

They find it by `HF_ENDPOINT`, the variable that case.yaml gives the service. It answers what they ask when they load
or download: facts of a repository, its files, and the files themselves, whole or in ranges. It takes no uploads.
"""

from __future__ import annotations

import hashlib
import json
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.casekit.services import Request, Response, Service

_MAIN = "main"
_KINDS = {"models": "", "datasets": "datasets/"}
"""Prefix of the addresses of files, by kind of repository."""


@dataclass(frozen=True)
class _Repository:
    """One repository as a folder: its files are those of one commit."""

    name: str
    folder: Path

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())

    def commit(self) -> str:
        """40 hexadecimal digits that change with any file."""
        whole = hashlib.sha1(self.name.encode(), usedforsecurity=False)
        for name in self.files():
            whole.update(f"{name}\0{_etag(self.folder / name)}\n".encode())
        return whole.hexdigest()


class ModelHub:
    """A hub with repositories that lie in the judge's hidden folder, such as `assets/tiny_bert`."""

    def __init__(self, models: Mapping[str, str], datasets: Mapping[str, str] | None = None) -> None:
        """Names of repositories, `owner/name`, to folders below `hidden`."""
        self._held = {"models": dict(models), "datasets": dict(datasets or {})}

    def __call__(self, request: Request, service: Service) -> Response:
        """Handle a request: the service of a case may be the hub itself."""
        if request.method not in ("GET", "HEAD"):
            return _error(405, "", "this hub takes no changes")
        path = request.path.strip("/")
        for kind, prefix in _KINDS.items():
            for name, folder in self._held[kind].items():
                repository = _Repository(name, service.hidden / folder)
                if (rest := _below(path, f"api/{kind}/{name}")) is not None:
                    return _facts(repository, rest, request, service)
                if (rest := _below(path, f"{prefix}{name}/resolve")) is not None:
                    return _file(repository, rest, request, service)
        service.journal({"event": "not_found", "path": request.path[:500]})
        return _error(404, "RepoNotFound", "Repository not found")


def _below(path: str, head: str) -> str | None:
    """What follows `head` in `path`; None where the path does not lead there."""
    if path == head:
        return ""
    return path[len(head) + 1 :] if path.startswith(f"{head}/") else None


def _facts(repository: _Repository, rest: str, request: Request, service: Service) -> Response:
    """What a repository says of itself, or the tree of its files."""
    word, _, revision = rest.partition("/")
    revision, _, folder = revision.partition("/")
    commit = repository.commit()
    if word not in ("", "revision", "tree") or (revision or _MAIN) not in (_MAIN, commit):
        return _error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
    service.journal({"event": "listed", "repository": repository.name, "revision": revision or _MAIN})
    if word == "tree":
        return Response.json(_tree(repository, folder, request.query.get("recursive", ["false"])[-1].lower() == "true"))
    return Response.json(
        {
            "_id": commit[:24],
            "id": repository.name,
            "modelId": repository.name,
            "sha": commit,
            "private": False,
            "gated": False,
            "disabled": False,
            "downloads": 0,
            "likes": 0,
            "tags": [],
            "siblings": [{"rfilename": name} for name in repository.files()],
        }
    )


def _tree(repository: _Repository, folder: str, recursive: bool) -> Sequence[Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for name in repository.files():
        inner = _below(name, folder) if folder else name
        if inner is None:
            continue
        *parents, _ = inner.split("/")
        for depth in range(1, len(parents) + 1):
            path = "/".join(([folder] if folder else []) + parents[:depth])
            if recursive or depth == 1:
                found[path] = {"type": "directory", "path": path, "oid": "0" * 40, "size": 0}
        if recursive or not parents:
            place = repository.folder / name
            found[name] = {"type": "file", "path": name, "size": place.stat().st_size, "oid": _etag(place)[:40]}
    return list(found.values())


def _file(repository: _Repository, rest: str, request: Request, service: Service) -> Response:
    """A file, whole or in the range that is asked for."""
    revision, _, name = rest.partition("/")
    name = urllib.parse.unquote(name)
    commit = repository.commit()
    head = {"X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
    if revision not in (_MAIN, commit):
        return _error(404, "RevisionNotFound", f"Invalid rev id: {revision}", head)
    # By the list of what is there: no path leads out of the folder.
    if name not in repository.files():
        service.journal({"event": "no_file", "repository": repository.name, "file": name[:500]})
        return _error(404, "EntryNotFound", "Entry not found", head)
    place = repository.folder / name
    content = place.read_bytes()
    head |= {"ETag": f'"{_etag(place)}"', "Content-Type": "application/octet-stream"}
    facts = {"repository": repository.name, "revision": revision, "file": name, "method": request.method}
    service.journal({"event": "file", **facts})
    # A range in another form is passed over, as HTTP lets a server do; no number here is too long for Python.
    wanted = re.fullmatch(r"bytes=([0-9]{1,18})-([0-9]{0,18})", request.headers.get("Range") or "")
    if wanted is None:
        return Response(200, content, head)
    first, last = int(wanted[1]), min(int(wanted[2] or len(content)), len(content) - 1)
    if first > last:
        return Response(416, b"", {**head, "Content-Range": f"bytes */{len(content)}"})
    return Response(206, content[first : last + 1], {**head, "Content-Range": f"bytes {first}-{last}/{len(content)}"})


def _etag(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _error(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error in the form from which the libraries make their exceptions."""
    # Parts of it are the asker's: a header holds one line of ASCII.
    shown = "".join(letter if " " <= letter <= "~" else "?" for letter in message)[:200]
    said = {"X-Error-Message": shown, "Content-Type": "application/json", **({"X-Error-Code": code} if code else {})}
    return Response(status, json.dumps({"error": message}).encode(), {**(headers or {}), **said})
