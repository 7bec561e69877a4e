"""Locks of proofs: written by proofs that ran, believed for what they say, and found out where they lie."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bench.authoring.choice import SAMPLE_S, choose_changed, longest_first, shard_of
from bench.authoring.locks import (
    ProofLock,
    Standing,
    Surroundings,
    lock_path,
    new_lock,
    read_lock,
    standing,
    write_lock,
)
from bench.authoring.proof_seeds import Rounds
from bench.authoring.proving import Proven, contradiction, lock_proven, prove_case, prove_cases
from bench.authoring.verify import Proof
from bench.authoring.yardstick import REFERENCE_S, samples, slowness
from bench.base.errors import UserError
from bench.base.install import DataFolders
from bench.cli.cases import verify
from bench.formats.case import Case, load_case
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import FACTS, ROOT, as_settings, make_case, write_files, wrong_patch

_HERE = Surroundings("sha256:" + "0" * 64, "3.11")


def lock_of(case: Case, **facts: object) -> ProofLock:
    return new_lock(case, _HERE, {**_facts(case), **facts})


def _facts(case: Case) -> dict[str, object]:
    return {
        "proof": case.proof_digest,
        "sandbox": "bubblewrap",
        "isolated": True,
        "profiles": ["mini"],
        "proofs": 3,
        "cpu_s": 10.0,
        "date": "2026-11-22T00:00:00Z",
    }


def proven_of(case: Case, *outcomes: bool) -> Proven:
    proofs = [Proof(case.id, f"proof {number}", ok, "", 0.1) for number, ok in enumerate(outcomes, 1)]
    return Proven(case, proofs, 10.0, 12.0, case.proof_digest)


def run_verify(folder: Path, *words: str) -> Result:
    options = ["--cases", str(folder / "cases"), "--sandbox", "process"]
    return CliRunner().invoke(verify, [*words, *options], env={"ML_DEV_BENCH_CACHE": str(folder / "cache")})


def test_only_a_proof_that_ran_and_holds_writes_a_lock(tmp_path: Path) -> None:
    case, sandbox = make_case(tmp_path), ProcessSandbox()
    changed_meanwhile = replace(proven_of(case, True), digest="")
    for proven in (proven_of(case, True, False), changed_meanwhile):
        assert lock_proven(proven, tmp_path, sandbox, _HERE) is None
        assert read_lock(tmp_path, case.id) is None
    written = lock_proven(proven_of(case, True, True), tmp_path, sandbox, _HERE)
    assert written == read_lock(tmp_path, case.id)
    assert written is not None and (written.proofs, written.isolated) == (2, False)
    assert (written.cpu_s, written.wall_s) == (10.0, 12.0)
    assert [path.name for path in (tmp_path / "proofs").iterdir()] == ["double_it.json"]


def test_a_lock_speaks_for_what_it_says(tmp_path: Path) -> None:
    case = make_case(tmp_path, needs={"python": ["pydantic"]})
    lock = lock_of(case)
    assert set(lock.libraries) == {"pydantic"}
    kinds: dict[str, list[tuple[Case, ProofLock | None, Surroundings]]] = {
        "proven": [(case, lock, _HERE)],
        "elsewhere": [
            (case, lock, replace(_HERE, sources="sha256:" + "1" * 64)),
            (case, lock, replace(_HERE, python="3.13")),
            (case, lock_of(case, judge="0"), _HERE),
            (case, lock_of(case, libraries={"pydantic": "0.1"}), _HERE),
        ],
        "open": [(case, None, _HERE), (case, lock_of(case, isolated=False), _HERE)],
    }
    for kind, situations in kinds.items():
        assert {standing(*it, isolated=True).kind for it in situations} == {kind}
    write_files(case.folder, {"README.md": "Other words"})
    assert standing(case, lock, _HERE, isolated=True).kind == "proven"
    write_files(case.folder, {"wrong/same/answer.py": "pass"})
    assert standing(case, lock, _HERE, isolated=True) == Standing("open", "it has changed since its proof")


def test_a_spoilt_lock_is_one_clear_line(tmp_path: Path) -> None:
    case = make_case(tmp_path)
    write_lock(tmp_path, lock_of(case).model_copy(update={"case": "another"}))
    lock_path(tmp_path, "another").rename(lock_path(tmp_path, case.id))
    with pytest.raises(UserError, match="is the lock of another"):
        read_lock(tmp_path, case.id)
    lock_path(tmp_path, case.id).write_text("{}")
    with pytest.raises(UserError, match="remove it"):
        read_lock(tmp_path, case.id)


def cases_called(folder: Path, names: list[str]) -> list[Case]:
    made = make_case(folder)
    return [replace(made, spec=made.spec.model_copy(update={"id": name})) for name in names]


def test_what_is_not_proven_is_proven_and_of_the_rest_a_drawn_part(tmp_path: Path) -> None:
    cases = cases_called(tmp_path, [f"c{number:02}" for number in range(40)])
    kinds: Mapping[int, Any] = {0: "open", 1: "elsewhere"}
    standings = {case.id: Standing(kinds.get(n // 9, "proven"), "why") for n, case in enumerate(cases)}
    locks = {case.id: lock_of(case, cpu_s=50.0 if n < 18 else 20.0) for n, case in enumerate(cases)}
    choice = choose_changed(cases, standings, locks, "7")
    chosen = [case.id for case, _ in choice.proven]
    assert chosen[:9] == [f"c{number:02}" for number in range(9)]
    assert sum(9 <= int(name[1:]) < 18 for name in chosen) == 2, f"2 of 50 CPU seconds reach {SAMPLE_S}"
    assert sum(int(name[1:]) >= 18 for name in chosen) == 3, "44 CPU seconds are a tenth of 22 times 20"
    assert sorted([*chosen, *(case.id for case, _ in choice.skipped)]) == [case.id for case in cases]
    assert choose_changed(cases, standings, locks, "7") == choice
    assert any(choose_changed(cases, standings, locks, str(seed)) != choice for seed in range(3))


def test_shards_are_balanced_and_every_case_is_in_one(tmp_path: Path) -> None:
    cases = cases_called(tmp_path, ["a", "b", "c", "d", "e"])
    took = dict(zip("abcd", (100.0, 50.0, 30.0, 20.0), strict=True))
    locks = {case.id: lock_of(case, cpu_s=took[case.id]) if case.id in took else None for case in cases}
    found = [[case.id for case, _ in shard_of(cases, locks, f"{number}/2").proven] for number in (1, 2)]
    assert found == [["a", "c"], ["b", "d", "e"]], "130 seconds each: a case without a lock counts as 60"
    for text in ("0/2", "3/2", "1", "a/b", "1/0", "-1/2"):
        with pytest.raises(UserError, match="is not a shard"):
            shard_of(cases, locks, text)


def test_what_takes_longest_begins_first(tmp_path: Path) -> None:
    """By CPU time or by waiting, whichever is more; a case without a lock counts as a minute."""
    cases = cases_called(tmp_path, ["a", "b", "c", "d"])
    took = {"a": (20.0, 25.0), "b": (100.0, 0.0), "c": (30.0, 130.0)}
    locks = {name: lock_of(case, cpu_s=took[name][0], wall_s=took[name][1])
             for case in cases if (name := case.id) in took}  # fmt: skip
    assert [case.id for case in longest_first(cases, locks)] == ["c", "b", "d", "a"]


def test_a_lock_that_claims_another_outcome_is_told(tmp_path: Path) -> None:
    case = make_case(tmp_path)
    lock = lock_of(case)
    assert contradiction(proven_of(case, True, True, True), lock, _HERE) == ""
    assert "fails here (proof 2): it is forged" in contradiction(proven_of(case, True, False, True), lock, _HERE)
    assert "claims 3 proofs, and 2 were made" in contradiction(proven_of(case, True, True), lock, _HERE)
    elsewhere = replace(_HERE, python="3.13")
    assert "have changed since" in contradiction(proven_of(case, False, True, True), lock, elsewhere)
    stale = lock_of(case, proof="sha256:" + "0" * 64)
    assert contradiction(proven_of(case, False), stale, _HERE) == "", "it claims nothing of these files"


@pytest.mark.slow
def test_a_forged_lock_is_found_by_proving_everything(tmp_path: Path) -> None:
    """The way of an author: prove, lock, skip; then someone copies a digest into the lock of a case that is broken."""
    case = make_case(tmp_path / "cases")
    proven = run_verify(tmp_path, "--all", "--write-locks")
    assert proven.exit_code == 0, proven.output
    lock = read_lock(tmp_path / "cases", case.id)
    assert lock is not None and lock.proof == case.proof_digest
    assert 0 < lock.cpu_s < 120 and f"{lock.proofs} proofs, 0 failed" in proven.output
    assert "double_it: budget" in proven.output and "CPU seconds: double_it" in proven.output

    changed = FACTS["wrong"] | {"right": {"about": "is right", "fails": ["doubles"]}}
    write_files(case.folder, {"wrong/right.patch": wrong_patch("def double(x):\n    return x + x\n")})
    (case.folder / "case.yaml").write_text(as_settings({**FACTS, "wrong": changed}))
    broken = load_case(case.folder)
    assert broken.digest == case.digest
    path = lock_path(tmp_path / "cases", case.id)
    path.write_text(json.dumps({**json.loads(path.read_text()), "proof": broken.proof_digest, "isolated": True}))

    nightly = run_verify(tmp_path, "--all", "--shard", "1/1", "--write-locks")
    assert nightly.exit_code == 1
    told = "FAIL proofs/double_it.json: claims a proof that fails here (wrong: right): it is forged"
    assert [line for line in nightly.output.splitlines() if told in line], nightly.output
    assert "no lock of double_it" in nightly.output and broken.proof_digest in path.read_text()


def test_a_case_that_takes_too_long_is_refused(tmp_path: Path) -> None:
    case = make_case(tmp_path / "cases", {"check.py": "x = 1"}, wrong={})
    folders = DataFolders(tmp_path / "cases", ROOT / "agents", ROOT / "site", tmp_path / "cache")
    told: list[Proof] = []
    proven = prove_case(case, folders, ProcessSandbox(), told.append, Rounds(), budget_s=0.001)
    assert told[-1] == proven.proofs[-1] and (told[-1].name, told[-1].ok) == ("budget", False)
    assert "make its data, training or checks smaller" in told[-1].detail


@pytest.mark.nightly
def test_seconds_of_a_slow_machine_count_as_those_of_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make_case(tmp_path / "cases", {"check.py": "x = 1"}, wrong={})
    folders = DataFolders(tmp_path / "cases", ROOT / "agents", ROOT / "site", tmp_path / "cache")

    def prove(slow: float, budget_s: float) -> Proven:
        monkeypatch.setattr("bench.authoring.proving.slowness", lambda paces: slow)
        return prove_case(case, folders, ProcessSandbox(), lambda proof: None, Rounds(), budget_s)

    usual = prove(1.0, 60)
    assert usual.proofs[-1].ok and "times as slow" not in usual.proofs[-1].detail
    slow = prove(1000.0, usual.cpu_s / 100)
    assert slow.proofs[-1].ok and slow.cpu_s < usual.cpu_s / 100
    assert "here, 1000.00 times as slow), at most" in slow.proofs[-1].detail
    assert not prove(1.0, usual.cpu_s / 100).proofs[-1].ok


def test_the_pace_of_a_machine_is_that_of_all_samples_and_never_faster_than_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bench.authoring.yardstick._EVERY_S", 0.01)
    with samples() as found:
        while len(found) < 3:
            time.sleep(0.01)
    assert min(found) > 0.001, "work was done"
    assert slowness([3 * REFERENCE_S, REFERENCE_S]) == pytest.approx(2)
    assert slowness([REFERENCE_S / 2]) == 1


@pytest.mark.nightly
def test_a_slow_machine_is_not_held_against_a_case_whose_lock_kept_to_the_budget(tmp_path: Path) -> None:
    """Only the lock of the same files speaks for it, and only one whose own time was within the budget."""
    case = make_case(tmp_path / "cases", {"check.py": "x = 1"}, wrong={})
    folders = DataFolders(tmp_path / "cases", ROOT / "agents", ROOT / "site", tmp_path / "cache")

    def budget(lock: ProofLock | None) -> Proof:
        locks = {case.id: lock}
        (proven,) = prove_cases([case], folders, ProcessSandbox(), 1, lambda proof: None, locks=locks, budget_s=0.001)
        return proven.proofs[-1]

    kept = budget(lock_of(case, cpu_s=0.0005))
    assert (kept.name, kept.ok) == ("budget", True)
    assert "at most 0.001; its lock has 0.0005 for the same files: this machine is slow" in kept.detail
    changed = lock_of(case, cpu_s=0.0005, proof="sha256:" + "0" * 64)
    for lock in (None, changed, lock_of(case, cpu_s=0.002)):
        assert not budget(lock).ok and "make its data" in budget(lock).detail


@pytest.mark.parametrize(
    ("words", "heard"), [(("--changed",), True), (("--all",), False), (("--changed", "--write-locks"), False)]
)
def test_locks_speak_for_the_time_of_what_changed_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], heard: bool
) -> None:
    """Every night a case is held to its budget, and no lock is written of one that is over it."""
    case = make_case(tmp_path / "cases", {"check.py": "x = 1"}, wrong={})
    write_lock(tmp_path / "cases", new_lock(case, Surroundings.here(), {**_facts(case), "cpu_s": 0.0005}))
    monkeypatch.setattr("bench.authoring.proving.BUDGET_S", 0.001)
    lines = run_verify(tmp_path, *words).output.splitlines()
    (budget,) = [line for line in lines if "double_it: budget" in line]
    assert budget.startswith("ok" if heard else "FAIL"), lines


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--all", "--changed"), "exclude each other"),
        ((), "no case is named"),
        (("double_it", "--shard", "1/2"), "--shard belongs to --all"),
        (("--all", "--honest", "--seed", "7"), "--seed belongs to proofs"),
        (("--all", "--attacks", "--repeat", "2"), "--repeat belongs to proofs"),
        (("--all", "--write-locks", "--repeat", "2"), "--repeat belongs to proofs without --write-locks"),
        (("--all", "--seed", "x"), "'x' is not a seed"),
        (("--all", "--honest", "--write-locks"), "--write-locks belongs to proofs"),
    ],
)
def test_options_that_mean_nothing_together_are_refused(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    make_case(tmp_path / "cases")
    assert said in str(run_verify(tmp_path, *words).exception)


def test_nothing_is_proven_again_without_reason(tmp_path: Path) -> None:
    """One line says what was left out and why; here the drawn tenth of two cases is one of them."""
    cases = [make_case(tmp_path / "cases", {"check.py": "x = 1"}, wrong={}, id=name) for name in ("one", "two")]
    for case in cases:
        write_lock(tmp_path / "cases", new_lock(case, Surroundings.here(), _facts(case)))
    done = run_verify(tmp_path, "--changed", "--seed", "7")
    lines = done.output.splitlines()
    assert lines[0].startswith("seed 7: ") and lines[1].startswith("drawn: ")
    assert sorted(line.split()[0] for line in lines[2:4]) == ["prove", "skip"]
    assert "proven 2026-11-22; not drawn" in done.output
    assert done.exit_code == 1 and "it is forged" in done.output, "the drawn one never held"
    (drawn,) = (line.split()[1].rstrip(":") for line in lines if line.startswith("prove"))
    failed = [line for line in lines if line.startswith(f"FAIL {drawn}: untouched")]
    assert failed and failed[0].endswith(f"; to repeat it: ml-dev-bench cases verify {drawn} --seed 7")
