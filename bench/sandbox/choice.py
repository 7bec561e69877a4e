"""Which sandbox works here: the strongest is the default, the weakest must be asked for by name."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.errors import UserError
from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.job import Job, JobLimits, Mount, Sandbox
from bench.sandbox.process import ProcessSandbox

NAMES = ("auto", "bubblewrap", "process")


@dataclass(frozen=True)
class Probe:
    """Whether a back end works on this machine, and if not, why and what to do."""

    name: str
    works: bool
    detail: str
    remedy: str = ""


@functools.lru_cache(maxsize=1)
def probe_bubblewrap() -> Probe:
    """Start a real sandbox: being installed says nothing about what the kernel allows."""
    from bench.sandbox.execution import run_job

    if sys.platform != "linux":
        return Probe("bubblewrap", False, f"needs Linux, this is {sys.platform}", "use Docker")
    program = shutil.which("bwrap")
    if program is None:
        return Probe("bubblewrap", False, "bwrap is not installed", "apt-get install bubblewrap")
    folder = Mount(Path("/usr/share"), "/workspace")
    try:
        ended = run_job(BubblewrapSandbox(program), Job(("true",), (folder,), folder, JobLimits(wall_s=10)))
    except (OSError, subprocess.SubprocessError) as error:
        return Probe("bubblewrap", False, f"does not start: {error}", "see docs/concepts.md, sandboxes")
    if ended.code != 0:
        reason = ended.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
        remedy = "allow unprivileged user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0)"
        return Probe("bubblewrap", False, f"cannot make namespaces: {reason[0]}", remedy)
    return Probe("bubblewrap", True, "no network, read-only system, own processes")


def choose_sandbox(name: str) -> Sandbox:
    """The back end called `name`, or the strongest that works; raises `UserError` where none isolates."""
    if name == "process":
        return ProcessSandbox()
    probe = probe_bubblewrap()
    if probe.works:
        return BubblewrapSandbox()
    remedy = f"{probe.remedy}; or ask for --sandbox process, which does not isolate"
    raise UserError(f"no isolating sandbox works here: {probe.detail}", where="--sandbox", remedy=remedy)
