"""What a check sees: the snapshot, the agent's code at arm's length, hidden data, and a record of measurements."""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bench.base.errors import InfraError
from bench.base.files import sha256_file, shadows, walk_files
from bench.casekit.data import stream
from bench.casekit.services import FULL
from bench.formats.verdict import is_overclaim
from bench.guest.trees import remove_tree
from bench.judge.deadline import Deadline, Timed, over_time, raise_starved
from bench.judge.files import Folder
from bench.judge.hidden_files import Hidden
from bench.judge.ran import PrivateCopies, Ran, place
from bench.judge.scene import Findings, Scene
from bench.judge.stopwatch import Stopwatch, Timing, Work
from bench.judge.subject import Subject, forwarded
from bench.sandbox import Job, Mount, WarmProcess, run_job

if TYPE_CHECKING:
    import numpy

_READER = Hidden(Path(__file__).with_name("reader_driver.py"))


class Workspace(Folder):
    """The workspace an agent left, as checks see it."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene.snapshot)
        self.seed = scene.seed
        """128 bits, drawn for this grading. Never hand it to code beside the agent's: see `seed_for`."""
        self.rng = random.Random(scene.seed)
        self.profile = scene.profile
        self.promises = scene.promises
        """Passages of task.md that checks stand for: see `Probe` and `run_command`."""
        self.findings = Findings()
        self.remembered: dict[Any, tuple[Any, AssertionError | None]] = {}
        """What functions that are marked `once` gave, for the life of this workspace."""
        self.drawn: dict[Any, Any] = {}
        """What functions that are marked `drawn` gave."""
        self._scene = scene
        self._journals: dict[str, list[dict[str, Any]]] = {}
        """Of the agent phase, read once: checks ask for them again and again."""
        self._deadline = Deadline(scene.grade_s, scene.limits.cpus, *scene.spent)
        self.copies = PrivateCopies(self.root, scene.limits.disk_mb)
        self._subject = self._new_subject(scene.snapshot, self._deadline, scene.warm)
        self._reference: Subject | None = None

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
        """End the subjects and remove the copies made for `run`."""
        self._subject.close()
        if self._reference is not None:
            self._reference.close()
        self.copies.close()
        self.findings.network_attempts += self._subject.network_attempts

    @property
    def spent(self) -> tuple[float, float]:
        """CPU time and available time of the workspace's code so far, in seconds."""
        return self._deadline.cpu_s, self._deadline.available_s

    def _new_subject(self, snapshot: Path, deadline: Deadline, warm: WarmProcess | None = None) -> Subject:
        scene = self._scene
        return Subject(
            scene.sandbox,
            snapshot,
            scene.preload,
            scene.limits,
            deadline,
            scene.cell_environment,
            warm,
            services=scene.services,
        )

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
        return [name for name, _ in walk_files(self._scene.original) if not self._as_found(name)]

    def handed_in(self, *paths: str) -> bool:
        """Whether the agent made, changed or removed one of the files: a guard looks at what was handed in, or fails.

        Anything counts that lies at a path, such as a folder or a link in the file's place, or `shadows` it.
        """
        return any(
            not self._as_found(path) or self.shadows(path)
            if self.original(path).is_file()
            else os.path.lexists(self.root / path)
            for path in paths
        )

    def source(self, path: str, max_mb: float = 1) -> str:
        """The text of a module that the agent's code is imported from; a failed check where Python imports another."""
        beside = self.shadows(path)
        assert not beside, f"Python imports {beside[0][:80]} in place of {path}"
        return self.program(path, max_mb)

    def shadows(self, path: str) -> list[str]:
        """What the agent has put beside the module at `path` that Python imports in its place, such as a package."""
        found = (str(it.relative_to(self.root)) for it in shadows(self.path(path)))
        return sorted(it for it in found if not self.original(it).exists())

    def _as_found(self, name: str) -> bool:
        before = self.original(name)
        return (
            self.exists(name)
            and self.path(name).stat().st_size == before.stat().st_size
            and sha256_file(self.path(name)) == sha256_file(before)
        )

    def call(self, target: str, /, *args: object, **kwargs: object) -> Any:
        """Value of the workspace's function `module:function`, run in a fresh fork of the sandboxed subject."""
        return self._subject.call(target, args, kwargs, timeout=self._scene.call_s, driver=None)

    def drive(self, target: str, /, *args: object, **kwargs: object) -> Any:
        """Value of the function `file.py:function` of the judge's hidden driver, run beside the agent's modules."""
        return self._driven(self.hidden(target.partition(":")[0]), target, args, kwargs)

    def probed(self, driver: Hidden, calls: Sequence[object], name: str, source: bytes | None) -> Any:
        """Answers to the calls of a `Probe`, made by its driver with the case's own, `source`, beside it."""
        return self._driven(driver, f"{driver.path.name}:probed", (calls, name, source), {})

    def _driven(self, driver: Hidden, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._subject.call(target, args, kwargs, timeout=self._scene.call_s, driver=driver)

    def read_apart(self, target: str, folder: Folder, paths: Sequence[str], **options: Any) -> Any:
        """Value of a function of `reader_driver.py` for files of `folder`, in a call that meets no module of theirs.

        Together the files have at most `options["max_mb"]` MiB. The value is a claim: the files may subvert a parser.
        """
        most = options["max_mb"]
        files = [_Left(folder, path, most) for path in paths]
        size = sum(file.path.stat().st_size for file in files)
        assert size <= most * (1 << 20), f"{', '.join(paths[:3])}: larger than {most:g} MiB"
        arguments = (files,)
        timeout = self._scene.call_s
        return self._subject.timed_call(target, arguments, options, timeout=timeout, driver=_READER, apart=True).value

    def stopwatch(self, work: Work) -> Timing:
        """How many times faster `work` is done here than in the workspace as the agent found it.

        A failed check where a value is wrong while it is timed. See `Work` for what a case gives. Raises `InfraError`
        where the sandbox isolates, and nothing counts the time of what runs in it: a process that nobody waits for
        would be in no sum.
        """
        timing = Stopwatch(work, self._timed, self._timed_reference).compare()
        if self._scene.sandbox.isolated and not timing.trusted:
            raise InfraError("sandbox_error", "the CPU time of the cell's code cannot be counted here")
        return timing

    def _timed(self, target: str, arguments: tuple[Any, ...]) -> Timed:
        driver = self.hidden(target.partition(":")[0])
        return self._subject.timed_call(target, arguments, {}, timeout=self._scene.call_s, driver=driver, counted=True)

    def _timed_reference(self, target: str, arguments: tuple[Any, ...]) -> Timed:
        """In a sandbox that never meets the agent's files, on time that is not the agent's."""
        if self._reference is None:
            deadline = Deadline(self._scene.grade_s, self._scene.limits.cpus)
            self._reference = self._new_subject(self._scene.original, deadline)
        driver = self.hidden(target.partition(":")[0])
        try:
            return self._reference.timed_call(
                target, arguments, {}, timeout=self._scene.call_s, driver=driver, counted=True
            )
        except AssertionError as fault:
            raise RuntimeError(f"the reference of the stopwatch failed: {fault}") from None

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        inputs: Mapping[str, Hidden | bytes | str] | None = None,
        remove: Sequence[str] = (),
    ) -> Ran:
        """Run a command on a private, writable copy of the snapshot, without a network but the services of judging.

        timeout: seconds of CPU time on each processor that the case may use; `call_s` of the case by default.
        """
        granted = self._deadline.grant(self._scene.call_s if timeout is None else timeout)
        root = self.copies.make()
        for name in remove:
            remove_tree(root / name)
        for name, content in (inputs or {}).items():
            place(root, name, content)
        mount = Mount(root, "/workspace", writable=True)
        limits = replace(self._scene.limits, **vars(granted))
        sockets, addresses = forwarded(self._scene.services)
        job = Job(
            list(argv),
            [mount],
            mount,
            limits,
            env={**addresses, **(env or {})},
            sockets=sockets,
            cell_environment=self._scene.cell_environment,
        )
        ended = run_job(self._scene.sandbox, job, witness=self._deadline.witness)
        self._deadline.spend(ended.cpu_s, ended.available_s)
        if ended.reason == "starved":
            raise_starved(f"`{' '.join(argv)}`")
        if ended.reason == "disk_limit":
            self.copies.empty(root)
        self.findings.network_attempts += ended.network_attempts
        out, err = (stream.decode("utf-8", "replace") for stream in (ended.stdout, ended.stderr))
        stopped = "" if ended.reason == "exit" else over_time(ended.reason, granted, limits.cpus)
        return Ran(root, ended.code, out, err, " ".join(argv), stopped)

    def journal(self, service: str, during: Literal["agent", "judging"] = "agent") -> list[dict[str, Any]]:
        """What a service wrote down in the agent phase, or in this grading so far, in order.

        AssertionError where that is more than a journal holds (20,000 events, 8 MiB): it is not known what came after.
        """
        if during == "judging":
            return self._read_journal(service, during)
        if service not in self._journals:
            self._journals[service] = self._read_journal(service, during)
        return list(self._journals[service])

    def _read_journal(self, service: str, during: str) -> list[dict[str, Any]]:
        folder = self._scene.journals.get(during)
        path = folder / f"{service}.jsonl" if folder is not None else None
        lines = path.read_bytes().split(b"\n") if path is not None and path.is_file() else []
        events = [json.loads(line) for line in lines if line]
        assert not events or events[-1].get("event") != FULL, f"{service} was asked for more than its journal holds"
        return events

    def metric(self, name: str, value: float, unit: str = "", trusted: bool = True) -> None:
        """Record a measurement; what is not trusted says so in its unit, and stands apart from all that is."""
        assert math.isfinite(value), f"measurement {name} is {value}"
        unit = unit if trusted else f"{unit} (estimated)".strip()
        self.findings.metrics[name] = {"name": name, "value": float(value), "unit": unit}

    def claim(self, name: str, claimed: Any, measured: float, tolerance: float, higher_is_better: bool = True) -> None:
        """Record what the agent said of itself beside what was measured; better by over `tolerance` is an overclaim.

        Not for measurements that are not trusted: they convict no agent.
        """
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


class _Left(Hidden):
    """A file of the agent's on its way to a reader; it is opened as any other of these."""

    def __init__(self, folder: Folder, path: str, max_mb: float) -> None:
        super().__init__(folder.path(path))
        self._read = partial(folder.bytes, path, max_mb)

    def read_bytes(self) -> bytes:
        return self._read()
