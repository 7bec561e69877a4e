"""An API server of SkyPilot that has no cloud behind it, over HTTP.

It takes only what the real one's own description has (`protocol.json`, made by `scripts/sky_protocol.py`), and answers
in its shapes. A launch goes its way whether or not the client that asked for it is still there, through the stages in
which the real one can be left: it waits, it makes a cluster that nothing would delete, it arms the deletion.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from jsonschema import Draft202012Validator

PROTOCOL = json.loads(Path(__file__).with_name("protocol.json").read_text(encoding="utf-8"))
TOKEN = "sky_stand_in"
Stage = Literal["", "waiting", "making"]
"""Where launches stay: before there is a cluster, or before its deletion is armed."""
_LONGEST_S = 20.0


@dataclass
class Kept:
    """A request."""

    id: str
    name: str
    body: dict[str, Any]
    status: str = "PENDING"
    value: Any = None
    error: tuple[str, str] | None = None

    @property
    def has_ended(self) -> bool:
        return self.status in ("SUCCEEDED", "FAILED", "CANCELLED")


class Refused(Exception):
    def __init__(self, status: int, detail: Any) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


@dataclass
class Pilot:
    """A running stand-in: what it holds, and what it shall get wrong."""

    address: str = ""
    hold: Stage = ""
    price: float = 0.9
    """Of every machine, USD an hour."""
    full: bool = False
    """There is a price and no machine."""
    arms: bool = True
    """Whether a launch that succeeds has armed the deletion of its cluster."""
    broken: dict[str, int] = field(default_factory=dict)
    """Path to the status that is answered in place of anything else."""
    stuck: set[str] = field(default_factory=set)
    """Clusters that cannot be deleted."""
    gone: set[str] = field(default_factory=set)
    """Clusters that have deleted themselves: known until somebody has their cloud asked."""
    api_version: int = PROTOCOL["api_version"]
    clusters: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: dict[str, Kept] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def environment(self) -> dict[str, str]:
        return {"SKYPILOT_API_SERVER_ENDPOINT": self.address, "SKYPILOT_SERVICE_ACCOUNT_TOKEN": TOKEN}

    def add(self, name: str, labels: dict[str, str], **facts: Any) -> dict[str, Any]:
        """A cluster; with `self.changed` held, or before anything else runs."""
        made = {"status": "UP", "launched_at": int(time.time()), "autostop": 5, "to_down": True, **facts}
        whole = {"cluster_hash": uuid.uuid4().hex, "cluster_ever_up": True, "user_hash": "0badc0de", "user_name": "a"}
        self.clusters[name] = {
            "name": name,
            "labels": labels,
            **whole,
            "workspace": "default",
            "is_managed": False,
            "nodes": 1,
            **made,
        }
        return self.clusters[name]

    def resume(self) -> None:
        """Let launches go on to their end."""
        with self.changed:
            self.hold = ""
            self.changed.notify_all()

    def settle(self) -> None:
        """Wait until no request goes on but those that are held."""
        with self.changed:
            held = {"waiting": "PENDING", "making": "RUNNING", "": ""}

            def is_still() -> bool:
                return all(it.has_ended or it.status == held[self.hold] for it in self.requests.values())

            assert self.changed.wait_for(is_still, _LONGEST_S)

    # What is asked.

    def answer(self, method: str, url: str, headers: Any, raw: bytes) -> tuple[Any, str]:
        """What is answered, and the id of the new request; raises `Refused`."""
        parts = urlsplit(url)
        path, query = parts.path, parse_qs(parts.query)
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            raise Refused(401, "Authentication required")
        if not int(headers["X-SkyPilot-API-Version"]) >= PROTOCOL["oldest_api_version"]:
            raise Refused(400, "Your SkyPilot client version is too old")
        call = PROTOCOL["paths"].get(path, {}).get(method.lower())
        if call is None:
            raise Refused(404, "Not Found")
        unknown = set(query) - {it["name"] for it in call.get("parameters", ())}
        assert not unknown, unknown
        body = json.loads(raw) if raw else {}
        if method == "POST":
            _check(call["requestBody"]["content"]["application/json"]["schema"], body)
        with self.changed:
            self.asked.append((path, body))
            if path in self.broken:
                raise Refused(self.broken[path], "broken")
        if path == "/api/health":
            return {"status": "healthy", "api_version": self.api_version, "version": PROTOCOL["version"]}, ""
        if path == "/api/get":
            return self._wait(query["request_id"][0]), ""
        if path == "/api/status":
            return self._list(query), ""
        return None, self._begin(path, body)

    def _begin(self, path: str, body: dict[str, Any]) -> str:
        name = "sky.api_cancel" if path == "/api/cancel" else f"sky.{path.strip('/')}"
        kept = Kept(str(uuid.uuid4()), name, body)
        with self.changed:
            self.requests[kept.id] = kept
        work = {
            "/status": self._status,
            "/launch": self._launch,
            "/optimize": self._optimize,
            "/down": self._down,
            "/api/cancel": self._cancel,
        }[path]
        threading.Thread(target=self._work, args=(kept, work), daemon=True).start()
        return kept.id

    def _work(self, kept: Kept, work: Any) -> None:
        with self.changed:
            try:
                kept.value = work(kept)
                if not kept.has_ended:
                    kept.status = "SUCCEEDED"
            except Refused as error:
                kept.status, kept.error = "FAILED", error.detail
            self.changed.notify_all()

    def _wait(self, request: str) -> dict[str, Any]:
        with self.changed:
            kept = self.requests.get(request)
            if kept is None:
                raise Refused(404, f"Request {request!r} not found")
            self.changed.wait_for(lambda: kept.has_ended, _LONGEST_S)
            shown = self._shown(kept)
            if kept.error is not None:
                raise Refused(500, shown)
            return shown

    def _list(self, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        with self.changed:
            ended = "all_status" in query
            found = [it for it in self.requests.values() if ended or not it.has_ended]
            return [{**self._shown(it), "request_body": json.dumps(it.body)} for it in found]

    def _shown(self, kept: Kept) -> dict[str, Any]:
        error = None if kept.error is None else {"object": "gASV", "type": kept.error[0], "message": kept.error[1]}
        shown = {
            "request_id": kept.id,
            "name": kept.name,
            "entrypoint": "gASV",
            "request_body": "gASV",
            "status": kept.status,
            "created_at": 0.0,
            "user_id": "0badc0de",
            "return_value": json.dumps(kept.value),
            "error": json.dumps(error),
            "pid": None,
            "schedule_type": "short",
            "cluster_name": kept.body.get("cluster_name"),
        }
        _check({"$ref": "#/components/schemas/RequestPayload"}, shown)
        return shown

    # What is done, with `changed` held.

    def _status(self, kept: Kept) -> list[dict[str, Any]]:
        if kept.body["refresh"] == "FORCE":
            for name in self.gone & set(kept.body["cluster_names"] or self.clusters):
                self.clusters.pop(name, None)
        names = kept.body["cluster_names"]
        found = [it for name, it in self.clusters.items() if names is None or name in names]
        for it in found:
            Draft202012Validator(PROTOCOL["cluster"]).validate(it)
        return found

    def _optimize(self, kept: Kept) -> None:
        self._offer(_task(kept.body["dag"]))

    def _offer(self, task: dict[str, Any]) -> None:
        most = task["resources"].get("max_hourly_cost")
        if most is not None and self.price > most:
            raise Refused(0, ("ResourcesUnavailableError", f"No launchable resource found within ${most}/hour"))

    def _launch(self, kept: Kept) -> dict[str, Any] | None:
        name, task = kept.body["cluster_name"], _task(kept.body["task"])
        self._offer(task)
        self.changed.wait_for(lambda: self.hold != "waiting" or kept.has_ended)
        if kept.has_ended:
            return None
        kept.status = "RUNNING"
        if self.full:
            raise Refused(0, ("ResourcesUnavailableError", "Failed to provision all possible launchable resources."))
        labels = task["resources"].get("labels", {})
        if name not in self.clusters:
            self.add(name, labels, status="INIT", autostop=-1, to_down=False)
        self.changed.notify_all()
        self.changed.wait_for(lambda: self.hold != "making" or kept.has_ended)
        if kept.has_ended:
            return None
        # A launch that goes on makes again what was deleted under it.
        cluster = self.clusters.get(name) or self.add(name, labels)
        ends = task["resources"].get("autostop", {}) if self.arms else {}
        cluster |= {"status": "UP", "autostop": ends.get("idle_minutes", -1), "to_down": ends.get("down", False)}
        return {"job_id": 1, "handle": "gASV"}

    def _down(self, kept: Kept) -> None:
        name = kept.body["cluster_name"]
        if name not in self.clusters:
            raise Refused(0, ("ClusterDoesNotExist", f"Cluster {name!r} does not exist."))
        if name in self.stuck:
            raise Refused(0, ("RuntimeError", "Failed to terminate"))
        del self.clusters[name]

    def _cancel(self, kept: Kept) -> list[str]:
        chosen = [self.requests[it] for it in kept.body["request_ids"] if it in self.requests]
        ended = [it for it in chosen if not it.has_ended]
        for it in ended:
            it.status = "CANCELLED"
        self.changed.notify_all()
        return [it.id for it in ended]


def _check(schema: dict[str, Any], value: Any) -> None:
    whole = {**schema, "components": PROTOCOL["components"]}
    faults = [f"{error.json_path}: {error.message}" for error in Draft202012Validator(whole).iter_errors(value)]
    if faults:
        raise Refused(422, faults)
    reference = schema.get("$ref", "").rpartition("/")[2]
    known = PROTOCOL["components"]["schemas"].get(reference, {}).get("properties")
    # The real one ignores fields that it does not know, which would hide a wrong name here.
    assert known is None or set(value) <= set(known), set(value) - set(known or ())


def _task(text: str) -> dict[str, Any]:
    task: dict[str, Any] = json.loads(text)
    Draft202012Validator(PROTOCOL["task"]).validate(task)
    Draft202012Validator(PROTOCOL["resources"]).validate(task["resources"])
    return task


@contextlib.contextmanager
def skypilot() -> Iterator[Pilot]:
    """A server without clusters."""
    pilot = Pilot()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = ""
            try:
                answer, request = pilot.answer(self.command, self.path, self.headers, raw)
                status = 200
            except Refused as error:
                status, answer = error.status, {"detail": error.detail}
            data = json.dumps(answer).encode()
            with contextlib.suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Content-Type", "application/json")
                if request:
                    self.send_header("X-Skypilot-Request-ID", request)
                self.end_headers()
                self.wfile.write(data)

        do_GET = do_POST = _do

        def log_message(self, format: str, *facts: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    pilot.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield pilot
    finally:
        pilot.resume()
        server.shutdown()
        server.server_close()
        thread.join()
