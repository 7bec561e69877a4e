"""Runs a case's stand-in services: one process a cell, outside the sandbox, one Unix socket a service.

An agent may send them anything, so a service that ends is the agent's doing: it begins anew behind the same socket,
without what it had in memory, and the cell goes on. Only the end of the process that watches over it is a fault.
"""

from __future__ import annotations

import contextlib
import http.server
import itertools
import os
import resource
import signal
import socket
import socketserver
import sys
import tempfile
import threading
import time
import traceback
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, ClassVar, NoReturn

from bench.base.child import Child, load_module, log_tail, python_child, receive_orders
from bench.base.errors import InfraError
from bench.casekit.services import Handler, Request, Response, Service
from bench.formats.case_parts import ServicePhase
from bench.guest.kernel import PR_SET_PDEATHSIG, Kernel
from bench.sandbox import base_environment

_MAX_BODY = 64 << 20
_START_S = 30
_MOST_AT_ONCE = 64
"""Connections to one service."""
_LIMITS = {resource.RLIMIT_DATA: 2 << 30, resource.RLIMIT_FSIZE: 256 << 20}
"""Of the process that serves, in bytes: an agent's bodies fill it, not the machine. A request for which there is no
memory fails, and the others go on.
"""
_BACKLOG = 128
_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 5.0


@contextlib.contextmanager
def running_services(
    script: Path,
    names: Sequence[str],
    hidden: Path,
    journals: Path,
    sockets: Path,
    seed: int,
    code: Sequence[Path] = (),
    phase: ServicePhase = "agent",
    public_scores: Mapping[str, int | None] = MappingProxyType({}),
) -> Iterator[dict[str, Path]]:
    """Start the services and yield their sockets by name; raises `InfraError` when they do not come up.

    code: folders of modules that the script imports. public_scores: how many a service may tell, by its name.
    """
    if not names:
        yield {}
        return
    paths = {name: sockets / f"{name}.sock" for name in names}
    orders = {
        "script": str(script),
        "code": [str(folder) for folder in code],
        "hidden": str(hidden),
        "journals": str(journals),
        "seed": seed,
        "phase": phase,
        "public_scores": dict(public_scores),
        "sockets": {name: str(path) for name, path in paths.items()},
    }
    python = Path(sys.executable)
    env = base_environment(home="/nonexistent", tmp=tempfile.gettempdir(), python=python, cpus=1)
    with python_child("bench.cell.services", orders, env=env) as host:
        try:
            _require_started(host, script.parent.name)
            yield paths
            status = host.popen.poll()
            if status is not None:
                # It reads nothing of what the agent sends.
                raise InfraError("service_error", f"services of {script.parent.name} ended: status {status}")
        finally:
            # With whatever the services have started: the host leads a session of its own.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(host.popen.pid, signal.SIGKILL)
            for path in paths.values():
                path.unlink(missing_ok=True)


