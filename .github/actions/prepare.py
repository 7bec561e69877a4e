"""Makes the environment in which the root action works: this revision of ml-dev-bench, beside its dependencies.

Standard library only, since nothing is installed yet. With the argument `sandbox` it does nothing but let bubblewrap
work on a hosted machine, which this project's own workflows need too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

OLDEST = (3, 11)
_LOG_BYTES = 4000


def main() -> None:
    """Make the environment, unless an earlier step of this job has, and name its interpreter as the output `python`."""
    if sys.argv[1:] == ["sandbox"]:
        _allow_namespaces()
        return
    if sys.version_info < OLDEST:
        _fail(f"python {sys.version.split()[0]} is too old: use actions/setup-python with 3.11 or newer")
    place = Path(os.environ["RUNNER_TEMP"]) / "ml-dev-bench" / "environment"
    source = str(Path(__file__).resolve().parents[2])
    prepared, extras, sandbox = (os.environ[f"MLDB_{it}"] for it in ("PYTHON_ENVIRONMENT", "EXTRAS", "SANDBOX"))
    if sandbox == "docker":
        # Its image is looked up and built through Docker's Python library.
        extras = f"{extras},docker".removeprefix(",")
    wanted = f"{source}\n{prepared}\n{extras}\n"
    complete = place / "complete"
    if not complete.is_file() or complete.read_text(encoding="utf-8") != wanted:
        shutil.rmtree(place, ignore_errors=True)
        _build(place, source, Path(prepared) if prepared else None, extras)
        complete.write_text(wanted, encoding="utf-8")
    if os.environ.get("RUNNER_ENVIRONMENT") == "github-hosted" and sandbox in ("auto", "bubblewrap"):
        _allow_namespaces()
    if sandbox == "docker":
        _have_image(place)
    with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as outputs:
        outputs.write(f"python={place / 'bin' / 'python'}\n")


def _build(place: Path, source: str, prepared: Path | None, extras: str) -> None:
    install = [str(place / "bin" / "python"), "-I", "-m", "pip", "install"]
    if prepared is None:
        _run(sys.executable, "-I", "-m", "venv", str(place))
        _run(*install, f"{source}[{extras}]" if extras else source)
        return
    if not (prepared / "pyvenv.cfg").is_file():
        _fail(f"python-environment: {prepared} is not a virtual environment: name the folder that holds pyvenv.cfg")
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(prepared, place, symlinks=True, copy_function=_link_or_copy)
    _run(*install, "--no-index", "--no-deps", "--no-build-isolation", "--force-reinstall", source)


def _link_or_copy(source: str, target: str) -> None:
    """A second name for the file costs nothing; pip replaces files and never writes into one."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _allow_namespaces() -> None:
    """Give a hosted machine, which is thrown away after the job, what bubblewrap needs; `auto` says what is missing."""
    if shutil.which("bwrap") is None:
        _run("sudo", "apt-get", "update", "--quiet")
        _run("sudo", "apt-get", "install", "--quiet", "--yes", "--no-install-recommends", "bubblewrap")
    if Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").exists():
        _run("sudo", "sysctl", "--write", "kernel.apparmor_restrict_unprivileged_userns=0")


def _have_image(place: Path) -> None:
    """Build the image that jobs in containers see, unless this machine has it already."""
    image = [str(place / "bin" / "python"), "-I", "-m", "bench", "image"]
    if subprocess.run([*image, "show"], stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode:
        _run(*image, "build")


def _run(*command: str) -> None:
    env = {**os.environ, "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with tempfile.TemporaryFile() as log:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, check=False)
        if done.returncode:
            log.seek(0)
            said = log.read()[-_LOG_BYTES:].decode("utf-8", "replace").strip()
            _fail(f"{' '.join(command)} ended with {done.returncode}: {said}")


def _fail(message: str) -> None:
    escaped = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    print(f"::error title=ml-dev-bench::{escaped}")
    sys.exit(2)


if __name__ == "__main__":
    main()
