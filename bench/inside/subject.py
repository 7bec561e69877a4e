"""The subject: a sandboxed interpreter that imports what the case names once, then forks for every call.

The judge talks to it over standard input and output. Each call runs in a fresh child, which the agent's
code owns wholly; the parent never imports, runs or unpickles anything of the agent's.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import os
import select
import signal
import sys
import tempfile
import time
import types
from pathlib import Path
from typing import Any, BinaryIO

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.inside import codec
from bench.inside.init import descendants

del sys.path[0]
PR_SET_DUMPABLE = 4
_LOG_BYTES = 4000
_MAX_LOG = 1 << 20


def main() -> None:
    workspace = sys.argv[1]
    requests, answers = _private_streams()
    _forbid_tracing()
    missing = [f"{name}: {fault}" for name in sys.argv[2:] if (fault := _preload(name))]
    codec.write_frame(answers, {"ready": not missing, "missing": missing}, [])

    def exactly(count: int) -> bytes:
        data = requests.read(count)
        if len(data) < count:
            os._exit(0)
        return data

    while True:
        header, buffers = codec.read_frame(exactly)
        answer, parts = _serve(workspace, header, buffers)
        codec.write_frame(answers, answer, parts)


def _private_streams() -> tuple[BinaryIO, BinaryIO]:
    """Move the protocol away from descriptors 0 and 1, which the agent's code may use as it likes."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return requests, answers


def _forbid_tracing() -> None:
    """Children of the same user must not reach into this process through /proc or ptrace."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def _preload(name: str) -> str:
    try:
        importlib.import_module(name)
    except ImportError as error:
        return str(error)
    return ""


def _serve(workspace: str, header: dict[str, Any], buffers: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """Answer one call by a fresh child; whatever the child does, an answer comes in time."""
    with tempfile.TemporaryDirectory(prefix="call-") as folder:
        log_path = Path(folder) / "log"
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _child(workspace, folder, log_path, writer, header, buffers)
        os.close(writer)
        data, late = _collect(reader, time.monotonic() + float(header["timeout"]))
        os.close(reader)
        status = _end(pid)
        log = _tail(log_path)
    if late:
        return {"error": f"took longer than {header['timeout']:g} s", "log": log}, []
    if not data:
        return {"error": f"ended without an answer (status {status})", "log": log}, []
    try:
        stream = io.BytesIO(data)
        answer, parts = codec.read_frame(lambda count: _exact(stream, count))
    except (codec.CodecError, EOFError) as error:
        return {"error": f"gave an answer that cannot be read: {error}", "log": log}, []
    return {"value": answer.get("value"), "error": answer.get("error"), "log": log}, parts


def _exact(stream: io.BytesIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError("cut short")
    return data


def _collect(reader: int, deadline: float) -> tuple[bytes, bool]:
    """Everything the child writes until it closes the pipe, and whether it was late."""
    data = bytearray()
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([reader], [], [], left)[0]:
            break
        part = os.read(reader, 1 << 20)
        if not part:
            return bytes(data), False
        data += part
        if len(data) > codec.MAX_FRAME:
            return b"", False
    return b"", True


def _end(pid: int) -> int:
    """Reap the child, and kill whatever it started: no call sees another's leftovers."""
    status = 0
    for _ in range(10_000):
        for other in descendants(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(other, signal.SIGKILL)
        try:
            ended, code = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if ended == pid:
            status = os.waitstatus_to_exitcode(code)
        elif ended == 0:
            time.sleep(0.001)
    return status


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _LOG_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _child(
    workspace: str, folder: str, log_path: Path, writer: int, header: dict[str, Any], buffers: list[bytes]
) -> None:
    """Run the call and answer on `writer`; never returns."""
    try:
        log = os.open(log_path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        for descriptor in range(3, 256):
            if descriptor != writer:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        value, parts = codec.encode(_call(workspace, folder, header, buffers))
        answer: dict[str, Any] = {"value": value}
    except BaseException as error:
        import traceback

        traceback.print_exc()
        answer, parts = {"error": f"{type(error).__name__}: {error}"[:2000]}, []
    with os.fdopen(writer, "wb") as stream:
        codec.write_frame(stream, answer, parts)
    os._exit(0)


def _call(workspace: str, folder: str, header: dict[str, Any], buffers: list[bytes]) -> Any:
    """Import the target beside the workspace's modules and call it."""

    def file(name: str, content: bytes) -> str:
        path = Path(folder) / "inputs" / Path(name).name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return str(path)

    arguments = codec.decode(header["arguments"], buffers, file)
    os.chdir(workspace)
    # At the end: a file of the agent's must not stand in for an installed library.
    sys.path.append(workspace)
    name, _, attribute = header["target"].partition(":")
    if header.get("driver") is not None:
        module = types.ModuleType("driver")
        module.__file__ = name
        source = buffers[header["driver"]]
        sys.modules["driver"] = module
        exec(compile(source, name, "exec"), module.__dict__)  # noqa: S102  the judge's own driver
    else:
        module = _load(workspace, name)
    target: Any = module
    for part in attribute.split("."):
        target = getattr(target, part)
    return target(*arguments["args"], **arguments["kwargs"])


def _load(workspace: str, name: str) -> types.ModuleType:
    path = Path(workspace, *name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            spec = importlib.util.spec_from_file_location(name, candidate)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            return module
    raise ModuleNotFoundError(f"the workspace has no module {name!r}")


if __name__ == "__main__":
    main()
