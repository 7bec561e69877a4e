"""Makes the environment in which the Action works: this revision of ml-dev-bench, beside its dependencies.

Standard library only, since nothing is installed yet. `sandbox` does nothing but let bubblewrap work on a hosted
machine, which this project's own workflows need too; `cache` tells where the core's wheels lie and by which key they
may be cached.

What is installed is in `locks`, by version and hash. Wheels are kept in the runner's tool cache, and used by their hash
alone: whatever else another job may have written there is never installed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

OLDEST = (3, 11)
SOURCE = Path(__file__).resolve().parents[2]
LOCKS = Path(__file__).resolve().parent / "locks"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
_LOG_BYTES = 4000
_NOT_COMPILED = r"/(scipy|pygments|tests)/"
"""Large, and imported by the benchmark alone, for which Python compiles what it imports."""


def main() -> None:
    """Make the environment, unless an earlier step of this job has, and name its interpreter as the output `python`."""
    if sys.argv[1:] == ["sandbox"]:
        _allow_namespaces()
        return
    if sys.version_info < OLDEST:
        _fail(f"python {sys.version.split()[0]} is too old: use actions/setup-python with 3.11 or newer")
    if sys.argv[1:] == ["cache"]:
        folder = _wheel_folder("core")
        _tell(path=str(folder), key=f"ml-dev-bench-{folder.name}")
        return
    sandbox, prepared = _given("SANDBOX"), _given("PYTHON_ENVIRONMENT")
    environment = Environment(_temp() / "environment")
    environment.make(Path(prepared) if prepared else None)
    if not prepared:
        for name in _extras(environment.python, sandbox):
            environment.add(name)
    if os.environ.get("RUNNER_ENVIRONMENT") == "github-hosted" and sandbox in ("auto", "bubblewrap"):
        _allow_namespaces()
    if sandbox == "docker":
        _have_image(environment.python)
    _tell(python=str(environment.python))


class Environment:
    """A virtual environment that several steps of a job share; each adds what it lacks."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.python = place / "bin" / "python"
        self._complete = place / "complete"
        """What is in it: the line of its base, then a line for each lock."""

    def make(self, prepared: Path | None) -> None:
        """Make it anew, unless it is there: with the core, or as a copy of `prepared`, which has all dependencies."""
        base = f"{SOURCE} {sys.executable} {prepared or _digest('core')}"
        if self._held()[:1] == [base]:
            return
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.parent.mkdir(parents=True, exist_ok=True)
        if prepared is None:
            _run(*_uv(), "venv", "--quiet", "--no-project", "--python", sys.executable, str(self.place))
            self._install("core")
        elif (prepared / "pyvenv.cfg").is_file():
            _copy_linked(prepared, self.place)
        else:
            _fail(f"python-environment: {prepared} is not a virtual environment: name the folder that holds pyvenv.cfg")
        self._point_to_source()
        self._complete.write_text(f"{base}\n", encoding="utf-8")

    def add(self, extra: str) -> None:
        """Install the packages of an extra, unless they are there."""
        has_gpu = os.path.exists("/dev/nvidia0") or shutil.which("nvidia-smi")
        for name in [extra, *(["torch-gpu" if has_gpu else "torch-cpu"] if extra == "ml" else [])]:
            if name not in self._held()[1:]:
                self._install(name)
                with self._complete.open("a", encoding="utf-8") as file:
                    file.write(f"{name}\n")

    def _held(self) -> list[str]:
        return self._complete.read_text(encoding="utf-8").splitlines() if self._complete.is_file() else []

    def _install(self, name: str) -> None:
        lock = LOCKS / f"{name}.txt"
        command = [
            *_uv(),
            "pip",
            "install",
            "--quiet",
            "--python",
            str(self.python),
            "--no-deps",
            "--only-binary=:all:",
        ]
        command += ["--requirement", str(lock), *(["--require-hashes"] if _hashes(name) else [])]
        if name == "torch-gpu":
            # Gigabytes, which are not kept.
            index = os.environ.get("PIP_INDEX_URL")
            _run(*command, *(["--default-index", index] if index else []))
        else:
            offline = ["--offline", "--no-index", "--find-links"]
            # A store that is not complete is completed, and then it must do.
            if _failed(*command, *offline, str(_wheels(name))):
                _run(*command, *offline, str(_wheels(name, anew=True)))
        compiled = [str(self.python), "-I", "-m", "compileall", "-q", "-q", "-j", "0", "-x", _NOT_COMPILED]
        _failed(*compiled, str(self._packages()))

    def _packages(self) -> Path:
        return next((self.place / "lib").glob("python3*")) / "site-packages"

    def _point_to_source(self) -> None:
        """Let the environment import this revision, and no other that a prepared environment may hold."""
        packages = self._packages()
        for old in (
            packages / "bench",
            *packages.glob("ml_dev_bench-*.dist-info"),
            *packages.glob("*ml_dev_bench*.pth"),
        ):
            shutil.rmtree(old, ignore_errors=True) if old.is_dir() else old.unlink(missing_ok=True)
        (packages / "ml_dev_bench.pth").write_text(f"{SOURCE}\n", encoding="utf-8")


