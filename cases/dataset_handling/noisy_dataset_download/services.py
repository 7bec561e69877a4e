"""The mirror: one archive and its digest, handed out with the manners of a busy host."""

import hashlib

from bench.casekit.services import Request, Response, Service

ARCHIVE = "imagenette2-160-mini.tgz"
BUSY = Response(503, body=b"busy, try again\n", headers={"Retry-After": "1", "Content-Type": "text/plain"})


def mirror(request: Request, service: Service) -> Response:
    """GET and HEAD of an index, the archive and its digest."""
    if request.method not in ("GET", "HEAD"):
        return Response(405, body=b"GET or HEAD only\n", headers={"Allow": "GET, HEAD", "Content-Type": "text/plain"})
    if request.path in ("/", ""):
        return _answer(request, f"{ARCHIVE}\n{ARCHIVE}.sha256\n".encode(), "text/plain")
    content = (service.hidden / ARCHIVE).read_bytes()
    if request.path == f"/{ARCHIVE}.sha256":
        if request.method == "GET" and _turn(service, "digest") == 0:
            return BUSY
        return _answer(request, f"{hashlib.sha256(content).hexdigest()}  {ARCHIVE}\n".encode(), "text/plain")
    if request.path != f"/{ARCHIVE}":
        return Response(404, body=b"no such file\n", headers={"Content-Type": "text/plain"})
    if request.method == "HEAD":
        return _answer(request, content, "application/gzip")
    return _archive(content, service)


def _archive(content: bytes, service: Service) -> Response:
    """The first request is turned away, the second answer is cut short, every later one is whole."""
    turn = _turn(service, "archive")
    if turn == 0:
        service.journal({"event": "archive", "status": 503, "complete": False})
        return BUSY
    body = content if turn > 1 else content[: len(content) * 3 // 5]
    service.journal({"event": "archive", "status": 200, "complete": turn > 1})
    return Response(200, body=body, headers={"Content-Type": "application/gzip"})


def _turn(service: Service, name: str) -> int:
    """How often this was asked for before."""
    with service.lock:
        turn: int = service.state.get(name, 0)
        service.state[name] = turn + 1
    return turn


def _answer(request: Request, body: bytes, kind: str) -> Response:
    return Response(200, body=b"" if request.method == "HEAD" else body, headers={"Content-Type": kind})
