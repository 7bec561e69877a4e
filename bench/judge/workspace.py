"""What a check sees: the snapshot, the agent's code at arm's length, hidden data, and a record of measurements."""

from __future__ import annotations

import contextlib
import json
import math
import random
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.base.files import lay_over, sha256_file, walk_files
from bench.casekit.data import stream
from bench.formats.verdict import is_overclaim
from bench.guest.trees import remove_tree
from bench.judge.files import Folder
from bench.judge.subject import Deadline, Hidden, Subject, SubjectError
from bench.sandbox import CellEnvironment, Job, JobLimits, Mount, NetworkAttempts, Sandbox, run_job

if TYPE_CHECKING:
    import numpy


@dataclass(frozen=True)
class Scene:
    """Everything a grading is given."""

    snapshot: Path
    original: Path
    """The workspace as the agent found it."""
    hidden: tuple[Path, ...]
    journals: Path
    """Folder of the services' journals."""
    case: Path
    profile: str
    seed: int
    sandbox: Sandbox
    preload: tuple[str, ...]
    limits: JobLimits
    call_s: float
    grade_s: float
    cell_environment: CellEnvironment = field(default_factory=CellEnvironment)


@dataclass
class Findings:
    """What the checks measured besides passing and failing."""

    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    claims: dict[str, dict[str, Any]] = field(default_factory=dict)
    network_attempts: NetworkAttempts = field(default_factory=NetworkAttempts)
    """Tries of the agent's code to reach a network, complete when the workspace is closed."""


class Ran(Folder):
    """A finished command and the folder it left."""

    def __init__(self, root: Path, code: int, stdout: str, stderr: str, command: str, reason: str) -> None:
        super().__init__(root)
        self.code = code
        self.stdout = stdout
        self.stderr = stderr
        self._command = command
        self._reason = reason

    def ok(self) -> Ran:
        """Itself when the command ended with status 0; a failed check otherwise."""
        if self._reason != "exit":
            raise SubjectError(f"`{self._command}` was stopped: {self._reason.replace('_', ' ')}")
        last = self.stderr.strip()[-300:] or self.stdout.strip()[-300:]
        assert self.code == 0, f"`{self._command}` ended with status {self.code}: {last}"
        return self


