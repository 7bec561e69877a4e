"""Stand-in services: reached over their sockets, journalled where nobody else writes, gone at the end."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import InfraError
from bench.casekit.services import MOST_EVENTS, MOST_JOURNAL_BYTES, Service
from bench.cell.services import _LONGEST_PAUSE_S, _pause_after, running_services
from bench.sandbox.job import Sandbox
from tests.helpers.cells import ROOT, new_token, processes_with, python, run_code, wait_until_gone, write_files

SCRIPT = """
from bench.casekit.services import Request, Response, Service


def hub(request: Request, service: Service) -> Response:
    with service.lock:
        service.state["calls"] = service.state.get("calls", 0) + 1
    service.journal({"event": request.method, "path": request.path})
    if request.path == "/dies":
        import os
        os._exit(3)
    if request.path == "/broken":
        raise RuntimeError("out of order")
    if request.path == "/keep":
        service.state.setdefault("kept", []).append(request.body)
        return Response(200)
    if request.path == "/secret":
        return Response(200, (service.hidden / "data.bin").read_bytes(), {"Content-Type": "application/octet-stream"})
    return Response.json({
        "method": request.method, "path": request.path, "query": request.query, "body": request.body.decode("latin-1"),
        "header": request.headers.get("x-test"), "calls": service.state["calls"], "seed": service.seed,
    })


def other(request: Request, service: Service) -> Response:
    return Response(204)
