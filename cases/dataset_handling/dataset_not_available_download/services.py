"""The file host: a manifest and six paths, each with its own fault."""

import hashlib
import json

from bench.casekit.services import Request, Response, Service

NAME = "pebbles-1.0.tgz"
PAGE = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Please sign in to go on.</body></html>\n"
TEXT = {"Content-Type": "text/plain"}


def host(request: Request, service: Service) -> Response:
    """GET and HEAD of the manifest and of the archive below each path."""
    if request.method not in ("GET", "HEAD"):
        return Response(405, b"GET or HEAD only\n", {"Allow": "GET, HEAD", **TEXT})
    archive = (service.hidden / NAME).read_bytes()
    if request.path == "/manifest.json":
        facts = {"file": NAME, "size": len(archive), "sha256": hashlib.sha256(archive).hexdigest()}
        return Response(200, json.dumps(facts).encode(), {"Content-Type": "application/json"})
    folder, _, name = request.path.strip("/").partition("/")
    faults = json.loads((service.hidden / "faults.json").read_text())
    if name != NAME or folder not in faults:
        return Response(404, b"there is no such file\n", TEXT)
    with service.lock:
        asked = service.state[folder] = service.state.get(folder, 0) + (request.method == "GET")
    # HEAD tells what the next GET will.
    busy = asked + (request.method == "HEAD") <= faults[folder]["busy"]
    answer = _answer("busy" if busy else faults[folder]["cause"], archive, faults[folder].get("kind", ""))
    service.journal({"event": "asked", "path": folder, "method": request.method, "status": answer.status})
    return answer


def _answer(cause: str, archive: bytes, kind: str) -> Response:
    match cause:
        case "not_found":
            return Response(404, b"the file was moved or deleted\n", TEXT)
        case "forbidden":
            return Response(403, b"you are not on the list\n", TEXT)
        case "busy":
            return Response(503, b"busy, try again\n", {"Retry-After": "0", **TEXT})
        case "not_an_archive":
            # A page, an archive of another program that begins with the same byte, and one with as many bytes.
            bodies = {"page": PAGE, "compress": b"\x1f\x9d\x90" + archive[3:900], "zip": b"PK\x03\x04" + archive[4:]}
            return Response(200, bodies[kind], {"Content-Type": "application/gzip"})
        case "truncated":
            return Response(200, archive[: len(archive) * 3 // 5], {"Content-Type": "application/gzip"})
    # The time in the header: whoever unpacks the file sees no fault.
    first, last = (4, 8) if kind == "header" else (len(archive) // 2, len(archive) // 2 + 64)
    changed = archive[:first] + bytes(byte ^ 0x55 for byte in archive[first:last]) + archive[last:]
    return Response(200, changed, {"Content-Type": "application/gzip"})