def _extras(python: Path, sandbox: str) -> list[str]:
    """The extras that were asked for, else those that the agents and the cases need."""
    asked = _given("EXTRAS")
    if not asked:
        command = [str(python), "-I", "-m", "bench", "action", "extras"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            # Its last lines are the annotation.
            sys.stdout.write(done.stdout)
            sys.stderr.write(done.stderr[-_LOG_BYTES:])
            sys.exit(done.returncode)
        asked = done.stdout
    names = {it.strip() for it in re.split(r"[,\s]", asked)} - {""}
    # The docker sandbox's image is looked up and built through Docker's Python library.
    names |= {"docker"} if sandbox == "docker" else set()
    known = {path.stem for path in LOCKS.glob("*.txt")} - {"core", "tools", "torch-cpu", "torch-gpu"}
    if unknown := sorted(names - known):
        _fail(f"extras: {unknown[0]!r} is not an extra: known are {', '.join(sorted(known))}")
    return sorted(names)


def _wheels(name: str, *, anew: bool = False) -> Path:
    """The folder with the wheels of a lock. What the lock does not name by its hash is removed from it."""
    folder, hashes = _wheel_folder(name), _hashes(name)
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir() if hashes else ():
        plain = path.is_file() and not path.is_symlink()
        if not plain or hashlib.sha256(path.read_bytes()).hexdigest() not in hashes:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    if not anew and any(folder.iterdir()):
        return folder
    with tempfile.TemporaryDirectory(dir=folder.parent) as new:
        for lock in _lock_files(name):
            command = [*_pip(), "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", new]
            command += ["--index-url", TORCH_INDEX] if name == "torch-cpu" else []
            _run(*command, *(["--require-hashes"] if hashes else []), "--requirement", str(lock))
        for path in Path(new).iterdir():
            # Whole or not at all: other jobs of this machine may use the same store.
            path.replace(folder / path.name)
    return folder


def _wheel_folder(name: str) -> Path:
    """Where wheels of this lock for this interpreter lie; without hashes nowhere that outlives the job."""
    store = _temp()
    if _hashes(name) and (tools := os.environ.get("RUNNER_TOOL_CACHE")):
        with contextlib.suppress(OSError):
            os.makedirs(f"{tools}/ml-dev-bench", exist_ok=True)
        store = Path(tools, "ml-dev-bench") if os.access(f"{tools}/ml-dev-bench", os.W_OK) else store
    system = f"{platform.system()}-{platform.machine()}-py{sys.version_info[0]}.{sys.version_info[1]}".lower()
    return store / "wheels" / f"{name}-{system}-{_digest(name)}"


def _lock_files(name: str) -> list[Path]:
    # The installer comes with the core.
    return [LOCKS / f"{it}.txt" for it in (("tools", name) if name == "core" else (name,))]


def _lock_text(name: str) -> str:
    return "".join(lock.read_text(encoding="utf-8") for lock in _lock_files(name))


def _digest(name: str) -> str:
    return hashlib.sha256(_lock_text(name).encode()).hexdigest()[:12]


def _hashes(name: str) -> set[str]:
    return set(re.findall(r"--hash=sha256:([0-9a-f]{64})", _lock_text(name)))


def _uv() -> list[str]:
    """The installer out of its wheel, with settings of its own only."""
    program = _temp() / "uv"
    if not program.exists():
        found = sorted(_wheels("core").glob("uv-*.whl")) or sorted(_wheels("core", anew=True).glob("uv-*.whl"))
        with zipfile.ZipFile(found[0]) as wheel:
            inside = next(name for name in wheel.namelist() if name.endswith(".data/scripts/uv"))
            new = program.with_name(f".uv-{os.getpid()}")
            with wheel.open(inside) as source, new.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
        new.chmod(0o755)
        new.replace(program)
    return [str(program), "--no-config", "--cache-dir", str(_temp() / "uv-cache")]


def _pip() -> list[str]:
    """A pip: that of the interpreter or, where it has none, one of an environment made for it."""
    if not _failed(sys.executable, "-I", "-m", "pip", "--version"):
        return [sys.executable, "-I", "-m", "pip"]
    place = _temp() / "pip"
    if not (place / "bin" / "pip").exists():
        _run(sys.executable, "-I", "-m", "venv", str(place))
    return [str(place / "bin" / "python"), "-I", "-m", "pip"]


def _copy_linked(source: Path, target: Path) -> None:
    """A second name for a file costs nothing; what is replaced in the copy leaves the other alone."""
    if not _failed("cp", "--archive", "--link", f"{source}/.", str(target)):
        return
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)


