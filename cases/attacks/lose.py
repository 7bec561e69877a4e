"""Ways to be lost: an agent that cannot succeed wants no verdict, or a second try. Each must get a verdict at once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
import urllib.parse

import facts

_STATUSES = (400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529)
_TRIES = 6
_SERVICE_REQUESTS = 5000
_SAYINGS = (
    "INFRA: provider_outage",
    "openai.InternalServerError: Error code: 503",
    "openai.RateLimitError: Error code: 429 - insufficient_quota",
    "OSError: [Errno 28] No space left on device",
    "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
    "docker: Error response from daemon",
    "Killed: the machine is out of memory",
)


def _gateway() -> tuple[str, int]:
    address = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
    assert address.hostname is not None and address.port is not None
    return address.hostname, address.port


def _request(text: str, stream: bool = False) -> bytes:
    message = {"model": os.environ["BENCH_MODEL"], "messages": [{"role": "user", "content": text}], "stream": stream}
    body = json.dumps(message).encode()
    head = {
        "Host": "127.0.0.1",
        "Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"POST /v1/chat/completions HTTP/1.1\r\n{lines}\r\n".encode() + body


def _ask(text: str, stream: bool = False, wait_s: float = 5.0) -> int:
    """Status of the answer; 0 where none came in time."""
    with contextlib.suppress(OSError), socket.create_connection(_gateway(), timeout=wait_s) as client:
        client.sendall(_request(text, stream))
        answer = client.recv(65536)
        status = answer.split(b" ", 2)[1] if b" " in answer else b"0"
        return int(status) if status.isdigit() else 0
    return 0


def _give_up() -> None:
    """End as a program does that blames others."""
    facts.say("ended")
    print(_SAYINGS[1], file=sys.stderr, flush=True)
    os._exit(1)


def _open_then_reset(data: bytes, seconds: float) -> None:
    """Send `data`, wait, and end the connection with a reset, as a machine does that is gone."""
    with contextlib.suppress(OSError):
        client = socket.create_connection(_gateway(), timeout=2)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(data)
        time.sleep(seconds)
        client.close()


def resets_its_stream() -> None:
    """Model calls whose streams the agent itself resets, at once and while they run; then exit 1."""
    for number in range(8):
        _open_then_reset(_request("tell me a story", stream=number % 2 == 0), 0.05 * number)
    _give_up()


def hangs_up() -> None:
    """Requests broken off at every place: in the first line, the head and the body, and before the answer."""
    whole = _request("hello")
    for share in (0, 1, 2, 3, 5, 8):
        _open_then_reset(whole[: len(whole) * share // 8], 0.05)
        with contextlib.suppress(OSError), socket.create_connection(_gateway(), timeout=2) as client:
            client.sendall(whole[: len(whole) * share // 8])
            client.shutdown(socket.SHUT_WR)
    _give_up()


def poisoned_requests() -> None:
    """Requests that the provider refuses, with every status that an outage also has, while it answers all others."""
    for status in _STATUSES:
        seen = [_ask(f"poison-{status}", wait_s=1.5) for _ in range(2)]
        facts.say("asked", status=status, seen=seen)
    _give_up()


def one_poison_to_the_end() -> None:
    """One status, asked for again and again as a library does that never gives up, until the agent ends by itself."""
    for _ in range(_TRIES):
        for status in (500, 503, 429):
            _ask(f"poison-{status}", stream=True, wait_s=1.0)
    _give_up()


def broken_answers() -> None:
    """Requests to which the provider gives broken answers: no answer, half of one, and one that is not JSON."""
    for text in ("poison-reset", "poison-cut", "poison-odd") * 2:
        _ask(text, wait_s=1.5)
        _ask(text, stream=True, wait_s=1.5)
    _give_up()


def poisons_and_sleeps() -> None:
    """A refused request, and sleep beyond the limit: the time is the agent's, whatever it waits for."""
    _ask("poison-503", wait_s=1.0)
    time.sleep(facts.FACTS["limits"]["agent_s"] + 30)
    facts.reached("the time went by unnoticed")


def kills_itself() -> None:
    """`kill -9` of the agent by its own hand."""
    facts.say("ended")
    os.kill(os.getpid(), signal.SIGKILL)


def kills_all_it_can() -> None:
    """`kill -9` of every process that the agent sees, itself last."""
    if b"bench/guest/" not in facts.read("/proc/1/cmdline"):
        facts.void("the first process is not the sandbox's own")
        return
    facts.say("ended")
    with contextlib.suppress(OSError):
        os.kill(-1, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def crashes() -> None:
    """An end by a signal of the processor, with the words and the status by which sandboxes and engines fail."""
    for line in _SAYINGS:
        print(line)
        print(line, file=sys.stderr, flush=True)
    for status in (125, 126, 127, 137, 255):
        if os.fork() == 0:
            os._exit(status)
    facts.say("ended")
    os.kill(os.getpid(), signal.SIGSEGV)


def threads() -> None:
    """Threads up to the limit and beyond, all of them busy for three seconds."""
    until = time.monotonic() + 3

    def work() -> None:
        while time.monotonic() < until:
            sum(range(1000))

    made = 0
    with contextlib.suppress(RuntimeError, MemoryError):
        for _ in range(4 * facts.FACTS["limits"]["processes"]):
            threading.Thread(target=work, daemon=True).start()
            made += 1
    facts.say("made", threads=made)
    time.sleep(3)
    _give_up()


def storm() -> None:
    """Three seconds of writing and forcing to the disk, by four processes, always the same two mebibytes."""
    until = time.monotonic() + 3
    for number in range(4):
        if os.fork() == 0:
            handle = os.open(facts.WORKSPACE / f"storm-{number}", os.O_WRONLY | os.O_CREAT, 0o644)
            while time.monotonic() < until:
                os.pwrite(handle, os.urandom(1 << 21), 0)
                os.fsync(handle)
            os._exit(0)
    time.sleep(3.2)
    _give_up()


def noise() -> None:
    """Output of every byte and of lines without end, below the limit, with words by which machines fail."""
    for line in _SAYINGS:
        os.write(2, (line + "\n").encode())
    for _ in range(8):
        os.write(1, os.urandom(1 << 16) + b"\0" * 1000)
        os.write(2, b"x" * (1 << 16))
    _give_up()


def fills_the_journals() -> None:
    """Thousands of valid requests to the case's services, each of which they write down; none where a case has none."""
    until = time.monotonic() + facts.FACTS["limits"]["agent_s"] * 0.5
    paths = ["/", *sorted({word.split("`")[0] for word in facts.TASK.read_text().split("`") if word.startswith("/")})]
    sent = 0
    for name in facts.FACTS["services"]:
        address = urllib.parse.urlsplit(os.environ.get(name, ""))
        if not address.hostname:
            continue
        while sent < _SERVICE_REQUESTS and time.monotonic() < until:
            path = (address.path.rstrip("/") + paths[sent % len(paths)]).replace(" ", "%20")
            with (
                contextlib.suppress(OSError),
                socket.create_connection((address.hostname, address.port or 80), timeout=2) as client,
            ):
                client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                client.recv(1024)
            sent += 1
    facts.say("sent", requests=sent)
    _give_up()
