"""The call: imports the agent's code beside the judge's driver, calls it once, and answers.

In a fork of the warm process, or as a program that answers one call by its standard streams. Either way the process is
the agent's from here on, and its answer no more than a claim.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import json
import os
import runpy
import socket
import sys
import tempfile
import threading
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.guest import codec

if __name__ == "__main__":
    del sys.path[0]


def answer_call(workspace: str, connection: socket.socket) -> NoReturn:
    """Read one request from `connection`, carry it out and answer."""
    with connection.makefile("rb") as requests, connection.makefile("wb") as answers:
        _answer(workspace, requests, answers)


def run_program(workspace: str, argv: Sequence[str]) -> NoReturn:
    """Be `python FILE ARGUMENT...` in the folder `workspace`, but for what this process has imported before."""
    os.chdir(workspace)
    sys.argv = list(argv)
    sys.path.insert(0, str(Path(argv[0]).resolve().parent))
    try:
        runpy.run_path(argv[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        status = _status(end.code)
    except BaseException:
        import traceback

        traceback.print_exc()
        status = 1
    # As an interpreter does at its end: a client may have left its last words to a thread or a handler.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _status(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _answer(workspace: str, requests: BinaryIO, answers: BinaryIO) -> NoReturn:
    header, buffers = codec.read_frame(lambda count: _exact(requests, count))
    try:
        value, parts = codec.encode(_call(workspace, header, buffers))
        answer: dict[str, Any] = {"value": value}
    except BaseException as error:
        import traceback

        traceback.print_exc()
        answer, parts = {"error": f"{type(error).__name__}: {error}"[:2000]}, []
    codec.write_frame(answers, answer, parts)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _exact(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError("cut short")
    return data


def _call(workspace: str, header: dict[str, Any], buffers: list[bytes]) -> Any:
    """Import the target beside the workspace's modules and call it."""

    def file(name: str, content: bytes) -> str:
        # Two files of one name may be among the arguments.
        path = Path(tempfile.mkdtemp(prefix="inputs-")) / Path(name).name
        path.write_bytes(content)
        return str(path)

    arguments = codec.decode(header["arguments"], buffers, file)
    if header.get("apart"):
        os.chdir("/")
    else:
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


def main() -> None:
    """Answer one call by the standard streams, in a sandbox that was started for it."""
    orders = json.loads(sys.argv[1])
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    missing = []
    for module in orders["preload"]:
        try:
            importlib.import_module(module)
        except ImportError as error:
            missing.append(f"{module}: {error}")
    # Before any code of the agent's runs.
    codec.write_frame(answers, {"missing": missing}, [])
    _answer(orders["workspace"], requests, answers)


if __name__ == "__main__":
    main()