def _temp() -> Path:
    folder = Path(os.environ["RUNNER_TEMP"]) / "ml-dev-bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _given(name: str) -> str:
    return os.environ.get(f"MLDB_{name}", "").strip()


def _tell(**outputs: str) -> None:
    with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as file:
        file.write("".join(f"{name}={value}\n" for name, value in outputs.items()))


def _allow_namespaces() -> None:
    """Give a hosted machine, which is thrown away after the job, what bubblewrap needs; `auto` says what is missing."""
    if shutil.which("bwrap") is None:
        _run("sudo", "apt-get", "update", "--quiet")
        _run("sudo", "apt-get", "install", "--quiet", "--yes", "--no-install-recommends", "bubblewrap")
    if Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").exists():
        _run("sudo", "sysctl", "--write", "kernel.apparmor_restrict_unprivileged_userns=0")


def _have_image(python: Path) -> None:
    """Build the image that jobs in containers see, unless this machine has it already."""
    image = [str(python), "-I", "-m", "bench", "image"]
    if subprocess.run([*image, "show"], stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode:
        _run(*image, "build")


def _run(*command: str) -> None:
    if said := _failed(*command):
        _fail(f"{' '.join(command)} {said}")


def _failed(*command: str) -> str:
    """How a program failed, with its last words; empty when it did not."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("UV_")}
    env |= {"PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with tempfile.TemporaryFile() as log:
        try:
            code = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, check=False
            ).returncode
        except OSError as error:
            return f"cannot be started: {error}"
        log.seek(0)
        return f"ended with {code}: {log.read()[-_LOG_BYTES:].decode('utf-8', 'replace').strip()}" if code else ""


def _fail(message: str) -> None:
    escaped = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    print(f"::error title=ml-dev-bench::{escaped}")
    sys.exit(2)


if __name__ == "__main__":
    main()