def _require_started(host: Child, case: str) -> None:
    if host.answer(_START_S) != b"ready":
        # A thread of the case may keep it alive after its error.
        host.popen.kill()
        host.popen.wait()
        raise InfraError("service_error", f"services of {case} did not start: {log_tail(host.log)}")


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Serves a socket that listens already."""

    daemon_threads = True
    most_body = _MAX_BODY
    most_at_once = _MOST_AT_ONCE
    """Connections at a time."""

    def __init__(self, listener: socket.socket, handler: Handler, service: Service) -> None:
        self.handler = handler
        self.service = service
        self._free = threading.BoundedSemaphore(self.most_at_once)
        super().__init__(listener.getsockname(), _Exchange, bind_and_activate=False)
        self.socket.close()
        self.socket = listener

    def process_request(self, request: Any, client_address: Any) -> None:
        self._free.acquire()
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # The log may be full.
        with contextlib.suppress(OSError):
            super().handle_error(request, client_address)


class _Exchange(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: UnixServer
    timeout: ClassVar[float] = 300

    def _answer(self) -> None:
        try:
            body = self._body()
        except MemoryError:
            body = None
        if body is None:
            # What is left of the body would be taken for the next request.
            self.close_connection = True
            return self._send(Response(413, b"too large"))
        try:
            parts = urllib.parse.urlsplit(self.path)
            query = urllib.parse.parse_qs(parts.query, keep_blank_values=True)
        except ValueError:
            return self._send(Response(400, b"no address"))
        if self.server.service.full:
            # What it did from now on would be seen by nobody.
            return self._send(Response(403, b"more was asked of this service than its journal holds; it ends here"))
        request = Request(self.command, urllib.parse.unquote(parts.path), query, self.headers, body)
        try:
            response = self.server.handler(request, self.server.service)
        except Exception:
            with contextlib.suppress(OSError):
                traceback.print_exc()
            self.server.service.journal({"event": "service_error", "error": traceback.format_exc(limit=-2)})
            response = Response(500, b"the stand-in service failed")
        self._send(response)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _answer

    def _body(self) -> bytes | None:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self._chunks()
        try:
            length = int(self.headers.get("Content-Length") or 0)
        except ValueError:
            return None
        return self.rfile.read(length) if 0 <= length <= self.server.most_body else None

    def _chunks(self) -> bytes | None:
        body = bytearray()
        while True:
            try:
                size = int(self.rfile.readline(100).split(b";")[0], 16)
            except ValueError:
                return None
            if size < 0 or len(body) + size > self.server.most_body:
                return None
            body += self.rfile.read(size)
            self.rfile.readline(100)
            if size == 0:
                return bytes(body)

    def _send(self, response: Response) -> None:
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def address_string(self) -> str:
        return "agent"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's signature
        return


def main() -> None:
    """Entry of the host process; ends when its standard input does. Watches over the process that serves."""
    orders, ready = receive_orders()
    listeners = {}
    for name, path in orders["sockets"].items():
        listeners[name] = socket.socket(socket.AF_UNIX)
        listeners[name].bind(path)
        # Its folder is closed to other users; those of a container that is handed the file come by.
        os.chmod(path, 0o666)
        listeners[name].listen(_BACKLOG)
    began, begun = os.pipe()
    host = os.getpid()
    for count in itertools.count():
        worker = os.fork()
        if worker == 0:
            # Also where the host alone is killed, which then ends no group.
            Kernel().prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != host:
                os._exit(1)
            os.close(began)
            _serve(orders, listeners, begun, ready if count == 0 else None)
        if count == 0:
            os.close(begun)
            ready.close()
            if not os.read(began, 1):
                # Its error is in the log, and the runner hears that nothing is ready.
                sys.exit(1)
            begun = os.open(os.devnull, os.O_WRONLY)
        os.waitpid(worker, 0)
        time.sleep(_pause_after(count))


def _pause_after(restarts: int) -> float:
    """Seconds. Whoever makes a service end again and again is not to end its host with a number too large."""
    return float(min(_PAUSE_S * 2 ** min(restarts, 30), _LONGEST_PAUSE_S))


def _serve(orders: dict[str, Any], listeners: dict[str, socket.socket], begun: int, ready: BinaryIO | None) -> NoReturn:
    """In the process that serves: never returns, and ends with the host, as both are of one process group."""
    try:
        for limit, most in _LIMITS.items():
            resource.setrlimit(limit, (most, most))
        script = Path(orders["script"])
        sys.path[:0] = orders["code"]
        module = load_module("services", script)
        for name, listener in listeners.items():
            journal = Path(orders["journals"]) / f"{name}.jsonl"
            told = orders["public_scores"].get(name)
            service = Service(name, Path(orders["hidden"]), orders["seed"], journal, orders["phase"], told)
            server = UnixServer(listener, getattr(module, name), service)
            threading.Thread(target=server.serve_forever, daemon=True).start()
        os.write(begun, b"1")
        os.close(begun)
        if ready is not None:
            ready.write(b"ready")
            ready.close()
        threading.Event().wait()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(1)
