"""GitHub's Git Data API, backed by a real bare repository.

Status codes, bodies and messages follow https://docs.github.com/en/rest/git as of 2026: 404 for what is not there or
not to be seen, 409 for an empty repository, 422 for a reference that exists, does not exist, or is no fast-forward.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.helpers.github_rest.protocol import Json, Refused


class GitData:
    """The endpoints over one bare repository."""

    def __init__(self, bare: Path, name: str) -> None:
        self.bare = bare
        self.name = name
        self.address = ""

    def git(self, *arguments: str, stdin: bytes = b"", index: str = "") -> bytes:
        env = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        if index:
            env["GIT_INDEX_FILE"] = index
        command = ["git", f"--git-dir={self.bare}", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, check=False, env=env)
        if done.returncode:
            raise Refused(422, done.stderr.decode().strip() or "Unprocessable")
        return done.stdout

    def kind(self, sha: object) -> str:
        if not isinstance(sha, str) or not re.fullmatch(r"[0-9a-f]{40}", sha):
            raise Refused(422, "The sha parameter must be exactly 40 characters and contain only [0-9a-f].")
        try:
            return self.git("cat-file", "-t", sha).decode().strip()
        except Refused:
            return ""

    def tip(self, ref: str) -> str:
        try:
            return self.git("rev-parse", "--verify", "--quiet", ref).decode().strip()
        except Refused:
            return ""

    def answer(self, method: str, path: str, body: Json) -> tuple[int, Json]:
        prefix = f"/repos/{self.name}/git/"
        if not path.startswith(prefix):
            raise Refused(404, "Not Found")
        if not self.git("for-each-ref", "--count=1"):
            raise Refused(409, "Git Repository is empty.")
        what, _, rest = path.removeprefix(prefix).partition("/")
        routes: dict[tuple[str, str], Callable[[], tuple[int, Json]]] = {
            ("GET", "ref"): lambda: (200, self.ref(f"refs/{rest}")),
            ("GET", "commits"): lambda: (200, self.commit(rest)),
            ("GET", "trees"): lambda: (200, self.tree(rest)),
            ("GET", "blobs"): lambda: (200, self.blob(rest)),
            ("POST", "blobs"): lambda: (201, self.new_blob(body)),
            ("POST", "trees"): lambda: (201, self.new_tree(body)),
            ("POST", "commits"): lambda: (201, self.new_commit(body)),
            ("POST", "refs"): lambda: (201, self.new_ref(body)),
            ("PATCH", "refs"): lambda: (200, self.move(f"refs/{rest}", body)),
        }
        route = routes.get((method, what))
        if route is None:
            raise Refused(404, "Not Found")
        return route()

    def ref(self, ref: str) -> Json:
        sha = self.tip(ref)
        if not sha:
            raise Refused(404, "Not Found")
        url = f"{self.address}/api/v3/repos/{self.name}/git"
        target = {"type": "commit", "sha": sha, "url": f"{url}/commits/{sha}"}
        return {"ref": ref, "url": f"{url}/{ref}", "object": target}

    def commit(self, sha: str) -> Json:
        if self.kind(sha) != "commit":
            raise Refused(404, "Not Found")
        head, _, message = self.git("cat-file", "commit", sha).decode().partition("\n\n")
        facts = [line.split(" ", 1) for line in head.splitlines()]
        tree = next(value for name, value in facts if name == "tree")
        parents = [{"sha": value} for name, value in facts if name == "parent"]
        # GitHub leaves out the line break at the end.
        return {"sha": sha, "message": message.rstrip("\n"), "tree": {"sha": tree}, "parents": parents}

    def tree(self, sha: str) -> Json:
        if self.kind(sha) != "tree":
            raise Refused(404, "Not Found")
        lines = self.git("ls-tree", "-z", sha).decode().split("\0")[:-1]
        items = []
        for line in lines:
            facts, name = line.split("\t", 1)
            mode, kind, item = facts.split()
            items.append({"path": name, "mode": mode, "type": kind, "sha": item})
        return {"sha": sha, "tree": items, "truncated": False}

    def blob(self, sha: str) -> Json:
        if self.kind(sha) != "blob":
            raise Refused(404, "Not Found")
        content = self.git("cat-file", "blob", sha)
        return {"sha": sha, "size": len(content), "encoding": "base64", "content": base64.encodebytes(content).decode()}

    def new_blob(self, body: Json) -> Json:
        text = body["content"]
        content = base64.b64decode(text) if body.get("encoding") == "base64" else text.encode()
        return {"sha": self.git("hash-object", "-w", "--stdin", stdin=content).decode().strip()}

    def new_tree(self, body: Json) -> Json:
        with tempfile.TemporaryDirectory() as folder:
            index = f"{folder}/index"
            if body.get("base_tree"):
                if self.kind(body["base_tree"]) != "tree":
                    raise Refused(422, "base_tree is not a valid tree oid")
                self.git("read-tree", body["base_tree"], index=index)
            lines = b""
            for item in body["tree"]:
                if "content" in item:
                    sha = self.git("hash-object", "-w", "--stdin", stdin=item["content"].encode()).decode().strip()
                else:
                    sha = item["sha"]
                    if self.kind(sha) != item["type"]:
                        raise Refused(422, f"tree.sha {sha} is not a valid {item['type']}")
                lines += f"{item['mode']} {sha}\t{item['path']}\0".encode()
            self.git("update-index", "-z", "--add", "--index-info", stdin=lines, index=index)
            return self.tree(self.git("write-tree", index=index).decode().strip())

    def new_commit(self, body: Json) -> Json:
        if self.kind(body["tree"]) != "tree":
            raise Refused(422, "Tree SHA does not exist")
        if any(self.kind(parent) != "commit" for parent in body["parents"]):
            raise Refused(422, "Parent SHA does not exist or is not a commit object")
        person = body["author"]
        names = ("-c", f"user.name={person['name']}", "-c", f"user.email={person['email']}")
        parents = [part for parent in body["parents"] for part in ("-p", parent)]
        made = self.git(*names, "commit-tree", body["tree"], *parents, stdin=body["message"].encode())
        return self.commit(made.decode().strip())

    def new_ref(self, body: Json) -> Json:
        if self.kind(body["sha"]) != "commit":
            raise Refused(422, "Object does not exist")
        try:
            self.git("update-ref", body["ref"], body["sha"], "0" * 40)
        except Refused:
            raise Refused(422, "Reference already exists") from None
        return self.ref(body["ref"])

    def move(self, ref: str, body: Json) -> Json:
        old = self.tip(ref)
        if not old:
            raise Refused(422, "Reference does not exist")
        if self.kind(body["sha"]) != "commit":
            raise Refused(422, "Object does not exist")
        if body.get("force"):
            raise Refused(422, "Cannot force-push to this branch")
        try:
            self.git("merge-base", "--is-ancestor", old, body["sha"])
            self.git("update-ref", ref, body["sha"], old)
        except Refused:
            raise Refused(422, "Update is not a fast forward") from None
        return self.ref(ref)
