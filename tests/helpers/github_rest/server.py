"""The server of the stand-in, and the repository it answers for."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.helpers.github_rest.actions import Actions
from tests.helpers.github_rest.git_data import GitData
from tests.helpers.github_rest.issues import Issues
from tests.helpers.github_rest.protocol import Answer, Refused, Request, Route, find_route, required
from tests.helpers.github_rest.runners import SelfHosted

TOKEN = "ghs_stand_in"
Fault = Callable[[str, str], "tuple[int, Any] | None"]
"""Method and path to a status and what to answer instead, or None: a message, any other JSON, or bytes as they are."""
_HOURLY = 15_000
"""Requests an hour, for the token of a workflow of GitHub Enterprise Cloud."""


class Service:
    """A running stand-in: its address, what it was asked, and what it shall get wrong."""

    def __init__(self, name: str, bare: Path | None, token: str, page: int) -> None:
        self.name = name
        self.token = token
        self.git = GitData(bare, name) if bare is not None else None
        self.hub = Issues(name, page)
        self.actions = Actions(name)
        self.runners = SelfHosted()
        self.protected = {"main"}
        """Names of the branches that are protected."""
        self.app_rights: list[dict[str, str]] = []
        """What Apps have asked their tokens to be good for."""
        self.host = ""
        self.asked: list[tuple[str, str]] = []
        self.writes: list[str] = []
        self.received = 0
        """Bytes of all request bodies."""
        self.sent = 0
        """Bytes of all answers."""
        self.stolen: list[str] = []
        """Tokens that arrived where none belongs: at the storage of artifacts."""
        self.left = _HOURLY
        self.fault: Fault = lambda method, path: None

    @property
    def api(self) -> str:
        """The address of the API, as GITHUB_API_URL of GitHub Enterprise."""
        return f"{self.host}/api/v3"

    @property
    def address(self) -> str:
        """The address of the repository."""
        return f"{self.host}/{self.name}"

    def listen(self, host: str) -> None:
        """Take `host` into every address that is told."""
        self.host = host
        self.hub.api = self.actions.api = self.api
        self.runners.service.host = host
        if self.git is not None:
            self.git.address = host

    def answer(self, method: str, url: str, headers: dict[str, str], raw: bytes) -> Answer:
        """What is answered to a request; raises `Refused`."""
        parts = urlsplit(url)
        path = unquote(parts.path).removeprefix("/api/v3")
        self.asked.append((method, path))
        self.received += len(raw)
        given = headers.get("authorization", "")
        if path == f"/repos/{self.name}/installation" or path.startswith("/app/"):
            return self._app(method, path, given, raw)
        if path.startswith("/storage/"):
            self.stolen += [given] if given else []
            return Answer(200, self.actions.archives[int(path.rpartition("/")[2])])
        if path.startswith("/runner-service/"):
            return self.runners.service.answer(path.removeprefix("/runner-service/"), json.loads(raw))
        if given not in (f"token {self.token}", f"Bearer {self.token}"):
            raise Refused(401, "Bad credentials")
        self.left -= 1
        if self.left < 0:
            raise Refused(403, "API rate limit exceeded for installation ID 1.")
        if (wrong := self.fault(method, path)) is not None:
            status, said = wrong
            if isinstance(said, str):
                raise Refused(status, said)
            return Answer(status, said)
        organisation = f"/orgs/{self.name.split('/')[0]}"
        prefix = organisation if path.startswith(f"{organisation}/actions/runners") else f"/repos/{self.name}"
        if path != prefix and not path.startswith(f"{prefix}/"):
            raise Refused(404, "Not Found")
        if method != "GET":
            self.writes.append(f"{method} {path.removeprefix(prefix)}")
        try:
            body = json.loads(raw) if raw else {}
        except ValueError:
            raise Refused(400, "Problems parsing JSON") from None
        request = Request(
            method, path.removeprefix(prefix), dict(parse_qsl(parts.query)), body, f"{self.host}{parts.path}"
        )
        return self._route(request, path)

    def _app(self, method: str, path: str, given: str, raw: bytes) -> Answer:
        """https://docs.github.com/en/rest/apps/apps; a JSON Web Token proves who asks, and only its form is checked."""
        if not given.startswith("Bearer ") or given.count(".") != 2:
            raise Refused(401, "A JSON web token could not be decoded")
        if method == "GET":
            return Answer(200, {"id": 77, "app_id": 5, "permissions": {"administration": "write"}})
        if path != "/app/installations/77/access_tokens":
            raise Refused(404, "Not Found")
        self.app_rights.append(json.loads(raw)["permissions"])
        return Answer(201, {"token": self.token, "expires_at": "2026-11-23T03:00:00Z"})

    def _route(self, request: Request, path: str) -> Answer:
        if request.path.startswith("/git/"):
            if self.git is None:
                raise Refused(409, "Git Repository is empty.")
            return Answer(*self.git.answer(request.method, path, request.body))
        if request.path == "":
            return Answer(200, {"full_name": self.name, "default_branch": "main", "private": False})
        routes: list[Route] = [
            *self.hub.routes(),
            *self.actions.routes(),
            *self.runners.routes(),
            ("GET", "/compare/(.+)[.]{3}(.+)", self._compare),
            ("GET", "/commits/([^/]+)", self._commit),
            ("GET", "/branches/(.+)", self._branch),
            ("GET", "/contents/(.+)", self._contents),
            ("PUT", "/contents/(.+)", self._write),
        ]
        return find_route(routes, request)

    def _branch(self, request: Request, name: str) -> Answer:
        """https://docs.github.com/en/rest/branches/branches#get-a-branch"""
        return Answer(200, {"name": name, "protected": name in self.protected})

    def _bare(self) -> GitData:
        if self.git is None:
            raise Refused(404, "Not Found")
        return self.git

    def _resolved(self, name: str) -> str:
        found = self._bare().tip(f"refs/heads/{name}") or self._bare().tip(f"{name}^{{commit}}")
        if not found:
            raise Refused(404, "Not Found")
        return found

    def _compare(self, request: Request, base: str, head: str) -> Answer:
        one, other = self._resolved(base), self._resolved(head)
        try:
            common = self._bare().git("merge-base", one, other).decode().strip()
        except Refused:
            raise Refused(404, f"No common ancestor between {base} and {head}.") from None
        behind, ahead = self._bare().git("rev-list", "--left-right", "--count", f"{one}...{other}").split()
        return Answer(
            200,
            {
                "status": "ahead" if behind == b"0" else "diverged",
                "ahead_by": int(ahead),
                "behind_by": int(behind),
                "base_commit": {"sha": one},
                "merge_base_commit": {"sha": common},
            },
        )

    def _commit(self, request: Request, name: str) -> Answer:
        sha = self._resolved(name)
        return Answer(200, {"sha": sha, "commit": {"message": self._bare().commit(sha)["message"]}})

    def _contents(self, request: Request, path: str) -> Answer:
        commit = self._resolved(request.query.get("ref", "main"))
        sha = self._bare().tip(f"{commit}:{path}")
        if not sha or self._bare().kind(sha) != "blob":
            raise Refused(404, "Not Found")
        return Answer(200, {"type": "file", "path": path, **self._bare().blob(sha)})

    def _write(self, request: Request, path: str) -> Answer:
        required(request.body, "message", "content")
        git, branch = self._bare(), f"refs/heads/{request.body.get('branch', 'main')}"
        tip = git.tip(branch)
        if not tip:
            raise Refused(404, f"Branch {branch} not found")
        # 409 for a file that has changed since it was read, or that is there and was not read.
        if git.tip(f"{tip}:{path}") != request.body.get("sha", ""):
            raise Refused(409, f"{path} does not match {request.body.get('sha', '')}")
        blob = git.git("hash-object", "-w", "--stdin", stdin=base64.b64decode(request.body["content"])).decode().strip()
        item = {"path": path, "mode": "100644", "type": "blob", "sha": blob}
        tree = git.new_tree({"base_tree": git.commit(tip)["tree"]["sha"], "tree": [item]})["sha"]
        person = {"name": "c", "email": "c@c.invalid"}
        facts = {"tree": tree, "parents": [tip], "message": request.body["message"], "author": person}
        made = git.new_commit(facts)["sha"]
        git.move(branch, {"sha": made})
        return Answer(200 if request.body.get("sha") else 201, {"content": {"sha": blob}, "commit": {"sha": made}})


@contextlib.contextmanager
def github_rest(
    name: str = "owner/agents", bare: Path | None = None, token: str = TOKEN, page: int = 0
) -> Iterator[Service]:
    """The repository `bare` as `name` on a host of its own; page: items a page, 0 for as many as are asked for."""
    service = Service(name, bare, token, page)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                answer = service.answer(
                    self.command, self.path, {key.lower(): value for key, value in self.headers.items()}, raw
                )
            except Refused as refused:
                url = "https://docs.github.com/rest"
                body = {"message": refused.message, "documentation_url": url, "status": str(refused.status)}
                answer = Answer(refused.status, body)
            content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            service.sent += len(content)
            self.send_response(answer.status)
            limits = {"Limit": _HOURLY, "Remaining": max(0, service.left), "Used": _HOURLY - service.left}
            for key, value in limits.items():
                self.send_header(f"X-RateLimit-{key}", str(value))
            self.send_header("X-RateLimit-Reset", "1795400000")
            for key, text in answer.headers.items():
                self.send_header(key, text)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class calls it so
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    service.listen(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
