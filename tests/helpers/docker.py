"""A container engine of a test's own, which it may stop, and a small image for it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.sandbox.docker.container import IMAGE_PYTHON
from bench.sandbox.docker.engine import Engine, EngineError
from tests.helpers.cells import not_here

_START_S = 60
_LEFT_OUT = frozenset({"site-packages", "test", "idlelib", "tkinter", "ensurepip", "lib2to3"})


class OwnEngine:
    """A dockerd with folders and a socket of its own; it has no network."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Short: the engine's own helpers listen in there, and the name of a Unix socket has at most 107 bytes.
        self._exec = Path(tempfile.mkdtemp(prefix="mldb-exec-"))
        self.address = folder / "engine.sock"
        self.engine = Engine(self.address)
        self._process: subprocess.Popen[bytes] | None = None
        self._was_up = False

    @property
    def exec_root(self) -> Path:
        return self._exec

    @property
    def variables(self) -> dict[str, str]:
        return {"DOCKER_HOST": f"unix://{self.address}"}

    def start(self) -> None:
        """Start it and wait until it answers."""
        program = shutil.which("dockerd")
        if program is None or os.getuid() != 0:
            not_here("a container engine of the test's own needs root and dockerd")
        # A killed helper that nobody reaps would pass for one that runs.
        for place in (self._folder / "engine.pid", self._exec / "containerd/containerd.pid"):
            place.unlink(missing_ok=True)
        with (self._folder / "engine.log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, *self._options()], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        until = time.monotonic() + _START_S
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > until:
                said = (self._folder / "engine.log").read_text()[-1500:]
                assert not self._was_up, f"the engine does not start again: {said}"
                not_here(f"a second container engine does not start: {said}")
            time.sleep(0.1)
        self._was_up = True

    def _options(self) -> list[str]:
        folder = self._folder
        return [
            f"--data-root={folder / 'data'}",
            f"--exec-root={self._exec}",
            f"--pidfile={folder / 'engine.pid'}",
            f"--host=unix://{self.address}",
            "--bridge=none",
            "--iptables=false",
            "--ip-forward=false",
        ]

    def answers(self) -> bool:
        try:
            self.engine.call("GET", "/_ping", timeout_s=5)
        except EngineError:
            return False
        return True

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it and wait; killed, it leaves what holds its containers to the next start."""
        assert self._process is not None
        helper = (self._exec / "containerd/containerd.pid").read_text()
        self._process.send_signal(how)
        self._process.wait(60)
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(helper), how)

    def containers(self) -> list[str]:
        """Names of all containers, running or not."""
        return [item["Names"][0] for item in self.engine.call("GET", "/containers/json", query={"all": "1"})]


@contextmanager
def own_engine(folder: Path) -> Iterator[OwnEngine]:
    """A started engine; with it all its containers and helpers are gone at the end."""
    engine = OwnEngine(folder)
    engine.start()
    try:
        yield engine
    finally:
        if not engine.answers():
            engine.start()
        for name in engine.containers():
            engine.engine.remove(name.lstrip("/"))
        engine.stop()
        _tidy(folder)
        _tidy(engine.exec_root)
        shutil.rmtree(engine.exec_root, ignore_errors=True)


def _tidy(folder: Path) -> None:
    """Take away what a killed engine leaves mounted, and its data."""
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in reversed([place for place in mounted if Path(place).is_relative_to(folder)]):
        subprocess.run(["umount", "--lazy", place], check=False)
    shutil.rmtree(folder / "data", ignore_errors=True)


def import_small_image(engine: OwnEngine, folder: Path) -> str:
    """An image that holds this machine's interpreter, its standard library and a shell; returns its content id."""
    archive = folder / "image.tar"
    base, version = Path(sys.base_prefix), f"python{sys.version_info.major}.{sys.version_info.minor}"
    binary = Path(os.path.realpath(base / "bin" / version))
    library = Path(sysconfig.get_path("stdlib"))
    shell = Path(os.path.realpath("/bin/sh"))
    root = Path(IMAGE_PYTHON).parents[1]
    with tarfile.open(archive, "w") as tar:
        tar.add(library, root / "lib" / version, filter=_wanted)
        tar.add(binary, IMAGE_PYTHON)
        tar.add(shell, "/bin/sh")
        for path in _libraries([binary, shell, *(library / "lib-dynload").glob("_[cs]*.so")]):
            tar.add(os.path.realpath(path), path)
    env = {**os.environ, **engine.variables}
    done = subprocess.run(["docker", "import", str(archive)], env=env, capture_output=True, text=True, check=True)
    archive.unlink()
    return done.stdout.strip()


def _wanted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if _LEFT_OUT & set(entry.name.split("/")) else entry


def _libraries(programs: list[Path]) -> set[str]:
    """What the loader needs for these programs, by the paths at which it looks."""
    found: set[str] = set()
    for program in programs:
        done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
        found |= set(re.findall(r"(/\S+) \(0x", done.stdout))
    return found
