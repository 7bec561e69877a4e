"""Which commit the deployed site is of: whatever answers at its address, a new build is not lost by that."""

from __future__ import annotations

import json
import socketserver
import threading

import pytest

from bench.cli.action_machines import _deployed

OWN, OTHER = "a" * 40, "b" * 40


def _answer(body: bytes, status: str = "200 OK", length: int | None = None) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body


SITE = _answer(json.dumps({"built_from": {"branch": "mldb-results", "commit": OTHER}}).encode())
ODD = {
    "deep": _answer(b"[" * 60_000),
    "cut short": _answer(b"{", length=100),
    "not HTTP": b"\x00\x01 who is there?\r\n\r\n",
    "a long header": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    "not UTF-8": _answer(b"\xff\xfe"),
    "another shape": _answer(b'{"built_from": 7}'),
    "gone": _answer(b"", "404 Not Found"),
    "nothing": b"",
}


@pytest.mark.parametrize(("said", "found"), [(SITE, OTHER), *((it, "") for it in ODD.values())], ids=["site", *ODD])
def test_what_is_not_a_site_of_ours_is_none(said: bytes, found: str) -> None:
    class Odd(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(said)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Odd) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            assert _deployed(f"http://127.0.0.1:{server.server_address[1]}/", "mldb-results", OWN) == found
        finally:
            server.shutdown()
            thread.join()
