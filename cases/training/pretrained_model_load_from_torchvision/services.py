"""The zoo: an index, and files of weights."""

from bench.casekit.services import Request, Response, Service


def zoo(request: Request, service: Service) -> Response:
    """GET and HEAD below /models."""
    if request.method not in ("GET", "HEAD"):
        return Response(405, b"GET or HEAD only\n", {"Allow": "GET, HEAD"})
    folder, _, name = request.path.strip("/").partition("/")
    held = {path.name for path in service.hidden.glob("*.pth")} | {"index.json"}
    if folder != "models" or name not in held:
        return Response(404, b"there is no such file\n")
    service.journal({"event": "asked", "file": name, "method": request.method})
    kind = "application/json" if name == "index.json" else "application/octet-stream"
    return Response(200, (service.hidden / name).read_bytes(), {"Content-Type": kind})
