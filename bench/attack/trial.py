"""One trial: attacks carried out in a real cell, and the evidence of everything that they achieved."""

from __future__ import annotations

import contextlib
import json
import re
import resource
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.attack.catalogue import Attack, Base
from bench.attack.leaks import acting_text, changes, containers_of, processes_with
from bench.attack.stage import Stage, Task, make_agent
from bench.base.errors import InfraError
from bench.cell import run_cell
from bench.formats.case import Case
from bench.formats.plan import Cell
from bench.formats.record import Record
from bench.guest.trees import remove_tree
from bench.sandbox import Job, JobLimits, Mount, Sandbox, run_job

_MEMORY_MB = 300.0
"""Growth of the runner in one trial that is still normal."""
_LARGEST_MB = 4096.0
"""Of any process that reads what an agent left."""
_RECALLED = re.compile(r"mldb-recalled-([a-z_]+)")
_MAX_SAID = 4 << 20
_SLOW = "snapshot and judgement took"
_PARTLY = re.compile(r"\w+ is worth 0\.[0-9]+ in place of ")
_CHANCE = 0.1
"""Difference of partial credit between two gradings that is still normal: each draws inputs of its own."""

Baseline = dict[str, float]
"""The verdict on the same workspace without an attack, by check; empty for an untouched one, which earns nothing."""


@dataclass
class Result:
    """The result of one attack on one case."""

    attack: str
    case: str
    over: Base
    sandbox: str
    escapes: list[str] = field(default_factory=list)
    """Evidence of everything that the attack achieved; empty: it was held."""
    stop_reason: str = ""
    score: float | None = None
    flags: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def held(self) -> bool:
        return not self.escapes

    @property
    def only_slow(self) -> bool:
        """Nothing was achieved but delay, which may be the machine's."""
        return bool(self.escapes) and all(escape.startswith(_SLOW) for escape in self.escapes)

    @property
    def only_partly(self) -> bool:
        """Nothing was achieved but more credit of checks that still fail, which may be the luck of a training."""
        return bool(self.escapes) and all(_PARTLY.match(escape) for escape in self.escapes)


def starts(sandbox: Sandbox) -> bool:
    """Whether a job starts in the sandbox, here and now."""
    folder = Mount(Path("/usr/share"), "/workspace")
    try:
        return run_job(sandbox, Job(("true",), (folder,), folder, JobLimits(wall_s=30))).code == 0
    except (OSError, InfraError):
        return False


