"""Ways in which an agent may try to have its cell lost: small scripts, and what its provider does to what they ask.

Add a row to `WAYS`. A script runs as the agent, after `PRELUDE`; `provider` answers its requests, and a way is beaten
when the cell is graded. `OUTAGES` are the opposite: what a provider does when it is really down.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.helpers.provider import Reply, Usage

PRELUDE = """
import json, os, signal, socket, struct, subprocess, sys, threading, time, urllib.error, urllib.parse, urllib.request
base, key = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
where = urllib.parse.urlsplit(base)

def body(content="poison", **more):
    said = [{"role": "user", "content": content}]
    return {"model": os.environ["BENCH_MODEL"], "messages": said, "max_tokens": 50} | more

def ask(data=None, path="chat/completions", timeout=60):
    raw = data if isinstance(data, bytes) else json.dumps(body() if data is None else data).encode()
    request = urllib.request.Request(f"{base}/{path}", raw, {"Authorization": f"Bearer {key}"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()

def raw(data, path="chat/completions", length=None):
    link = socket.create_connection((where.hostname, where.port))
    head = f"POST /v1/{path} HTTP/1.1\\r\\nHost: x\\r\\nAuthorization: Bearer {key}\\r\\n"
    head += f"Content-Length: {len(data) if length is None else length}\\r\\n\\r\\n"
    link.sendall(head.encode() + data)
    return link

def reset(link):
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    link.close()

def at_once(what, count):
    them = [threading.Thread(target=what) for _ in range(count)]
    for it in them: it.start()
    for it in them: it.join()

def stream(**more):
    return raw(json.dumps(body(stream=True, **more)).encode())
"""
CUT_OFF = "link = stream()\nlink.recv(100)\n"
"""An agent in the middle of its stream."""
GOOD = Reply("fine", usage=Usage(20, 5))
LONG = Reply("word " * 20_000, usage=Usage(20, 5000))
_PROBE = "Reply with the word OK."

Script = Callable[[dict[str, Any], str], Reply]


def is_probe(request: dict[str, Any]) -> bool:
    """Whether this request is the gateway's own."""
    return _PROBE in json.dumps(request)


def always(reply: Reply) -> Script:
    """A provider that answers everything with `reply`."""
    return lambda request, protocol: reply


def poisoned(reply: Reply) -> Script:
    """A provider that works, but answers with `reply` what the agent has prepared for it."""
    return lambda request, protocol: reply if "poison" in json.dumps(request) else GOOD


@dataclass(frozen=True)
class Way:
    """One way to be lost."""

    script: str
    provider: Script = field(default=poisoned(GOOD))
    needs: str = ""
    """A back end without which it is not to be tried: `isolated`."""
    case: dict[str, Any] = field(default_factory=dict)
    """Facts of the case."""


def _refusals() -> dict[str, Way]:
    tail = "{}\nsys.exit(1)"
    ways = {
        f"poisoned request, status {status}": Way(tail.format("ask()"), poisoned(Reply(status=status, error="no")))
        for status in (400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 501, 502, 503, 529, 301)
    }
    odd = {
        "answer cut": Reply("word " * 50, cut=0.5), "answer garbage": Reply(raw=b"<html>"),
        "no money": Reply(status=429, error="insufficient_quota"), "empty object": Reply(raw=b"{}"),
        "wait an hour": Reply(status=429, headers={"Retry-After": "3600"}), "hanging": Reply(hang_s=4.0),
    }  # fmt: skip
    ways |= {f"poisoned request, {name}": Way(tail.format("ask()"), poisoned(reply)) for name, reply in odd.items()}
    cut = poisoned(Reply("word " * 400, cut=0.5))
    ways["poisoned stream that breaks, then status 1"] = Way("stream().makefile('rb').read()\nsys.exit(1)", cut)
    return ways


def _unoffered(request: dict[str, Any], protocol: str) -> Reply:
    return GOOD if protocol == "chat" and not request.get("stream") else Reply(status=500, error="unknown path")


def _own_rate() -> Script:
    """Refuses for its rate whatever comes within a moment of the agent's own calls."""
    import time

    last = [0.0]

    def script(request: dict[str, Any], protocol: str) -> Reply:
        if is_probe(request):
            return Reply(status=429) if time.monotonic() - last[0] < 0.03 else GOOD
        last[0] = time.monotonic()
        return Reply(status=429)

    return script


WAYS: dict[str, Way] = {
    **_refusals(),
    "resets its stream and exits 1": Way(CUT_OFF + "reset(link)\nsys.exit(1)", always(LONG)),
    "resets its stream at once": Way("reset(stream())\nsys.exit(1)", always(LONG)),
    "resets a hanging call": Way(
        "link = raw(json.dumps(body()).encode())\ntime.sleep(0.3)\nreset(link)\nsys.exit(1)",
        poisoned(Reply(hang_s=3.0)),
    ),
    "half-closes its stream": Way(CUT_OFF + "link.shutdown(socket.SHUT_WR)\nsys.exit(1)", always(LONG)),
    "reads its stream slowly, then dies": Way(CUT_OFF + "time.sleep(1)\nos.kill(os.getpid(), 9)", always(LONG)),
    "sends garbage": Way("raw(b'\\x00' * 1000, length=10).recv(100)\nsys.exit(1)"),
    "is not HTTP": Way(
        "link = socket.create_connection((where.hostname, where.port))\nlink.sendall(os.urandom(5000))\nsys.exit(1)"
    ),
    "never ends its body": Way("link = raw(b'{', length=1000)\ntime.sleep(0.5)\nsys.exit(1)"),
    "resets in its body": Way("reset(raw(b'{', length=1000))\nsys.exit(1)"),
    "body too large": Way("try: ask(b' ' * 21_000_000)\nexcept OSError: pass\nsys.exit(1)"),
    "bodies of millions of values": Way(
        """
many = b'{"model":"bench-main","messages":[' + b'{},' * 6_000_000 + b'{}]}'
def go():
    try: ask(many)
    except OSError: pass
at_once(go, 4)
sys.exit(1)
"""
    ),
    "hundreds of connections": Way(
        """
links = []
try:
    for _ in range(400): links.append(socket.create_connection((where.hostname, where.port)))
except OSError: pass
sys.exit(1)
"""
    ),
    "broken JSON": Way("ask(b'{' * 1000)\nask(b'\\xff')\nsys.exit(1)"),
    "another model": Way("ask(body() | {'model': 'gpt-9'})\nsys.exit(1)"),
    "a protocol that is not offered": Way(
        "ask({'model': 'bench-main', 'input': 'poison', 'max_output_tokens': 50}, 'responses')\nsys.exit(1)", _unoffered
    ),
    "streaming that is not offered": Way("ask(body(stream=True))\nsys.exit(1)", _unoffered),
    "embeddings of a model without": Way(
        "ask({'model': 'bench-main', 'input': ['poison']}, 'embeddings')\nsys.exit(1)", _unoffered
    ),
    "its own rate": Way("at_once(ask, 8)\nsys.exit(1)", _own_rate()),
    "kills itself": Way("os.kill(os.getpid(), 9)"),
    "exits with 137": Way("sys.exit(137)"),
    "kills its parent": Way("os.kill(os.getppid(), 9)\ntime.sleep(0.5)\nsys.exit(1)"),
    "kills all it may": Way("os.kill(-1, 9)", needs="isolated"),
    "dies while a call is under way": Way(
        "threading.Thread(target=ask, daemon=True).start()\ntime.sleep(0.5)\nos._exit(1)", poisoned(Reply(hang_s=3.0))
    ),
    "over its time with a call under way": Way(
        "ask()\ntime.sleep(60)", poisoned(Reply(hang_s=30.0)), case={"limits": {"agent_s": 2}}
    ),
    "over its memory": Way("held = [bytearray(1 << 20) for _ in range(2000)]\ntime.sleep(5)"),
    "over its disk": Way(
        """
for n in range(40):
    with open(f'big{n}', 'wb') as f: f.write(b'x' * (4 << 20))
time.sleep(3)
"""
    ),
    "threads without end": Way(
        """
try:
    while True: threading.Thread(target=time.sleep, args=(9,), daemon=True).start()
except RuntimeError: pass
os._exit(1)
"""
    ),
    "floods its output": Way("for _ in range(3000): sys.stdout.write('x' * 100_000)"),
    "asks after its steps": Way("for _ in range(6): ask(body('fine'))\nsys.exit(1)", case={"limits": {"steps": 2}}),
    "crashes at once": Way("sys.exit(1)"),
}

OUTAGES: dict[str, Script | str] = {
    **{f"status {it} for all": always(Reply(status=it)) for it in (500, 502, 503, 504, 529, 401, 402, 403, 404)},
    "429 for all": always(Reply(status=429)),
    "429 for all, wait an hour": always(Reply(status=429, headers={"Retry-After": "3600"})),
    "no key": always(Reply(status=400, error="API key not valid. Please pass a valid API key.")),
    "no money": always(Reply(status=400, error="Your credit balance is too low")),
    "quota": always(Reply(status=429, error="insufficient_quota")),
    "hanging": always(Reply(hang_s=30.0)),
    "all cut": always(Reply("word " * 100, cut=0.4)),
    "all cut at once": always(Reply(cut=0.0)),
    "garbage": always(Reply(raw=b"<html>maintenance</html>")),
    "redirects": always(Reply(status=301)),
    "refused connections": "refused",
    "bytes that are not HTTP": "garbage",
}  # fmt: skip
"""A script, or what listens at the provider's address instead of it."""
