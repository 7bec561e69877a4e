"""Proving cases: each in a process of its own, whose CPU time is known at its end, and what its lock may then say."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.authoring.locks import ProofLock, Surroundings, new_lock, write_lock
from bench.authoring.proof_seeds import ProofSeed, Rounds
from bench.authoring.verify import Proof, open_verifier
from bench.authoring.yardstick import samples, slowness
from bench.base.child import Child, log_tail, python_child, receive_orders
from bench.base.install import DataFolders
from bench.base.text import counted
from bench.base.times import now
from bench.formats.case import Case, load_case
from bench.formats.record import Profile
from bench.judge import end_judges
from bench.sandbox import Sandbox, counting_group, handed_on, open_sandbox

BUDGET_S = 120.0
"""CPU seconds of the reference machine that the proof of one case may take, containers not counted."""
BUDGET_MEAN_S = 60.0
"""What cases may take on average, for all of them to be proven every night."""
_TOLD = 1.05
"""From which slowness on it is told."""
_MODULE = "bench.authoring.proving"


@dataclass(frozen=True)
class Spent:
    """CPU time of a proof, and how slow the machine was meanwhile."""

    here_s: float
    slowness: float

    @property
    def reference_s(self) -> float:
        return round(self.here_s / self.slowness, 2)

    def __str__(self) -> str:
        text = f"{self.reference_s:.1f} CPU seconds"
        return text if self.slowness < _TOLD else f"{text} ({self.here_s:.1f} here, {self.slowness:.2f} times as slow)"


@dataclass(frozen=True)
class Proven:
    """A case whose proofs have run."""

    case: Case
    proofs: Sequence[Proof]
    cpu_s: float
    """As of the reference machine: of the process, its judges and its sandboxes; containers are not counted, and where
    groups of version 1 cannot be made, neither is what a sandbox was killed with."""
    wall_s: float
    digest: str
    """The case's proof digest, before and after; empty where its files were changed meanwhile."""

    @property
    def ok(self) -> bool:
        return all(proof.ok for proof in self.proofs)

    @property
    def failed(self) -> list[str]:
        return [proof.name for proof in self.proofs if not proof.ok]

    @property
    def profiles(self) -> list[Profile]:
        """Those in which the case was proven, in its own order."""
        lacking = {proof.profile for proof in self.proofs if proof.skipped}
        return [profile for profile in self.case.profiles if profile not in lacking]

    @property
    def count(self) -> int:
        """Proofs that were made."""
        return sum(not proof.skipped for proof in self.proofs)


def prove_cases(
    cases: Sequence[Case],
    folders: DataFolders,
    sandbox: Sandbox,
    jobs: int,
    tell: Callable[[Proof], None],
    rounds: Rounds | None = None,
    locks: Mapping[str, ProofLock | None] | None = None,
    budget_s: float | None = None,
) -> Iterator[Proven]:
    """Prove `cases`, `jobs` of them side by side; `tell` gets each proof as it comes, from several threads.

    locks: by case, that speak for its CPU time where this machine is slow; default: none does.
    """
    most, speaking = BUDGET_S if budget_s is None else budget_s, locks or {}

    def prove(case: Case) -> Proven:
        return prove_case(case, folders, sandbox, tell, rounds or Rounds(), most, speaking.get(case.id))

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(prove, cases)


def prove_case(
    case: Case,
    folders: DataFolders,
    sandbox: Sandbox,
    tell: Callable[[Proof], None],
    rounds: Rounds,
    budget_s: float = BUDGET_S,
    lock: ProofLock | None = None,
) -> Proven:
    """Prove one case; what it takes beyond `budget_s` CPU seconds a seed is a proof that failed.

    Unless `lock` says that the same files took less: then it is the machine that is slow, and not the case.
    """
    before, began = case.proof_digest, time.monotonic()
    orders: dict[str, Any] = {
        "case": str(case.folder),
        "folders": {name: str(path) for name, path in asdict(folders).items()},
        "sandbox": sandbox.name,
        "groups": [],
        "rounds": {"seed": rounds.seed.text, "repeat": rounds.repeat, "complete": rounds.complete},
    }
    proofs: list[Proof] = []

    def add(proof: Proof) -> None:
        proofs.append(proof)
        tell(proof)

    used = 0.0
    with contextlib.ExitStack() as stack:
        paces = stack.enter_context(samples())
        if (group := counting_group()) is not None:
            stack.callback(group.remove)
            orders["groups"] = [str(path) for path in group.paths]
        # With the settings of the user, such as TMPDIR and the address of the engine.
        child = stack.enter_context(python_child(_MODULE, orders, env={**os.environ, **handed_on(sandbox.name)}))
        for facts in _said(child):
            if "cpu_s" in facts:
                used = facts["cpu_s"]
            else:
                add(Proof(**facts))
        code = child.popen.wait()
        if code:
            add(Proof(case.id, "verifier", False, f"ended with status {code}: {log_tail(child.log)}", 0.0))
        if group is not None:
            used = round(group.cpu_s() or used, 2)
    spent = Spent(used, slowness(paces))
    speaking = lock if lock is not None and lock.kept_to(before, budget_s) else None
    add(_budget(case, spent, budget_s * (rounds.repeat or 1), speaking))
    took = round(time.monotonic() - began, 2)
    return Proven(case, proofs, spent.reference_s, took, before if case.proof_digest == before else "")


