"""Which sandbox works here: the strongest is the default, the weakest must be asked for by name."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.base.errors import InfraError, UserError
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.cgroup_location import Probe
from bench.sandbox.docker.backend import DockerSandbox
from bench.sandbox.docker.client import find_engine
from bench.sandbox.docker.container import sweep
from bench.sandbox.docker.engine import Engine, EngineError
from bench.sandbox.docker.images import IMAGE_VARIABLE, shared_image
from bench.sandbox.job import Job, JobLimits, Mount, Sandbox
from bench.sandbox.own_limits import make_room
from bench.sandbox.process import ProcessSandbox

NAMES = ("auto", "docker", "bubblewrap", "process")
_UNIX = "unix://"
_SEE = "see docs/concepts.md, sandboxes"
_TRIAL_S = 60.0
"""Of wall time: a busy machine takes seconds for what else takes milliseconds."""


@functools.lru_cache(maxsize=1)
def probe_bubblewrap() -> Probe:
    """Start a real sandbox: being installed says nothing about what the kernel allows."""
    if sys.platform != "linux":
        return Probe(False, f"needs Linux, this is {sys.platform}", "use Docker")
    program = shutil.which("bwrap")
    if program is None:
        return Probe(False, "bwrap is not installed", "apt-get install bubblewrap")
    try:
        code, last = _trial(BubblewrapSandbox(program), ["true"])
    except (OSError, subprocess.SubprocessError, InfraError) as error:
        return Probe(False, f"does not start: {error}", _SEE)
    if code != 0:
        remedy = "allow unprivileged user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0)"
        return Probe(False, f"cannot make namespaces: {last}", remedy)
    return Probe(True, "no network, read-only system, own processes")


def probe_docker() -> Probe:
    """Whether an engine answers, has the image, and starts a container of it."""
    try:
        return _probe_docker(find_engine().address, os.environ.get(IMAGE_VARIABLE, ""))
    except UserError as error:
        return Probe(False, error.fault, error.remedy)


@functools.lru_cache(maxsize=8)
def _probe_docker(socket: Path, image: str) -> Probe:
    # The image is read from the environment again; here it only makes the answers of two images two.
    del image
    try:
        sandbox = DockerSandbox(Engine(socket))
        code, last = _trial(sandbox, ["python", "-c", "pass"])
    except (OSError, subprocess.SubprocessError, InfraError) as error:
        return Probe(False, str(error), _SEE)
    if code != 0:
        return Probe(False, f"a container ended with status {code}: {last}")
    return Probe(True, f"image {sandbox.image[7:19]}")


def _trial(sandbox: Sandbox, argv: list[str]) -> tuple[int, str]:
    """The status of a small job, and the last line that it said. `InfraError` where it did not come to its end."""
    from bench.sandbox.running import run_job

    folder = Mount(Path("/usr/share"), "/workspace")
    ended = run_job(sandbox, Job(argv, (folder,), folder, JobLimits(wall_s=_TRIAL_S)))
    if ended.reason != "exit":
        raise InfraError("sandbox_error", f"{argv[0]} did not end within {_TRIAL_S:g} s on this machine")
    lines = ended.stderr.decode(errors="replace").strip().splitlines()
    return ended.code, lines[-1] if lines else "no message"


def choose_sandbox(name: str) -> Sandbox:
    """The back end called `name`, or the strongest that works; raises `UserError` where none isolates.

    Containers that killed runners have left are removed.
    """
    make_room()
    if name == "process":
        return ProcessSandbox()
    docker = Probe(False, "not asked for") if name == "bubblewrap" else probe_docker()
    if docker.works:
        try:
            sweep(find_engine())
        except EngineError as error:
            raise UserError(str(error), where="docker", remedy="look at the engine's log") from None
        return DockerSandbox()
    if name == "docker":
        raise UserError(docker.detail, where="--sandbox", remedy=docker.remedy)
    probe = probe_bubblewrap()
    if probe.works:
        return BubblewrapSandbox()
    ways = (probe.remedy, docker.remedy, "ask for --sandbox process, which does not isolate")
    remedy = "; or ".join(filter(None, ways))
    faults = probe.detail if name == "bubblewrap" else f"{probe.detail}; {docker.detail}"
    raise UserError(f"no isolating sandbox works here: {faults}", where="--sandbox", remedy=remedy)


def open_sandbox(name: str, environment: Mapping[str, str] = os.environ) -> Sandbox:
    """The back end of this name as it was chosen in another process, whose `handed_on` is in `environment`."""
    make_room()
    if name == "docker":
        address = environment.get("DOCKER_HOST", "")
        engine = Engine(Path(address.removeprefix(_UNIX))) if address.startswith(_UNIX) else None
        return DockerSandbox(engine, environment.get(IMAGE_VARIABLE) or None)
    return ProcessSandbox() if name == "process" else BubblewrapSandbox()


def handed_on(name: str) -> dict[str, str]:
    """Variables by which another process opens the same sandbox; raises `InfraError` when that is not there now."""
    if name != "docker":
        return {}
    try:
        engine = find_engine()
        return {"DOCKER_HOST": f"unix://{engine.address}", IMAGE_VARIABLE: shared_image(engine.image_id)}
    except UserError as error:
        raise InfraError("sandbox_error", str(error)) from None
