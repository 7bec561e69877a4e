"""The protocol of SkyPilot's API server: each call is a request that the server keeps, and whose result is waited for.

SkyPilot's own client is not used. It needs 360 MB and older versions of click and uvicorn than other parts of this
project, and it unpickles what the server answers; here only JSON is read. The shapes are those of SkyPilot 0.14.1, from
which `scripts/sky_protocol.py` takes what the tests compare every call with.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from bench.base.errors import UserError
from bench.base.text import printable
from bench.machines.sky.answers import CLUSTERS, REQUESTS, Cluster, Health, KeptRequest, Launch, SkyFault

ENDPOINT = "SKYPILOT_API_SERVER_ENDPOINT"
TOKEN = "SKYPILOT_SERVICE_ACCOUNT_TOKEN"
API_VERSION = 62
VERSION = "0.14.1"
_USER = "ml-dev-bench"
_CONNECT_S = 10
_POLL_S = 60
_TRIES = 4
_LONGEST_FAULT = 300
_LATER = (429, 502, 503, 504)


class SkyError(UserError):
    """A request that the server could not carry out."""

    def __init__(self, kind: str, message: str, *, where: str) -> None:
        super().__init__(f"{kind}: {message}", where=where, remedy="check the machines file and the server's clouds")
        self.kind = kind
        """The name of SkyPilot's exception."""


_Read = TypeVar("_Read")