"""


class Door(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(str(self._path))

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        self.request(method, path, body, headers)
        answer = self.getresponse()
        return answer.status, answer.read()


Open = Callable[..., dict[str, Path]]


@pytest.fixture
def room(tmp_path: Path) -> Path:
    write_files(tmp_path, {"case/services.py": SCRIPT, "hidden/data.bin": b"\x00\xff"})
    for name in ("journals", "s"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def start(room: Path) -> Iterator[Open]:
    with ExitStack() as stack:

        def make(*names: str) -> dict[str, Path]:
            context = running_services(
                room / "case" / "services.py", list(names), room / "hidden", room / "journals", room / "s", 7
            )
            return stack.enter_context(context)

        yield make


def journal(room: Path, name: str = "hub") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (room / "journals" / f"{name}.jsonl").read_text().splitlines()]


def test_requests_reach_the_handler_whole(start: Open, room: Path) -> None:
    door = Door(start("hub")["hub"])
    status, body = door.ask("POST", "/a%20b/c?x=1&x=2&y=", b"\x00\xffbody", **{"X-Test": "yes"})
    found = json.loads(body)
    assert status == 200
    assert found == {
        "method": "POST", "path": "/a b/c", "query": {"x": ["1", "2"], "y": [""]}, "body": "\x00\xffbody",
        "header": "yes", "calls": 1, "seed": 7,
    }  # fmt: skip
    assert door.ask("GET", "/secret") == (200, b"\x00\xff")
    assert [(line["event"], line["path"]) for line in journal(room)] == [("POST", "/a b/c"), ("GET", "/secret")]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_every_method_is_answered(start: Open, method: str) -> None:
    assert json.loads(Door(start("hub")["hub"]).ask(method, "/")[1])["method"] == method


def test_head_has_no_body_and_the_connection_lives_on(start: Open) -> None:
    door = Door(start("hub")["hub"])
    assert door.ask("HEAD", "/") == (200, b"")
    assert door.ask("GET", "/")[0] == 200


def test_two_services_have_two_sockets_and_two_states(start: Open, room: Path) -> None:
    paths = start("hub", "other")
    assert Door(paths["other"]).ask("GET", "/") == (204, b"")
    assert json.loads(Door(paths["hub"]).ask("GET", "/")[1])["calls"] == 1
    assert not (room / "journals" / "other.jsonl").exists()


def test_a_handler_that_fails_is_a_500_and_goes_on(start: Open, room: Path) -> None:
    door = Door(start("hub")["hub"])
    assert door.ask("GET", "/broken")[0] == 500
    assert door.ask("GET", "/")[0] == 200
    assert "out of order" in journal(room)[1]["error"]


def test_a_full_journal_says_so_once_and_ends_the_service(start: Open, room: Path) -> None:
    door = Door(start("hub")["hub"])
    path = "/" + "x" * 60_000
    statuses = [door.ask("GET", path)[0] for _ in range(160)]
    assert statuses == [200] * statuses.count(200) + [403] * statuses.count(403) and statuses[-1] == 403
    events = [line["event"] for line in journal(room)]
    assert (events[-1], events.count("journal_full")) == ("journal_full", 1)
    assert len(events) == statuses.count(200), "what was no longer answered has changed nothing"
    assert (room / "journals" / "hub.jsonl").stat().st_size <= MOST_JOURNAL_BYTES


def test_events_are_counted_too(tmp_path: Path) -> None:
    service = Service("hub", tmp_path, 1, tmp_path / "hub.jsonl")
    for number in range(MOST_EVENTS + 50):
        service.journal({"n": number})
    lines = (tmp_path / "hub.jsonl").read_text().splitlines()
    assert len(lines) == MOST_EVENTS + 1
    assert [json.loads(line).get("event") for line in lines[-2:]] == [None, "journal_full"]
    Service("hub", tmp_path, 1, tmp_path / "hub.jsonl").journal({"n": 0})
    assert (tmp_path / "hub.jsonl").read_text().splitlines() == lines, "a service that began anew has no more room"


def test_an_event_that_cannot_be_written_ends_the_journal(tmp_path: Path) -> None:
    """Else what the service did then would be seen by nobody, while all else in the journal is right."""
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    service = Service("hub", tmp_path, 1, tmp_path / "hub.jsonl")
    for event in ({"n": 1}, {"n": nested}, {"n": 3}):
        service.journal(event)
    events = [json.loads(line) for line in (tmp_path / "hub.jsonl").read_text().splitlines()]
    assert [event.get("event") for event in events] == [None, "journal_full"] and service.full
    assert Service("hub", tmp_path, 1, tmp_path / "hub.jsonl").full, "however few there are"


@pytest.mark.slow
def test_a_service_that_is_asked_for_too_much_memory_goes_on(start: Open) -> None:
    """Its end would lose the cell, and an agent that does badly could wish for that."""
    paths = start("hub", "other")

    def keep() -> int:
        # A refused body is not read to its end.
        with suppress(BrokenPipeError, ConnectionResetError):
            return Door(paths["hub"]).ask("POST", "/keep", bytes(60 << 20))[0]
        return 413

    statuses = [keep() for _ in range(45)]
    assert statuses[0] == 200
    assert statuses[-1] in (413, 500)
    assert Door(paths["other"]).ask("GET", "/") == (204, b"")
    assert Door(paths["hub"]).ask("GET", "/")[0] == 200


def test_a_service_that_an_agent_ends_begins_anew_behind_its_socket(start: Open, room: Path) -> None:
    paths = start("hub")
    for _ in range(3):
        with pytest.raises((http.client.HTTPException, OSError)):
            Door(paths["hub"]).ask("GET", "/dies")
        status, said = Door(paths["hub"]).ask("GET", "/")
        assert (status, json.loads(said)["calls"]) == (200, 1), "without what it had in memory"
    assert len(journal(room, "hub")) == 6, "and its journal goes on"


def test_many_at_once(start: Open, room: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    path = start("hub")["hub"]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: Door(path).ask("GET", f"/{n}")[0], range(60)))
    assert answers == [200] * 60
    assert sorted(int(line["path"][1:]) for line in journal(room)) == list(range(60))


def exchange(path: Path, data: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(10)
        peer.connect(str(path))
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        answer = b""
        while part := peer.recv(65536):
            answer += part
        return answer


def test_a_chunked_body_is_put_together(start: Open) -> None:
    data = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
    assert b'"body": "abcde"' in exchange(start("hub")["hub"], data)


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 99999999999\r\n", b"Content-Length: -1\r\n", b"Content-Length: x\r\n",
        b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
    ],
)  # fmt: skip
def test_a_body_that_cannot_be_is_refused_and_never_read_as_a_request(start: Open, room: Path, head: bytes) -> None:
    path = start("hub")["hub"]
    answer = exchange(
        path, b"POST / HTTP/1.1\r\nHost: x\r\n" + head + b"\r\nzz\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 413")
    assert answer.count(b"HTTP/1.1") == 1
    assert not (room / "journals" / "hub.jsonl").exists()
    assert Door(path).ask("GET", "/")[0] == 200


@pytest.mark.parametrize("data", [b"", b"\x00" * 100, b"GET\r\n\r\n", b"x" * 100_000, b"GET / HTTP/9.9\r\n\r\n"])
def test_noise_does_not_end_the_service(start: Open, data: bytes) -> None:
    path = start("hub")["hub"]
    with suppress(ConnectionError):
        exchange(path, data)
    assert Door(path).ask("GET", "/")[0] == 200


def test_a_job_reaches_the_service_at_its_port(start: Open, room: Path, sandbox: Sandbox) -> None:
    code = "import os, urllib.request; print(urllib.request.urlopen(os.environ['HUB_URL'] + '/x').read().decode())"
    (room / "work").mkdir()
    env = {"HUB_URL": "http://127.0.0.1:{port:hub}"}
    ended = run_code(sandbox, room / "work", code, sockets=start("hub"), env=env)
    assert json.loads(ended.stdout)["path"] == "/x", ended.stderr
    assert journal(room)[0]["path"] == "/x"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise OSError('no luck')", "no luck"), ("syntax error", "SyntaxError"), ("x = 1", "hub"),
        ("import os; os._exit(3)", "did not start"),
    ],
)  # fmt: skip
def test_services_that_do_not_start_are_an_infra_error(start: Open, room: Path, text: str, said: str) -> None:
    (room / "case" / "services.py").write_text(text)
    with pytest.raises(InfraError, match=said) as caught:
        start("hub")
    assert caught.value.cause == "service_error"
    assert list((room / "s").iterdir()) == []


def test_no_service_needs_no_process(room: Path) -> None:
    with running_services(room / "absent.py", [], room, room, room, 1) as paths:
        assert paths == {}


def test_everything_is_gone_at_the_end(room: Path) -> None:
    token = new_token()
    text = (
        f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(40)', {token!r}])\n"
    )
    (room / "case" / "services.py").write_text(text + SCRIPT)
    script = room / "case" / "services.py"
    with running_services(script, ["hub"], room / "hidden", room / "journals", room / "s", 7) as paths:
        assert Door(paths["hub"]).ask("GET", "/")[0] == 200
        assert processes_with(token)
    assert list((room / "s").iterdir()) == []
    assert wait_until_gone(token) == []


def test_what_serves_ends_with_its_host_and_that_is_a_fault(room: Path) -> None:
    with pytest.raises(InfraError, match="ended: status -9"):
        _serve_until_the_host_is_killed(room)


def _serve_until_the_host_is_killed(room: Path) -> None:
    script = room / "case" / "services.py"
    with running_services(script, ["hub"], room / "hidden", room / "journals", room / "s", 7) as paths:
        assert Door(paths["hub"]).ask("GET", "/")[0] == 200
        (host,) = [pid for pid in _children(os.getpid()) if b"bench.cell.services" in _command(pid)]
        (worker,) = _children(host)
        os.kill(host, signal.SIGKILL)
        until = time.monotonic() + 20
        while os.path.exists(f"/proc/{worker}") and time.monotonic() < until:
            time.sleep(0.02)
        assert not os.path.exists(f"/proc/{worker}")


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_the_host_ends_with_its_runner(room: Path) -> None:
    code = f"""
import sys, time
from pathlib import Path
from bench.cell.services import running_services
room = Path({str(room)!r})
with running_services(room / "case" / "services.py", ["hub"], room / "hidden", room / "journals", room / "s", 7):
    print("up", flush=True)
    time.sleep(40)
"""
    with subprocess.Popen(python("-c", code), cwd=ROOT, stdout=subprocess.PIPE) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == b"up\n"
        children = Path(f"/proc/{runner.pid}/task/{runner.pid}/children").read_text().split()
        assert len(children) == 1
        runner.send_signal(signal.SIGKILL)
    until = time.monotonic() + 10
    while os.path.exists(f"/proc/{children[0]}") and time.monotonic() < until:
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{children[0]}")
    assert wait_until_gone(str(room / "case")) == []


def test_a_service_that_ends_again_and_again_is_started_after_the_longest_pause() -> None:
    assert _pause_after(0) < _pause_after(1) < _LONGEST_PAUSE_S
    assert [_pause_after(restarts) for restarts in (1_023, 1_024, 10**9)] == [_LONGEST_PAUSE_S] * 3
