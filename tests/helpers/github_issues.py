"""GitHub's issues over its real REST protocol, kept in memory: what stands in for GitHub itself.

Fields, status codes and paging follow https://docs.github.com/en/rest/issues as of 2026.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]
TOKEN = "ghs_stand_in"


class Repository:
    """One repository's issues and labels, and every write that was asked for."""

    def __init__(self, name: str, page: int = 30) -> None:
        self.name = name
        self.page = page
        self.address = ""
        self.issues: list[Json] = []
        self.labels: list[str] = []
        self.comments: dict[int, list[str]] = {}
        self.writes: list[str] = []

    def open_issue(self, title: str, body: str, labels: list[str], *, pull: bool = False) -> Json:
        number = len(self.issues) + 1
        issue: Json = {
            "number": number,
            "title": title,
            "body": body,
            "state": "open",
            "state_reason": None,
            "labels": [{"name": label} for label in labels],
            "url": f"{self.address}/repos/{self.name}/issues/{number}",
            "html_url": f"https://github.com/{self.name}/{'pull' if pull else 'issues'}/{number}",
        }
        if pull:
            issue["pull_request"] = {"url": f"{self.address}/repos/{self.name}/pulls/{number}"}
        self.issues.append(issue)
        return issue

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Json) -> tuple[int, Any, str]:
        """Status, JSON and the Link header."""
        prefix = f"/repos/{self.name}"
        if not path.startswith(prefix):
            return 404, {"message": "Not Found"}, ""
        rest = path.removeprefix(prefix)
        if method != "GET":
            self.writes.append(f"{method} {rest}")
        if rest == "/issues" and method == "GET":
            return self._list(query)
        if rest == "/issues" and method == "POST":
            return 201, self.open_issue(body["title"], body["body"], body.get("labels", [])), ""
        if rest == "/labels" and method == "POST":
            self.labels.append(body["name"])
            return 201, {"name": body["name"]}, ""
        if rest == "/labels":
            return 200, [{"name": label} for label in self.labels], ""
        if match := re.fullmatch(r"/issues/(\d+)/comments", rest):
            self.comments.setdefault(int(match[1]), []).append(body["body"])
            return 201, {"body": body["body"]}, ""
        if match := re.fullmatch(r"/issues/(\d+)", rest):
            issue = self.issues[int(match[1]) - 1]
            issue.update({name: value for name, value in body.items() if name in {"title", "body", "state"}})
            issue["state_reason"] = body.get("state_reason", issue["state_reason"])
            return 200, issue, ""
        return 404, {"message": "Not Found"}, ""

    def _list(self, query: dict[str, list[str]]) -> tuple[int, Any, str]:
        wanted = set(query.get("labels", [""])[0].split(",")) - {""}
        state = query.get("state", ["open"])[0]
        found = [
            issue
            for issue in reversed(self.issues)
            if wanted <= {label["name"] for label in issue["labels"]} and state in ("all", issue["state"])
        ]
        page = int(query.get("page", ["1"])[0])
        chosen = found[(page - 1) * self.page : page * self.page]
        more = page * self.page < len(found)
        labels = ",".join(sorted(wanted))
        url = f"{self.address}/repos/{self.name}/issues?state={state}&labels={labels}&page={page + 1}"
        return 200, chosen, f'<{url}>; rel="next"' if more else ""


@contextlib.contextmanager
def serving(repository: Repository) -> Iterator[str]:
    """Answer on loopback; the address of the API."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            url = urlsplit(self.path)
            if self.headers.get("Authorization") not in (f"token {TOKEN}", f"Bearer {TOKEN}"):
                status, answer, link = 401, {"message": "Bad credentials"}, ""
            else:
                status, answer, link = repository.answer(self.command, url.path, parse_qs(url.query), body)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            if link:
                self.send_header("Link", link)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = _reply

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    repository.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield repository.address
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
