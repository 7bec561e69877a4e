"""`ml-dev-bench cases verify` without attacks: which cases are proven, their proofs, and their locks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

import click

from bench.base.errors import UserError
from bench.base.text import counted

if TYPE_CHECKING:
    from bench.authoring import Choice, Proof, ProofLock, Proven, Surroundings
    from bench.base.install import DataFolders
    from bench.formats.case import Case
    from bench.sandbox import Sandbox


@dataclass(frozen=True)
class ProofOptions:
    """What `cases verify` was asked to prove, and how."""

    sandbox: str
    jobs: int
    as_json: bool
    changed: bool = False
    shard: str | None = None
    seed: str | None = None
    repeat: int | None = None
    complete: bool = False
    write_locks: bool = False

    def say(self, line: str) -> None:
        """Print a line for people."""
        if not self.as_json:
            click.echo(line)


class _Locks:
    """The locks beside the cases, read once; a fault of one of them is told, and fails the command."""

    def __init__(self, cases: Sequence[Case], folders: DataFolders) -> None:
        from bench.authoring import read_lock

        self.found: dict[str, ProofLock | None] = {}
        self.faults: list[str] = []
        for case in cases:
            try:
                self.found[case.id] = read_lock(folders.cases, case.id)
            except UserError as error:
                self.found[case.id] = None
                self.faults.append(str(error))


def prove(cases: Sequence[Case], folders: DataFolders, asked: ProofOptions) -> bool:
    """Print every proof, and what was left out; returns whether all hold and no lock claims otherwise."""
    from bench.authoring import ProofSeed, Rounds, Surroundings, longest_first, prove_cases
    from bench.base.install import is_installed
    from bench.sandbox import choose_sandbox

    if asked.write_locks and is_installed(folders.cases):
        remedy = "copy the cases into a folder of yours, and name that with --cases"
        raise UserError("belongs to the installed package", where=folders.cases, remedy=remedy)
    sandbox, here = choose_sandbox(asked.sandbox), Surroundings.here()
    seed = ProofSeed.parse(asked.seed) if asked.seed is not None else ProofSeed.drawn()
    rounds = Rounds(seed, asked.repeat, asked.complete)
    asked.say(f"seed {seed.text}: of data, of the judge's inputs and of every draw")
    locks = _Locks(cases, folders)
    choice = _choice(cases, locks.found, here, sandbox, asked, seed.text)
    if choice is not None:
        for case, why in choice.skipped:
            asked.say(f"skip {case.id}: {why}")
        for case, why in choice.proven:
            asked.say(f"prove {case.id}: {why}")
        cases = [case for case, _ in choice.proven]
    found: list[Proven] = []
    # Those that take longest begin first, so that no processor waits for one of them at the end.
    begun = longest_first(cases, locks.found)
    # The night, which proves all, and what writes locks hold every case to its budget.
    speaking = locks.found if asked.changed and not asked.write_locks else None
    for proven in prove_cases(
        begun, folders, sandbox, asked.jobs, lambda proof: asked.say(_line(proof)), rounds, speaking
    ):
        found.append(proven)
        if asked.write_locks:
            _write(proven, folders, sandbox, here, asked.say)
    faults = [*locks.faults, *_contradictions(found, locks.found, here)]
    for fault in faults:
        asked.say(f"{_mark(False)} {fault}")
    _conclude(found, faults, asked)
    return not faults and all(it.ok for it in found)


def _choice(
    cases: Sequence[Case],
    locks: Mapping[str, ProofLock | None],
    here: Surroundings,
    sandbox: Sandbox,
    asked: ProofOptions,
    seed: str,
) -> Choice | None:
    """What of `cases` is proven; None: all of them, which needs no word."""
    from bench.authoring import SAMPLE_S, choose_changed, shard_of, standing

    if asked.shard is not None:
        return shard_of(cases, locks, asked.shard)
    if not asked.changed:
        return None
    asked.say(f"drawn: {SAMPLE_S:g} CPU seconds of proofs where judge or libraries changed, and a tenth of the rest")
    standings = {case.id: standing(case, locks[case.id], here, isolated=sandbox.isolated) for case in cases}
    return choose_changed(cases, standings, locks, seed)


def _contradictions(found: Sequence[Proven], locks: Mapping[str, ProofLock | None], here: Surroundings) -> list[str]:
    from bench.authoring import FOLDER, contradiction

    told = [(it.case.id, contradiction(it, locks.get(it.case.id), here)) for it in found]
    return [f"{FOLDER}/{name}.json: {fault}" for name, fault in told if fault]


def _write(
    proven: Proven, folders: DataFolders, sandbox: Sandbox, here: Surroundings, say: Callable[[str], None]
) -> None:
    from bench.authoring import lock_path, lock_proven

    written = lock_proven(proven, folders.cases, sandbox, here) is not None
    path = lock_path(folders.cases, proven.case.id)
    say(f"wrote {path}" if written else f"no lock of {proven.case.id}: not all of its proofs hold")


def _conclude(found: Sequence[Proven], faults: Sequence[str], asked: ProofOptions) -> None:
    from bench.authoring import BUDGET_MEAN_S
    from bench.cli.printing import print_json

    proofs = [proof for it in found for proof in it.proofs]
    if asked.as_json:
        print_json([vars(proof) for proof in proofs])
        return
    if found:
        mean = fmean(it.cpu_s for it in found)
        allowed = BUDGET_MEAN_S * (asked.repeat or 1)
        over = f", over the {allowed:g} that a case may take on average" if mean > allowed else ""
        each = ", ".join(f"{it.case.id} {it.cpu_s:.0f}" for it in sorted(found, key=lambda it: -it.cpu_s))
        asked.say(f"CPU seconds: {each}; {sum(it.cpu_s for it in found):.0f} in all, {mean:.0f} a case{over}")
    failed = sum(not proof.ok for proof in proofs)
    skipped = sum(proof.skipped for proof in proofs)
    told = f", {len(faults)} faults of locks" if faults else ""
    # A machine that lacks something proves less, which has to be seen at the end of a long list, too.
    told += f", {skipped} skipped for want of what a profile needs" if skipped else ""
    asked.say(f"{counted(len(found), 'case')}, {counted(len(proofs) - skipped, 'proof')}, {failed} failed{told}")


def _line(proof: Proof) -> str:
    from bench.base.text import printable

    name = f"{proof.profile}: {proof.name}" if proof.profile else proof.name
    mark = click.style("skip", fg="cyan") if proof.skipped else _mark(proof.ok)
    again = f"; to repeat it: ml-dev-bench cases verify {proof.case} --seed {proof.seed}" if proof.seed else ""
    return f"{mark} {proof.case}: {name} ({proof.seconds:.1f} s): {printable(proof.detail)}{'' if proof.ok else again}"


def _mark(ok: bool) -> str:
    return click.style("ok  ", fg="green") if ok else click.style("FAIL", fg="bright_red", bold=True)
