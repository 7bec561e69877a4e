"""What the gateway adds: latency of a 20 kB chat request, calls per second on one core, memory.

    python -m tests.benchmarks.gateway_speed [--litellm PYTHON]

Latency is taken in blocks, and the best block is shown beside the whole: on a shared machine the tail of the whole is
the neighbours'. A process that only copies bytes shows what any hop costs there. The upstream is a process of its own
that answers from memory. Requests go to it directly, through the gateway, and, with the interpreter of an environment
that has litellm[proxy], through litellm's own proxy. The proxy under test is pinned to one core, everything else to the
others. Prints figures; nothing here is a test.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.gateway.budget import CellLimits
from bench.gateway.launch import GatewaySpec, open_gateway

Connect = Callable[[], http.client.HTTPConnection]
_UPSTREAM = """
import asyncio, sys
BODY = sys.stdin.buffer.readline().strip()
HEAD = b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(BODY)
async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            size = int(head.lower().split(b"content-length:")[1].split(b"\\r\\n")[0])
            await reader.readexactly(size)
            writer.write(HEAD + BODY)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)
asyncio.run(main())
"""
_COPIER = """
import asyncio, sys
async def copy(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()
async def serve(reader, writer):
    other, out = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
    await asyncio.gather(copy(reader, out), copy(other, writer))
async def main():
    server = await asyncio.start_unix_server(serve, sys.argv[1])
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)
asyncio.run(main())
"""
_BLOCKS = 5
_KEY = "sk-benchmark-0123456789abcdef"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1500)
    parser.add_argument("--parallel", type=int, default=16)
    parser.add_argument("--litellm", help="interpreter of an environment with litellm[proxy]")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, set(cores[1:]) or set(cores))
    with _upstream() as port:
        direct = _measure("direct", "m", "", lambda: http.client.HTTPConnection("127.0.0.1", port), options, None)
        with _copier(port) as (connect, pid):
            os.sched_setaffinity(pid, {cores[0]})
            _measure("copier", "m", "", connect, options, direct, pid)
        with _gateway(port) as (connect, key, pid):
            os.sched_setaffinity(pid, {cores[0]})
            _measure("gateway", "bench-main", key, connect, options, direct, pid)
            print(f"gateway: {_memory_mb(pid):.0f} MB resident after it all")
        if options.litellm:
            with _litellm(options.litellm, port) as (connect, pid):
                os.sched_setaffinity(pid, {cores[0]})
                _measure("litellm", "m", "sk-master-0123456789", connect, options, direct, pid)
                print(f"litellm: {_memory_mb(pid):.0f} MB resident after it all")


def _measure(
    name: str,
    model: str,
    key: str,
    connect: Connect,
    options: argparse.Namespace,
    direct: list[float] | None,
    pid: int = 0,
) -> list[float]:
    body = _request(model)
    before = _cpu_ms(pid)
    times = _sequential(connect, key, body, options.calls)
    size = len(times) // _BLOCKS
    best = min(_at(times[at * size : (at + 1) * size], 0.99) for at in range(_BLOCKS))
    print(f"{name}: {len(body)} bytes, median {_at(times, 0.5):.2f} ms, p99 {_at(times, 0.99):.2f} ms", end="")
    print(f" (best of {_BLOCKS} blocks {best:.2f} ms)", end="")
    if direct is not None:
        median, tail = _at(times, 0.5) - _at(direct, 0.5), _at(times, 0.99) - _at(direct, 0.99)
        print(f"; added: median {median:.2f} ms, p99 {tail:.2f} ms", end="")
    if pid:
        print(f"; {(_cpu_ms(pid) - before) / (options.calls + 20):.2f} ms of CPU a call", end="")
    share, seconds = options.calls * 2 // options.parallel, time.monotonic()
    threads = [threading.Thread(target=_sequential, args=(connect, key, body, share)) for _ in range(options.parallel)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"; {share * options.parallel / (time.monotonic() - seconds):.0f} calls/s with {options.parallel} callers")
    return times


def _sequential(connect: Connect, key: str, body: bytes, calls: int) -> list[float]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    times = []
    with contextlib.closing(connect()) as connection:
        for number in range(calls + 20):
            start = time.perf_counter()
            connection.request("POST", "/v1/chat/completions", body, headers)
            response = connection.getresponse()
            content = response.read()
            if response.status != 200:
                raise SystemExit(f"{response.status} {content[:300]!r}")
            if number >= 20:
                times.append((time.perf_counter() - start) * 1000)
    return times


def _at(times: list[float], share: float) -> float:
    return statistics.quantiles(times, n=1000)[int(share * 1000) - 1]


def _request(model: str) -> bytes:
    messages = [
        {"role": "user" if at % 2 == 0 else "assistant", "content": f"{at} " + "word " * 196} for at in range(19)
    ]
    function = {"name": "run", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}
    tools = [{"type": "function", "function": function}]
    return json.dumps({"model": model, "messages": messages, "tools": tools, "max_tokens": 1000}).encode()


@contextlib.contextmanager
def _upstream() -> Iterator[int]:
    message = {"role": "assistant", "content": "an answer of some length " * 40}
    usage = {"prompt_tokens": 5000, "completion_tokens": 200, "total_tokens": 5200}
    body = {
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage,
    }  # fmt: skip
    with subprocess.Popen([sys.executable, "-c", _UPSTREAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(body).encode() + b"\n")
        process.stdin.flush()
        yield int(process.stdout.readline())
        process.stdin.close()


def _unix(path: Path) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("gateway")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(path))
    return connection


@contextlib.contextmanager
def _copier(port: int) -> Iterator[tuple[Connect, int]]:
    """A process in the gateway's place that only copies bytes: what any hop costs on this machine at this moment."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "c.sock"
        command = [sys.executable, "-c", _COPIER, str(path), str(port)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdout.readline()
            yield lambda: _unix(path), process.pid
            process.kill()


@contextlib.contextmanager
def _gateway(port: int) -> Iterator[tuple[Connect, str, int]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spec = GatewaySpec(
            socket=folder / "g.sock", ledger=folder / "calls.jsonl", models={"main": "openai/gpt-4o-mini"},
            case="none", cassettes=None, limits=CellLimits(calls=10**9, cost_usd=1e9, deadline=time.monotonic() + 3600),
            environment={"OPENAI_API_KEY": _KEY, "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1"},
        )  # fmt: skip
        with open_gateway(spec) as gateway:
            yield lambda: _unix(spec.socket), gateway.key, gateway.pid
        assert gateway.state().error is None, gateway.state().error
        assert not math.isnan(gateway.state().usage[0].cost_usd or math.nan)


@contextlib.contextmanager
def _litellm(python: str, upstream: int) -> Iterator[tuple[Connect, int]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    parameters = {"model": "openai/gpt-4o-mini", "api_key": _KEY, "api_base": f"http://127.0.0.1:{upstream}/v1"}
    config = {"model_list": [{"model_name": "m", "litellm_params": parameters}]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        path.write_text(json.dumps(config))  # which is YAML, too
        command = [str(Path(python).with_name("litellm")), "--config", str(path), "--port", str(port)]
        env = {
            "PATH": f"{Path(python).parent}:{os.environ['PATH']}", "HOME": folder,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": "sk-master-0123456789",
        }  # fmt: skip
        quiet = subprocess.DEVNULL
        with subprocess.Popen([*command, "--host", "127.0.0.1"], env=env, stdout=quiet, stderr=quiet) as process:
            try:
                _wait_for(port)
                yield lambda: http.client.HTTPConnection("127.0.0.1", port), process.pid
            finally:
                process.terminate()


def _wait_for(port: int) -> None:
    end = time.monotonic() + 120
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def _cpu_ms(pid: int) -> float:
    """CPU time of a process so far: unlike latency it does not depend on what else runs."""
    if not pid:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def _memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


if __name__ == "__main__":
    main()
