"""GitHub's API: what it answers is used as its documentation says, or is one clear line."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from bench.base.errors import UserError
from bench.github.issues import Issue, Notice, keep_issues
from bench.github.rest import GitHubApi, open_api
from tests.helpers.github_rest import TOKEN, Service, github_rest
from tests.helpers.github_rest.actions import archived


@pytest.fixture
def hub() -> Iterator[Service]:
    with github_rest("owner/agents", page=2) as service:
        yield service


@pytest.fixture
def api(hub: Service) -> Iterator[GitHubApi]:
    with open_api("owner/agents", TOKEN, api=hub.api, pause_s=0) as opened:
        yield opened


def test_a_list_is_read_over_all_its_pages(hub: Service, api: GitHubApi) -> None:
    for number in range(5):
        hub.hub.open_issue(f"issue {number}", "", [])
    assert [it.title for it in api.pages(Issue, "/issues", state="all")] == [f"issue {it}" for it in (4, 3, 2, 1, 0)]


@contextmanager
def answering(
    status: int, header: str, value: Callable[[http.server.BaseHTTPRequestHandler], str]
) -> Iterator[tuple[str, list[str]]]:
    """A server that has one answer, without a body, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.send_header(header, value(self))
            self.end_headers()

        def log_message(self, *rest: object) -> None:
            del rest

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


UNEXPECTED = [
    b"",
    b"<html>a captive portal</html>",
    b'{"broken": ',
    b"[1, 2",
    b"\xff\xfe",
    b"null",
    b"17",
    b'"text"',
    b"{}",
    b"[]",
    b"[null]",
    b"[[]]",
    b'[{"number": "x", "title": 3}]',
    b'{"number": {}, "title": "t", "state": "open"}',
    b'{"message": "Moved", "url": "x"}',
    b"[" * 50_000,
]


@pytest.mark.parametrize("body", UNEXPECTED, ids=lambda body: repr(body[:20]))
def test_an_answer_of_another_shape_is_one_line(hub: Service, body: bytes) -> None:
    hub.fault = lambda method, path: (200, body)
    notice = Notice("react", "mini", "2026-11-20T02:00:00Z", "fell", "text", {"series": 0.5})
    with pytest.raises(UserError) as caught:
        keep_issues("owner/agents", [notice], {("react", "mini"): {}}, TOKEN, api=hub.api, pause_s=0)
    assert str(caught.value).startswith("owner/agents: an answer that is not as GitHub's documentation says, to /")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", ["https://127.0.0.1:{port}/x", "http://localhost:{port}/x", "{path}"])
def test_a_redirect_to_elsewhere_is_one_line_and_takes_no_token_along(place: str) -> None:
    """A server of GitHub Enterprise named by http sends everyone to https; the last is a loop."""
    with (
        answering(301, "Location", lambda it: place.format(port=it.connection.getsockname()[1], path=it.path)) as (
            address,
            asked,
        ),
        open_api("owner/agents", TOKEN, api=address, pause_s=0) as opened,
        pytest.raises(UserError, match="not as GitHub's documentation says, to /issues/1: RuntimeError"),
    ):
        opened.get(Issue, "/issues/1")
    assert asked == ["/repos/owner/agents/issues/1"]


@pytest.mark.parametrize("status", [429, 503])
def test_a_pause_of_hours_is_told_and_not_waited_for(status: int) -> None:
    with (
        answering(status, "Retry-After", lambda _: "21600") as (address, asked),
        open_api("owner/agents", TOKEN, api=address, pause_s=0) as opened,
        pytest.raises(UserError, match="asks for a pause of 21600 seconds"),
    ):
        opened.get(Issue, "/issues/1")
    assert asked == ["/repos/owner/agents/issues/1"]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_so_is_one_to_a_write(hub: Service, method: str) -> None:
    notice = Notice("react", "mini", "2026-11-20T02:00:00Z", "fell", "text", {"series": 0.5})
    watched = {("react", "mini"): {"series": 0.1}}
    if method == "PATCH":
        keep_issues("owner/agents", [notice], watched, TOKEN, api=hub.api, pause_s=0)
    hub.fault = lambda verb, path: (200, ["odd"]) if verb == method else None
    changed = Notice("react", "mini", notice.since, "fell further", "text", notice.recovered_at)
    with pytest.raises(UserError, match="not as GitHub's documentation says"):
        keep_issues("owner/agents", [changed], watched, TOKEN, api=hub.api, pause_s=0)


def test_a_refusal_and_a_dead_server_are_one_line_each(hub: Service, api: GitHubApi) -> None:
    hub.left = 0
    with pytest.raises(UserError, match="owner/agents: GitHub answered 403 API rate limit exceeded"):
        api.get(Issue, "/issues/1")
    with (
        open_api("owner/agents", TOKEN, api="http://127.0.0.1:9", pause_s=0) as dead,
        pytest.raises(UserError, match=r"http://127.0.0.1:9: cannot be reached: ConnectionError"),
    ):
        dead.send("POST", Issue, "/issues", {"title": "t"})


def test_a_server_that_fails_for_a_moment_is_asked_again_unless_that_would_write_twice(
    hub: Service, api: GitHubApi
) -> None:
    hub.hub.open_issue("first", "", [])
    failed: list[str] = []

    def once(method: str, path: str) -> tuple[int, str] | None:
        if failed.count(method) < 1:
            failed.append(method)
            return 502, "Bad Gateway"
        return None

    hub.fault = once
    assert api.get(Issue, "/issues/1").title == "first"
    with pytest.raises(UserError, match="GitHub answered 502"):
        api.send("POST", Issue, "/issues", {"title": "second"})
    assert len(hub.hub.issues) == 1


def test_a_file_is_fetched_from_where_it_lies_without_the_token_and_within_bounds(hub: Service, api: GitHubApi) -> None:
    hub.actions.make_run(7, "a" * 40)
    archive = archived({"x.txt": b"content"})
    found = hub.actions.upload(7, "records", archive)
    path = f"/actions/artifacts/{found['id']}/zip"
    assert api.download(path, 10_000) == archive
    assert hub.stolen == []
    with pytest.raises(UserError, match="has more than 20 bytes"):
        api.download(path, 20)
    found["expired"] = True
    with pytest.raises(UserError, match="answered 410 in place of a redirect"):
        api.download(path, 10_000)
    hub.fault = lambda method, path: (200, b"not a redirect")
    with pytest.raises(UserError, match="answered 200 in place of a redirect"):
        api.download(path, 10_000)
