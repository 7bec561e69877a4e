"""The subject: a sandboxed interpreter that imports what the case names once, then forks for every call.

The judge talks to it over standard input and output. Each call runs in a fresh child, which the agent's
code owns wholly; the parent never imports, runs or unpickles anything of the agent's.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import os
import resource
import select
import sys
import tempfile
import time
import types
from pathlib import Path
from typing import IO, Any, BinaryIO

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.guest import codec
from bench.guest.first_process import PR_SET_CHILD_SUBREAPER, end_descendants, hide, prctl
from bench.guest.trees import clear, listing

del sys.path[0]
_LOG_BYTES = 4000


def main() -> None:
    orders = json.loads(sys.argv[1])
    workspace = orders["workspace"]
    requests, answers = _private_streams()
    # Children of the same user must not reach into this process, nor leave its tree by forking twice.
    hide()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    missing = [f"{name}: {fault}" for name in orders["preload"] if (fault := _preload(name))]
    rooms = {room: listing(room) for room in [*orders["private"], *_own_room()]}
    standing = _standing()
    codec.write_frame(answers, {"ready": not missing, "missing": missing}, [])
    while True:
        try:
            header, buffers = codec.read_frame(lambda count: _exact(requests, count))
        except EOFError:
            os._exit(0)
        answer, parts = _serve(workspace, header, buffers)
        for room, kept in rooms.items():
            clear(room, kept)
        intact = _standing() == standing
        if not intact:
            answer, parts = {"error": "changed the limits or the priority of the process that called it"}, []
        codec.write_frame(answers, answer, parts)
        if not intact:
            os._exit(0)


def _private_streams() -> tuple[BinaryIO, BinaryIO]:
    """Move the protocol away from descriptors 0 and 1, which the agent's code may use as it likes."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return requests, answers


def _own_room() -> list[str]:
    """Without a file system of its own: the job's folder, and never the machine's, whatever tempfile would choose."""
    folder = os.environ.get("TMPDIR", "")
    return [folder] if folder and Path(folder).name == os.environ.get("BENCH_JOB") and Path(folder).is_dir() else []


def _standing() -> tuple[object, ...]:
    """What every call inherits from this process, and what a process of the same user could change for the next."""
    names = sorted(name for name in dir(resource) if name.startswith("RLIMIT_"))
    limits = tuple(resource.getrlimit(getattr(resource, name)) for name in names)
    schedule = (os.sched_getaffinity(0), os.sched_getscheduler(0), os.sched_getparam(0).sched_priority)
    return (*limits, *schedule, os.getpriority(os.PRIO_PROCESS, 0))


def _preload(name: str) -> str:
    try:
        importlib.import_module(name)
    except ImportError as error:
        return str(error)
    return ""


def _serve(workspace: str, header: dict[str, Any], buffers: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """Answer one call by a fresh child; whatever the child does, an answer comes in time."""
    with tempfile.TemporaryFile() as log_file:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _child(workspace, log_file.fileno(), writer, header, buffers)
        os.close(writer)
        data, late = _collect(reader, pid, time.monotonic() + float(header["timeout"]))
        os.close(reader)
        # With whatever it has started: no call may see what another has left.
        status = end_descendants(pid)
        log = _tail(log_file)
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


def _exact(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError("cut short")
    return data


def _collect(reader: int, pid: int, deadline: float) -> tuple[bytes, bool]:
    """Everything the child writes until it ends or closes the pipe, and whether it was late."""
    data = bytearray()
    ended = os.pidfd_open(pid)
    try:
        while (left := deadline - time.monotonic()) > 0:
            ready = select.select([reader, ended], [], [], left)[0]
            part = os.read(reader, 1 << 20) if reader in ready else b""
            if ready and not part:
                return bytes(data), False
            data += part
            if len(data) > codec.MAX_FRAME:
                return b"", False
    finally:
        os.close(ended)
    return b"", True


def _tail(file: IO[bytes]) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_BYTES))
    return file.read().decode("utf-8", "replace")


def _child(workspace: str, log: int, writer: int, header: dict[str, Any], buffers: list[bytes]) -> None:
    """Run the call and answer on `writer`; never returns."""
    try:
        os.dup2(log, 1)
        os.dup2(log, 2)
        for descriptor in range(3, 256):
            if descriptor != writer:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        value, parts = codec.encode(_call(workspace, header, buffers))
        answer: dict[str, Any] = {"value": value}
    except BaseException as error:
        import traceback

        traceback.print_exc()
        answer, parts = {"error": f"{type(error).__name__}: {error}"[:2000]}, []
    with os.fdopen(writer, "wb") as stream:
        codec.write_frame(stream, answer, parts)
    os._exit(0)


def _call(workspace: str, header: dict[str, Any], buffers: list[bytes]) -> Any:
    """Import the target beside the workspace's modules and call it."""

    def file(name: str, content: bytes) -> str:
        # Two files of one name may be among the arguments.
        path = Path(tempfile.mkdtemp(prefix="inputs-")) / Path(name).name
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
