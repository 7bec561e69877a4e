"""The host of the image set: one archive, and another one for the judge."""

from bench.casekit.services import Request, Response, Service

ARCHIVE = "noisy-imagenette-mini.tar.gz"


def mirror(request: Request, service: Service) -> Response:
    """GET of the archive; an index else."""
    if request.path != f"/{ARCHIVE}":
        return Response(200 if request.path in ("", "/") else 404, body=f"{ARCHIVE}\n".encode())
    content = (service.hidden / f"{service.phase}.tar.gz").read_bytes()
    service.journal({"event": "archive", "method": request.method})
    return Response(
        200, body=b"" if request.method == "HEAD" else content, headers={"Content-Type": "application/gzip"}
    )
