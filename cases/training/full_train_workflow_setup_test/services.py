"""The mirror with the archive, and the hub with its one repository."""

import hashlib

from bench.casekit.model_hub import ModelHub
from bench.casekit.services import Request, Response, Service

ARCHIVE = "noisy-imagenette-mini.tgz"

hub = ModelHub({"bench/tiny-dino": "model"})


def mirror(request: Request, service: Service) -> Response:
    """GET of the archive and of its digest. The first answer is cut short, as by a busy cache; later ones are whole."""
    content = (service.hidden / ARCHIVE).read_bytes()
    if request.method != "GET" or request.path not in (f"/{ARCHIVE}", f"/{ARCHIVE}.sha256"):
        return Response(404, body=b"no such file\n")
    if request.path.endswith(".sha256"):
        return Response(body=f"{hashlib.sha256(content).hexdigest()}  {ARCHIVE}\n".encode())
    with service.lock:
        turn = service.state["turn"] = service.state.get("turn", 0) + 1
    service.journal({"event": "archive", "complete": turn > 1})
    return Response(body=content if turn > 1 else content[: len(content) * 3 // 5])