def _said(child: Child) -> Iterator[dict[str, Any]]:
    assert child.popen.stdout is not None
    for line in child.popen.stdout:
        yield json.loads(line)


def _budget(case: Case, spent: Spent, budget_s: float, lock: ProofLock | None) -> Proof:
    """lock: of the same files, which kept to the budget elsewhere; None where there is none."""
    over = spent.reference_s > budget_s
    detail = f"{spent}, at most {budget_s:g}"
    if over and lock is not None:
        detail += f"; its lock has {lock.cpu_s:g} for the same files: this machine is slow"
    elif over:
        detail += "; make its data, training or checks smaller"
    return Proof(case.id, "budget", not over or lock is not None, detail, 0.0)


def main() -> None:
    """In the child: prove one case, and say what it took."""
    orders, answers = receive_orders()
    for group in orders["groups"]:
        (Path(group) / "cgroup.procs").write_text("0", encoding="ascii")
    folders = DataFolders(**{name: Path(path) for name, path in orders["folders"].items()})

    def say(facts: dict[str, object]) -> None:
        answers.write(json.dumps(facts).encode() + b"\n")
        answers.flush()

    asked = orders["rounds"]
    rounds = Rounds(ProofSeed(asked["seed"]), asked["repeat"], asked["complete"])
    with open_verifier(folders, open_sandbox(orders["sandbox"]), rounds, _clock(orders["groups"])) as verifier:
        for proof in verifier.verify(load_case(Path(orders["case"]))):
            say(asdict(proof))
    # What has ended and was waited for is counted: so everything is ended first.
    end_judges()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    say({"cpu_s": round(sum(it.ru_utime + it.ru_stime for it in used), 2)})


def _clock(groups: Sequence[str]) -> Callable[[], float]:
    """CPU seconds of this process and all that it has started; wall time where no group counts them."""
    counters = [path for group in groups if (path := Path(group) / "cpuacct.usage").is_file()]
    return (lambda: int(counters[0].read_text()) / 1e9) if counters else time.monotonic


def lock_proven(proven: Proven, cases: Path, sandbox: Sandbox, here: Surroundings) -> ProofLock | None:
    """Write the lock of a case below `cases`; None, and nothing written, unless all its proofs ran and hold."""
    if not proven.ok or not proven.digest or not proven.profiles:
        return None
    lock = new_lock(
        proven.case,
        here,
        {
            "proof": proven.digest,
            "sandbox": sandbox.name,
            "isolated": sandbox.isolated,
            "profiles": proven.profiles,
            "proofs": proven.count,
            "cpu_s": proven.cpu_s,
            "wall_s": proven.wall_s,
            "date": now(),
        },
    )
    write_lock(cases, lock)
    return lock


def contradiction(proven: Proven, lock: ProofLock | None, here: Surroundings) -> str:
    """Where the lock claims a proof of the same files that came out otherwise here; empty where it does not."""
    if lock is None or lock.proof != proven.digest:
        return ""
    same = (lock.sources, lock.python) == (here.sources, here.python)
    why = "it is forged, or the proof cannot be repeated" if same else "judge, kit or interpreter have changed since"
    if not proven.ok:
        return f"claims a proof that fails here ({', '.join(proven.failed)}): {why}"
    if lock.profiles == proven.profiles and lock.proofs != proven.count:
        return f"claims {counted(lock.proofs, 'proof')}, and {proven.count} were made here: {why}"
    return ""