class SkyServer:
    """An API server. Every method raises `UserError`, and `SkyError` for what the server could not do."""

    def __init__(self, endpoint: str, token: str = "", *, wait: Callable[[float], None] = time.sleep) -> None:
        import requests

        self._endpoint = endpoint.rstrip("/")
        self._where = _without_password(endpoint)
        self._wait = wait
        self._session = requests.Session()
        self._session.headers.update({"X-SkyPilot-API-Version": str(API_VERSION), "X-SkyPilot-Version": VERSION})
        if token:
            self._session.headers["Authorization"] = f"Bearer {token}"

    def require_version(self) -> None:
        """Raise `UserError` for a server that is older than what was tried."""
        found = self._read(TypeAdapter(Health), self._ask("GET", "/api/health").json(), "/api/health")
        if found.api_version < API_VERSION:
            raise UserError(
                f"speaks version {found.api_version} of the protocol, and {API_VERSION} is needed",
                where=self._where,
                remedy=f"upgrade the API server to SkyPilot {VERSION} or newer",
            )

    def optimize(self, task: str) -> None:
        """Whether there is a machine for the task, within its price; nothing is made."""
        self._result(self._submit("/optimize", {"dag": task, "request_options": None}))

    def launch(self, task: str, cluster: str) -> str:
        """Ask for a cluster; the id of the request.

        Sent once: where its answer is lost, the request may be there, and is found by the name of the cluster.
        """
        return self._submit("/launch", {"task": task, "cluster_name": cluster}, tries=1)

    def finish(self, request: str, seconds: float) -> None:
        """Wait until the request has ended, for so long at most."""
        self._result(request, seconds)

    def down(self, clusters: Sequence[str], seconds: float) -> dict[str, str]:
        """Delete these clusters, all at once; what went wrong by cluster, which is empty where nothing did."""
        faults: dict[str, str] = {}
        asked: dict[str, str] = {}
        for name in clusters:
            with _kept(faults, name):
                asked[name] = self._submit("/down", {"cluster_name": name})
        for name, request in asked.items():
            with _kept(faults, name):
                try:
                    self._result(request, seconds)
                except SkyError as error:
                    if error.kind != "ClusterDoesNotExist":
                        raise
        return faults

    def cancel(self, requests: Sequence[str]) -> None:
        """End these requests; those that have ended already stay as they are."""
        self._result(self._submit("/api/cancel", {"request_ids": list(requests), "user_id": None}))

    def clusters(self, names: Sequence[str] | None = None, *, refresh: bool = False) -> list[Cluster]:
        """Those with these names, or all that the account may see. refresh: ask their clouds, too."""
        body = {
            "cluster_names": None if names is None else list(names),
            "refresh": "FORCE" if refresh else "NONE",
            "all_users": True,
            "include_credentials": False,
            "summary_response": False,
            "include_handle": False,
        }
        return self._read(CLUSTERS, self._result(self._submit("/status", body)), "/status")

    def launches(self) -> list[tuple[KeptRequest, str]]:
        """Launches that have not ended, each with its task; empty for one whose task the account may not see."""
        listed = self._read(REQUESTS, self._ask("GET", "/api/status").json(), "/api/status")
        return [(it, _task_of(it)) for it in listed if it.name == "sky.launch"]

    def _submit(self, path: str, body: Mapping[str, object], tries: int = _TRIES) -> str:
        user = hashlib.sha256(_USER.encode()).hexdigest()[:8]
        told = {"env_vars": {"SKYPILOT_USER_ID": user, "SKYPILOT_USER": _USER}, "entrypoint_command": _USER}
        answer = self._ask("POST", path, {**told, "using_remote_api_server": True, **body}, tries=tries)
        request = answer.headers.get("X-Skypilot-Request-ID", "")
        if not request:
            raise UserError("is not an API server of SkyPilot: its answer names no request", where=self._where)
        return str(request)

    def _result(self, request: str, seconds: float = 600) -> Any:
        """What the request came to, as JSON."""
        until = time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            if left <= 0:
                raise UserError(f"request {request} has not ended after {seconds:.0f} s", where=self._where)
            answer = self._poll(request, min(_POLL_S, left))
            if answer is not None:
                break
        told = answer.json()
        # A request that failed is an error of the server, with the request as its detail.
        kept = self._read(TypeAdapter(KeptRequest), told.get("detail", told), "/api/get")
        fault = self._read(TypeAdapter(SkyFault | None), _parsed(kept.error or "null"), "/api/get")
        if fault is not None or kept.status != "SUCCEEDED":
            kind, message = (fault.type, fault.message) if fault else (f"Request{kept.status.title()}", kept.name)
            raise SkyError(kind, printable(message, _LONGEST_FAULT), where=self._where)
        return _parsed(kept.return_value)

    def _poll(self, request: str, seconds: float) -> Any:
        """The answer, once the request has ended; None where it goes on."""
        import requests

        with contextlib.suppress(requests.ReadTimeout):
            return self._ask("GET", f"/api/get?request_id={request}", read_s=seconds, failed=(500,))
        return None

    def _ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        tries: int = _TRIES,
        read_s: float = _POLL_S,
        failed: Sequence[int] = (),
    ) -> Any:
        """The answer; failed: statuses that are one. Raises `ReadTimeout` of requests too, for a GET."""
        import requests

        for number in range(tries):
            if number:
                self._wait(2.0**number)
            try:
                answer = self._session.request(
                    method,
                    f"{self._endpoint}{path}",
                    json=body,
                    timeout=(_CONNECT_S, read_s),
                    allow_redirects=False,
                )
            except requests.ReadTimeout:
                if method == "GET":
                    raise
                fault = "did not answer in time"
            except requests.RequestException as error:
                fault = f"cannot be reached: {type(error).__name__}"
            else:
                if answer.status_code == 200 or answer.status_code in failed:
                    return answer
                fault = f"answered {answer.status_code} to {path.partition('?')[0]}"
                if answer.status_code not in _LATER:
                    break
        remedy = f"check {ENDPOINT} and {TOKEN}"
        raise UserError(fault, where=self._where, remedy=remedy)

    def _read(self, shape: TypeAdapter[_Read], found: object, path: str) -> _Read:
        try:
            return shape.validate_python(found)
        except ValidationError as error:
            fault = f"{'.'.join(str(it) for it in error.errors()[0]['loc'])}: {error.errors()[0]['msg']}"
            raise UserError(f"answered {path} in another shape: {fault}", where=self._where) from None


def server_of(environment: MutableMapping[str, str] = os.environ) -> SkyServer:
    """The API server that the environment names; its token is taken out, so that nothing started later inherits it."""
    token, endpoint = environment.pop(TOKEN, "").strip(), environment.get(ENDPOINT, "").strip()
    if not endpoint:
        raise UserError(
            "is not set: a server of SkyPilot that outlives this job must know what was made",
            where=ENDPOINT,
            remedy="pass it in `env` of the step, with the address of your API server (docs/machines-sky.md)",
        )
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError("is not an address such as https://sky.example.org", where=ENDPOINT, remedy="correct it")
    if parts.scheme == "http" and not _is_here(parts.hostname):
        raise UserError(
            "is not https, so that others on the way read the credentials", where=ENDPOINT, remedy="use https"
        )
    return SkyServer(endpoint, token)


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _without_password(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _task_of(request: KeptRequest) -> str:
    try:
        return Launch.model_validate_json(request.request_body or "null").task
    except ValidationError:
        return ""


@contextlib.contextmanager
def _kept(faults: dict[str, str], name: str) -> Iterator[None]:
    """A fault of one must not keep the others."""
    try:
        yield
    except UserError as error:
        faults[name] = str(error)