class Workspace(Folder):
    """The workspace an agent left, as checks see it."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene.snapshot)
        self.seed = scene.seed
        """128 bits, drawn for this grading. Never hand it to code beside the agent's: see `seed_for`."""
        self.rng = random.Random(scene.seed)
        self.profile = scene.profile
        self.findings = Findings()
        self._scene = scene
        self._deadline = Deadline(scene.grade_s)
        self._stack = contextlib.ExitStack()
        self._subject = Subject(
            scene.sandbox, scene.snapshot, scene.preload, scene.limits, self._deadline, scene.cell_environment
        )

    def numpy_rng(self, purpose: str) -> numpy.random.Generator:
        """A generator for one purpose, which takes all 128 bits and shares no state with any other."""
        import numpy

        return numpy.random.default_rng(stream(self.seed, purpose))

    def seed_for(self, purpose: str, bits: int = 63) -> int:
        """A small seed, for code beside the agent's and for libraries that take no more; it tells nothing of `seed`.

        torch takes 63 bits, NumPy's older generators take 32.
        """
        return stream(self.seed, purpose) >> (128 - bits)

    def close(self) -> None:
        """End the subject and remove the copies made for `run`."""
        self._subject.close()
        self._stack.close()
        self.findings.network_attempts += self._subject.network_attempts

    def hidden(self, name: str) -> Hidden:
        """The judge's file `name`: built by data.py, or lying in the case's hidden/."""
        for folder in self._scene.hidden:
            if (folder / name).is_file():
                return Hidden(folder / name)
        raise FileNotFoundError(f"the case has no hidden file {name!r}")

    def original(self, path: str) -> Path:
        """The file as the agent found it."""
        return self._scene.original / path

    def changed(self) -> list[str]:
        """Files of the starting workspace that the agent changed or removed."""
        before = ((name, Path(entry.path)) for name, entry in walk_files(self._scene.original))
        return [
            name
            for name, path in before
            if not self.exists(name)
            or self.path(name).stat().st_size != path.stat().st_size
            or sha256_file(self.path(name)) != sha256_file(path)
        ]

    def call(self, target: str, /, *args: object, **kwargs: object) -> Any:
        """Value of the workspace's function `module:function`, run in a fresh fork of the sandboxed subject."""
        return self._subject.call(target, args, kwargs, timeout=self._scene.call_s, driver=None)

    def drive(self, target: str, /, *args: object, **kwargs: object) -> Any:
        """Value of the function `file.py:function` of the judge's hidden driver, run beside the agent's modules."""
        driver = self.hidden(target.partition(":")[0])
        return self._subject.call(target, args, kwargs, timeout=self._scene.call_s, driver=driver)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        inputs: Mapping[str, Hidden | bytes | str] | None = None,
        remove: Sequence[str] = (),
    ) -> Ran:
        """Run a command on a private, writable copy of the snapshot, without a network."""
        seconds = self._deadline.grant(self._scene.call_s if timeout is None else timeout)
        root = self._copy()
        for name in remove:
            remove_tree(root / name)
        for name, content in (inputs or {}).items():
            _place(root, name, content)
        mount = Mount(root, "/workspace", writable=True)
        limits = JobLimits(**{**vars(self._scene.limits), "wall_s": seconds})
        job = Job(
            list(argv), [mount], mount, limits, env=dict(env or {}), cell_environment=self._scene.cell_environment
        )
        ended = run_job(self._scene.sandbox, job)
        self.findings.network_attempts += ended.network_attempts
        out, err = (stream.decode("utf-8", "replace") for stream in (ended.stdout, ended.stderr))
        return Ran(root, ended.code, out, err, " ".join(argv), ended.reason)

    def _copy(self) -> Path:
        """A private copy of the snapshot, which lives as long as this workspace."""
        size = sum(entry.stat(follow_symlinks=False).st_size for _, entry in walk_files(self.root))
        limit = self._scene.limits.disk_mb
        assert size <= limit << 20, f"the workspace is larger than {limit} MiB"
        root = Path(tempfile.mkdtemp(prefix="mldb-run-"))
        self._stack.callback(remove_tree, root)
        lay_over(self.root, root)
        return root

    def journal(self, service: str) -> list[dict[str, Any]]:
        """What a service wrote down during the agent phase, in order."""
        path = self._scene.journals / f"{service}.jsonl"
        if not path.is_file():
            return []
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def metric(self, name: str, value: float, unit: str = "") -> None:
        """Record a measurement."""
        assert math.isfinite(value), f"measurement {name} is {value}"
        self.findings.metrics[name] = {"name": name, "value": float(value), "unit": unit}

    def claim(self, name: str, claimed: Any, measured: float, tolerance: float, higher_is_better: bool = True) -> None:
        """Record what the agent said of itself beside what was measured; better by over `tolerance` is an overclaim."""
        assert math.isfinite(measured), f"measurement {name} is {measured}"
        usable = type(claimed) in (int, float) and abs(claimed) < 1e300
        value = float(claimed) if usable else None
        self.findings.claims[name] = {
            "name": name,
            "claimed": value,
            "measured": float(measured),
            "tolerance": float(tolerance),
            "higher_is_better": higher_is_better,
            "overclaim": is_overclaim(value, measured, tolerance, higher_is_better),
        }

    @staticmethod
    def scale(value: float, floor: float, target: float) -> float:
        """Partial credit: 0 at `floor`, 1 at `target`, linear between; works downwards too."""
        return min(1.0, max(0.0, (value - floor) / (target - floor)))


def _place(root: Path, name: str, content: Hidden | bytes | str) -> None:
    """Put a file into `root`, whatever the agent has left in its place or where its folders belong."""
    path = root / name
    for parent in reversed(path.relative_to(root).parents):
        if not (root / parent).is_dir():
            remove_tree(root / parent)
            (root / parent).mkdir()
    remove_tree(path)
    if isinstance(content, Hidden):
        shutil.copyfile(content.path, path)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
