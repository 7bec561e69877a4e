"""Asking the person or the script that the run offers for help."""

from __future__ import annotations

import http.client
import json
import urllib.parse

from .action import ActionFault

REQUEST_HELP = "Request Help"
_MOST_BYTES = 100_000
_OK = 200


def asked(address: str, question: str, seconds: float) -> str:
    """The answer to `question`; raises `ActionFault` where none comes within `seconds`."""
    parts = urllib.parse.urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=max(seconds, 1.0))
    try:
        connection.request("POST", parts.path or "/", json.dumps({"question": question}).encode())
        answer = connection.getresponse()
        found = json.loads(answer.read(_MOST_BYTES))
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ActionFault(f"no answer came: {error}") from None
    finally:
        connection.close()
    said = found if isinstance(found, dict) else {}
    if answer.status != _OK:
        raise ActionFault(f"the question was refused: {said.get('error')}")
    return str(said.get("answer") or "[there is no answer]")