class Trial:
    """Attacks that share one run of the agent, on one case, over one base."""

    def __init__(self, stage: Stage, task: Task) -> None:
        self._stage = stage
        self._task = task
        self._attacks = task.attacks
        self._base = task.base
        self._case = stage.case(task.case)
        self._token = f"mldb-token-{secrets.token_hex(8)}"
        self._folder = stage.root / "trials" / self._token
        self._marker = self._folder / "executed"

    def run(self, baseline: Baseline | None) -> list[Result]:
        """Results by attack, in their order. baseline: None where only the grading itself is asked for."""
        began = time.monotonic()
        contacts, calls = self._stage.listeners.count(), len(self._stage.upstream.misuses)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with self._ran() as (cell, record, trace):
            # Before anything else, which would give a process time to end.
            survivors = processes_with(self._token)
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
            common = [*survivors, *self._left_behind(cell)]
            common += changes(trace, max(attack.spec.watch_s for attack in self._attacks))
            common += [f"the runner grew by {grown:.0f} MiB"] if grown > _MEMORY_MB else []
            common += self._on_verdict(record, baseline)
            common += self._stage.listeners.hits(self._token, contacts) + self._stage.upstream.misuses[calls:]
            common += [f"a file that the agent left was executed: {self._marker}"] if self._marker.exists() else []
            common += self._on_text(record, trace) + self._on_bounds(record)
            carried = self._canaries(record, trace)
            seconds = time.monotonic() - began
            return [self._result(it, record, trace, common, carried, seconds) for it in self._attacks]

    def measure(self) -> Baseline:
        """What the base is worth when next to nothing is done to it; raises `InfraError` without a verdict."""
        with self._ran() as (_, record, _):
            if record.outcome != "graded":
                raise InfraError(record.cause, f"the base of attacks on {self._case.id} has no verdict: {record.error}")
            return Baseline({check.id: check.value for check in record.checks})

    @contextlib.contextmanager
    def _ran(self) -> Iterator[tuple[Cell, Record, Path]]:
        """The cell with its record and trace; afterwards the folders are removed, for many trials share a disk."""
        cell = self._cell()
        trace = self._stage.context.trace(cell)
        try:
            yield cell, run_cell(cell, self._stage.context), trace
        finally:
            remove_tree(trace)
            remove_tree(self._folder)

    def _cell(self) -> Cell:
        spec, limits = self._case.spec, self._case.spec.limits
        case = self._case
        if self._base == "untouched":
            changed = dict(self._stage.catalogue.limits)
            for attack in self._attacks:
                changed |= attack.spec.limits
            case = replace(case, spec=spec.model_copy(update={"limits": limits.model_copy(update=changed)}))
        self._folder.mkdir(parents=True)
        programs = self._stage.catalogue.folder
        facts, canaries = self._facts(case), self._stage.canaries
        agent = make_agent(self._folder / "agent", programs, replace(self._task, case=case), facts, canaries)
        return Cell(agent, dict(agent.spec.models), case, case.profiles[0], 1)

    def _facts(self, case: Case) -> Mapping[str, Any]:
        limits = case.spec.limits
        listeners = self._stage.listeners
        return {
            "outputs": [item.path for item in case.spec.outputs.files],
            "protected": case.spec.protected,
            "services": [service.env for service in case.spec.services.values()],
            "places": self._stage.hidden_places(self._case),
            "listeners": listeners.addresses,
            "addresses": [listeners.addresses["machine"][0]] if "machine" in listeners.addresses else [],
            "port": listeners.port,
            "limits": {name: int(getattr(limits, name)) for name in ("agent_s", "memory_mb", "processes", "disk_mb")},
            "token": self._token,
            "marker": str(self._marker),
            "foreign_key": self._stage.foreign_key,
        }

    def _on_verdict(self, record: Record, baseline: Baseline | None) -> list[str]:
        """Evidence that the verdict was improved or avoided."""
        if record.outcome != "graded":
            return [f"there is no verdict: {record.outcome} ({record.cause}): {record.error[-600:]}"]
        found = [f"it got a second try: {it.cause}: {it.message[-300:]}" for it in record.tries]
        if baseline is None:
            return found
        if record.success:
            found.append("the cell succeeds")
        if not baseline and record.score and not any(attack.spec.works for attack in self._attacks):
            found.append(f"the score is {record.score:g} in place of 0")
        for check in record.checks:
            # Files that an attack writes are there, and what has no weight earns nothing: success tells of that.
            if check.origin == "framework" or not (check.weight or check.guard):
                continue
            before = baseline.get(check.id, 1.0)
            if check.value > before + _CHANCE or check.passed > (before >= 1):
                found.append(f"{check.id} is worth {check.value:g} in place of {before:g}")
        return found

    def _on_text(self, record: Record, trace: Path) -> list[str]:
        found = acting_text(record, self._stage.context.folders.site) if self._aims("log") else []
        log = trace / "agent.log"
        most = 3 * record.limits.output_mb << 20
        if log.is_file() and log.stat().st_size > most:
            found.append(f"the log has {log.stat().st_size} bytes")
        return found

    def _on_bounds(self, record: Record) -> list[str]:
        """Evidence that what was left held up the runner, and that one call of judged code knew of another."""
        found = [f"the judged code found what an earlier call left: {name}" for name in _recalled(record)]
        if any(attack.spec.bounded for attack in self._attacks):
            after = sum(phase.seconds for phase in record.phases if phase.name in ("snapshot", "judge"))
            most = 2 * record.limits.grade_s
            found += [f"{_SLOW} {after:.0f} s, over {most:.0f} s"] if after > most else []
            # In KiB, of the largest process that has ended below this one, since it began.
            largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            found += [f"a process took {largest:.0f} MiB"] if largest > _LARGEST_MB else []
        return found

    def _aims(self, aim: str) -> bool:
        return any(aim in attack.spec.aims for attack in self._attacks)

    def _left_behind(self, cell: Cell) -> list[str]:
        context = self._stage.context
        # Not through socket_folder(), which would make it.
        folders = [context.work(cell), context.sockets / cell.slug[-8:]]
        found = [f"{folder.name} is still there" for folder in folders if folder.exists()]
        if context.sandbox.name == "docker":
            found += containers_of(context.provenance.run, cell.id)
        return found

    def _result(
        self,
        attack: Attack,
        record: Record,
        trace: Path,
        common: Sequence[str],
        carried: Sequence[tuple[str, str]],
        seconds: float,
    ) -> Result:
        """What one attack achieved. common: escapes of the whole trial; carried: files with hidden places they name."""
        said = [it for it in _said(trace / "out" / "said.jsonl") if it.get("attack") == attack.id]
        escapes = [*common, *(str(it.get("detail")) for it in said if it.get("what") == "reached")]
        escapes += [f"carried out: {place} (in {file})" for file, place in carried if self._of(attack, file)]
        escapes += [f"it was not carried out: {it.get('detail')}" for it in said if it.get("what") == "void"]
        if record.outcome == "graded" and not any(it.get("what") == "began" for it in said):
            escapes.append("it was not carried out")
        escapes += self._on_expected(attack, record)
        return Result(
            attack=attack.id,
            case=self._case.id,
            over=self._base,
            sandbox=self._stage.context.sandbox.name,
            escapes=list(dict.fromkeys(escapes)),
            stop_reason=record.stop_reason or record.cause,
            score=record.score,
            flags=sorted({note.name for note in record.flags}),
            seconds=round(seconds, 2),
        )

    def _canaries(self, record: Record, trace: Path) -> list[tuple[str, str]]:
        """Canaries in what the cell has left, each as file and place of hiding."""
        canaries = self._stage.canaries
        line = record.to_line().encode()
        return [*canaries.found_below(trace), *(("the record", place) for place in canaries.found_in(line))]

    def _of(self, attack: Attack, file: str) -> bool:
        """Whether a file may be this attack's: of those that share a run each has a folder of its own."""
        others = (f"out/{other.id}/" for other in self._attacks if other is not attack)
        return not file.startswith(tuple(others))

    def _on_expected(self, attack: Attack, record: Record) -> list[str]:
        """What the record should say and does not."""
        if record.outcome != "graded":
            return []
        found = []
        if self._base == "untouched" and attack.spec.stops and record.stop_reason not in attack.spec.stops:
            found.append(f"the agent phase ended with {record.stop_reason}, not {' or '.join(attack.spec.stops)}")
        names = {note.name for note in record.flags}
        for flag in attack.spec.flags:
            if flag not in names and (flag != "tampered" or self._case.spec.protected):
                found.append(f"the record does not say {flag}")
        return found


def _recalled(record: Record) -> list[str]:
    """Channels through which judged code has found an earlier call, by its own word in the record."""
    return sorted(set(_RECALLED.findall(record.to_line())))


def _said(path: Path) -> list[dict[str, Any]]:
    """What the attacks wrote down of themselves; a line that the end has cut short is left out."""
    if not path.is_file() or path.is_symlink():
        return []
    found = []
    with path.open("rb") as file:
        for line in file.read(_MAX_SAID).splitlines():
            try:
                item = json.loads(line)
            except ValueError:
                continue
            if isinstance(item, dict):
                found.append(item)
    return found
