"""Whatever fault meets a run: `--resume` ends with the records of an undisturbed run, and nothing is left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.formats.failures import FAILURES
from bench.sandbox.bubblewrap import BubblewrapSandbox
from tests.helpers.cells import not_here
from tests.helpers.fault_places import Mounts, SettableClock, cut, fill, flip, no_memory, own_mounts
from tests.helpers.faults import (
    AGENTS,
    TRIALS,
    Rig,
    Tally,
    Verdicts,
    finish,
    kill_through,
    settle,
    undisturbed,
    wait_for,
)
from tests.helpers.sampling import at_night, on_push
from tests.helpers.victims import KINDS, kill, strike, victims

pytestmark = pytest.mark.slow
CELLS = TRIALS * len(AGENTS)
CAUSES = {
    "judge": "judge_killed",
    "gateway": "gateway_error",
    "init": "sandbox_error",
    "sandbox": "sandbox_error",
    "services": "service_error",
    "builder": "builder_killed",
}


@dataclass
class Stand:
    """Makes rigs, and knows what an undisturbed run comes to."""

    folder: Path
    sandbox: str
    expected: Verdicts

    def rig(self, name: str, **changes: object) -> Rig:
        return Rig(self.folder / name, self.sandbox, **changes)  # type: ignore[arg-type]

    def require_same(self, rig: Rig) -> None:
        """The run is finished as if nothing had been."""
        assert rig.verdicts() == self.expected
        assert rig.left_behind() == []

    def resume(self, rig: Rig) -> str:
        """Go on to the end; returns what was said."""
        status, said = finish(rig.resume())
        assert status == 0, said
        self.require_same(rig)
        return said


@pytest.fixture(scope="module")
def expected(bubblewrap: BubblewrapSandbox, tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    verdicts = undisturbed(tmp_path_factory.mktemp("c") / "r", bubblewrap.name)
    assert {verdict[1] for verdict in verdicts.values()} == {True, False}
    return verdicts


@pytest.fixture
def stand(bubblewrap: BubblewrapSandbox, expected: Verdicts, tmp_path_factory: pytest.TempPathFactory) -> Stand:
    # Short: there are Unix sockets below it.
    return Stand(tmp_path_factory.mktemp("f"), bubblewrap.name, expected)


@pytest.fixture
def mounts() -> Iterator[Mounts]:
    try:
        with own_mounts() as made:
            yield made
    except (OSError, subprocess.CalledProcessError) as error:
        not_here(f"disks of our own: {error}")


def one_line(said: str) -> str:
    """The error, of which there is one line."""
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, said
    return errors[0]


# --- kills -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", on_push([kind for kind in KINDS if kind not in ("runner", "agent", "judge")], ["services"])
)
def test_a_killed_process_costs_a_try_and_no_cell(stand: Stand, kind: str) -> None:
    rig = stand.rig("r")
    process = rig.begun()
    assert strike(process, kind, rig.folder, set(), patience_s=30)
    status, said = finish(process)
    assert status == 0, said
    assert causes(rig) == [("infra", CAUSES[kind])]
    assert FAILURES[CAUSES[kind]].retry
    stand.require_same(rig)


def at_the_gate(rig: Rig) -> subprocess.Popen[bytes]:
    """A run each of whose jobs is in the middle of a grading, and stays there until the gate is gone."""
    rig.grading_gate.touch()
    process = rig.begun()
    wait_for(lambda: len(rig.gradings()) >= rig.jobs, process)
    return process


def causes(rig: Rig) -> list[tuple[str, str | None]]:
    return [(earlier.outcome, earlier.cause) for record in rig.records() for earlier in record.tries]


def test_a_judge_killed_in_a_check_costs_a_try_and_no_cell(stand: Stand) -> None:
    rig = stand.rig("r")
    process = at_the_gate(rig)
    assert kill(rig.gradings()[0], "judge")
    rig.grading_gate.unlink()
    status, said = finish(process)
    assert status == 0, said
    assert causes(rig) == [("infra", CAUSES["judge"])]
    assert FAILURES[CAUSES["judge"]].retry
    stand.require_same(rig)


@pytest.mark.nightly
def test_the_judges_server_killed_costs_a_try_of_each_grading(stand: Stand) -> None:
    rig = stand.rig("r")
    process = at_the_gate(rig)
    (server,) = {int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in rig.gradings()}
    assert kill(server, "judge")
    rig.grading_gate.unlink()
    status, said = finish(process)
    assert status == 0, said
    assert causes(rig) == [("infra", CAUSES["judge"])] * rig.jobs
    stand.require_same(rig)


@pytest.mark.nightly
def test_a_judge_killed_twice_is_no_verdict_and_resume_finds_it(stand: Stand) -> None:
    rig = stand.rig("r", jobs=1)
    process = rig.begun()
    for _ in range(2):
        assert strike(process, "judge", rig.folder, set(), patience_s=30)
    status, _ = finish(process)
    # Between two gradings the server that forks them may be hit: it is started again, and nothing is lost.
    lost = [record.cause for record in rig.records() if record.outcome == "infra"]
    assert (status, lost) in [(0, []), (1, ["judge_killed"])]
    stand.resume(rig)


@pytest.mark.nightly
def test_the_judges_sandbox_killed_is_no_failed_check(stand: Stand) -> None:
    rig = stand.rig("r")
    process = rig.begun()

    def struck() -> bool:
        judges = victims(process.pid, "judge", rig.folder)
        return any(kill(pid, "init") for judge in judges for pid in victims(judge, "init", rig.folder))

    wait_for(struck, process)
    status, said = finish(process)
    assert status == 0, said
    # A warm process that is hit between two calls is started again.
    assert [it.cause for record in rig.records() for it in record.tries] in ([], ["sandbox_error"])
    stand.require_same(rig)


@pytest.mark.nightly
def test_the_kernel_kills_the_judge_for_want_of_memory(stand: Stand) -> None:
    # One grading at a time: two forks of the judge would be killed together.
    rig = stand.rig("r", jobs=1)
    process = at_the_gate(rig)
    try:
        with no_memory() as take:
            take(rig.gradings()[0], rig.grading_gate.unlink)
            status, said = finish(process)
    except PermissionError as error:
        process.kill()
        finish(process)
        not_here(f"control groups that we may make: {error}")
    assert status == 0, said
    assert causes(rig) == [("infra", CAUSES["judge"])]
    stand.require_same(rig)


def test_an_agent_that_is_killed_has_crashed(stand: Stand) -> None:
    rig = stand.rig("r", jobs=1)
    rig.gate.touch()
    process = rig.begun()
    assert strike(process, "agent", rig.folder, set(), patience_s=30)
    rig.gate.unlink()
    status, said = finish(process)
    assert status == 0, said
    (hit,) = [record for record in rig.records() if record.stop_reason == "crashed" and not record.steps]
    assert (hit.outcome, hit.tries) == ("graded", [])


@pytest.mark.parametrize("after", [at_night("builder"), "judge"])
def test_a_runner_killed_in_each_phase(stand: Stand, after: str) -> None:
    rig = stand.rig("r")
    process = rig.begun()
    wait_for(lambda: victims(process.pid, after, rig.folder), process)
    process.send_signal(signal.SIGKILL)
    finish(process)
    stand.resume(rig)


@pytest.mark.nightly
def test_random_kills(stand: Stand) -> None:
    rng, tally = random.Random(11), Tally()
    while tally.total < 8:
        rig = stand.rig(f"r{tally.runs}")
        kill_through(rig, rng, min(8 - tally.total, 4), tally)
        settle(rig, stand.expected, tally)
    assert (tally.lost, tally.doubled, tally.torn, tally.changed, tally.leftovers) == (0, 0, 0, 0, 0), tally.faults
    assert tally.faults == []


# --- disks -----------------------------------------------------------------------------------------------------------


def on_disk(stand: Stand, mounts: Mounts) -> Rig:
    """A rig whose run folder is on a small disk."""
    rig = stand.rig("r", prefix=mounts.prefix, root=mounts.root)
    mounts.small_disk(rig.folder / "out", 128)
    return rig


@pytest.mark.nightly
def test_a_disk_that_is_full_from_the_start_is_one_line(stand: Stand, mounts: Mounts) -> None:
    rig = on_disk(stand, mounts)
    filler = fill(rig.out, 0)
    status, said = finish(rig.begin())
    assert status == 2
    assert "64 MB of disk, for which 86 MB must be free; 0 MB are (free disk space" in one_line(said)
    assert sorted(rig.out.iterdir()) == [filler]
    filler.unlink()
    status, said = finish(rig.begin())
    assert status == 0, said
    stand.require_same(rig)


@pytest.mark.parametrize("left_mb", [0, at_night(8)])
def test_a_disk_that_fills_up_under_the_agents(stand: Stand, mounts: Mounts, left_mb: int) -> None:
    rig = on_disk(stand, mounts)
    rig.gate.touch()
    process = rig.begun()
    wait_for(lambda: len(victims(process.pid, "agent", rig.folder)) >= 3, process)
    filler = fill(rig.out, left_mb)
    rig.gate.unlink()
    status, said = finish(process)
    # With no room at all even what was found out may find no place; and all that was found out is this.
    assert status == 1 or (status == 2 and not left_mb and "No space left on device" in one_line(said))
    assert {(record.outcome, record.cause) for record in rig.records()} <= {("infra", "disk_full")}
    filler.unlink()
    stand.resume(rig)


@pytest.mark.nightly
def test_a_run_folder_that_cannot_be_written_from_the_start(stand: Stand, mounts: Mounts) -> None:
    rig = stand.rig("r", prefix=mounts.prefix, root=mounts.root)
    mounts.read_only(rig.folder / "out")
    status, said = finish(rig.begin())
    assert status == 2
    assert "Read-only file system (make it writable, then start again)" in one_line(said)
    mounts.writable_again(rig.folder / "out")
    status, said = finish(rig.begin())
    assert status == 0, said
    stand.require_same(rig)


@pytest.mark.nightly
def test_a_run_folder_that_cannot_be_written_any_more(stand: Stand, mounts: Mounts) -> None:
    rig = stand.rig("r", prefix=mounts.prefix, root=mounts.root)
    rig.gate.touch()
    process = rig.begun()
    wait_for(lambda: len(victims(process.pid, "agent", rig.folder)) >= 3, process)
    mounts.read_only(rig.folder / "out")
    rig.gate.unlink()
    status, said = finish(process)
    assert status == 2
    assert "Read-only file system (make it writable, then go on with --resume)" in one_line(said)
    status, said = finish(rig.resume())
    assert (status, "Read-only file system" in one_line(said)) == (2, True)
    mounts.writable_again(rig.folder / "out")
    stand.resume(rig)


@pytest.mark.nightly
def test_a_results_repository_that_cannot_be_written(stand: Stand, mounts: Mounts) -> None:
    rig = stand.rig("r", prefix=mounts.prefix, root=mounts.root)
    results = rig.folder / "results"
    results.mkdir()
    mounts.read_only(results)
    status, said = finish(rig.begin("--results", str(results / "repository")))
    assert status == 2
    assert str(results) in one_line(said)
    assert not rig.out.exists() or not list(rig.out.iterdir()), "it is looked at before the first cell"
    mounts.writable_again(results)
    status, said = finish(rig.begin("--results", str(results / "repository")))
    assert status == 0, said
    stand.require_same(rig)
    git = ["git", "-C", str(results / "repository"), "log", "--oneline", "mldb-results"]
    assert len(subprocess.run(git, check=True, capture_output=True).stdout.splitlines()) >= 1


# --- clock -----------------------------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize("seconds", [7200, -7200])
def test_the_clock_is_set_while_agents_work(stand: Stand, mounts: Mounts, seconds: int) -> None:
    rig = stand.rig("r", prefix=mounts.prefix, root=mounts.root)
    try:
        clock = SettableClock(rig.folder / "clock", mounts)
    except (OSError, subprocess.CalledProcessError) as error:
        not_here(f"a C compiler, for a clock that can be set: {error}")
    rig.gate.touch()
    process = rig.begun()
    wait_for(lambda: len(victims(process.pid, "agent", rig.folder)) >= 3, process)
    clock.set(seconds)
    rig.gate.unlink()
    status, said = finish(process)
    assert status == 0, said
    records = rig.records()
    assert [it.cause for record in records for it in record.tries] == ["clock_jump"] * 3
    assert all(record.started <= record.phases[0].start <= record.finished for record in records)
    stand.require_same(rig)


# --- damaged files ---------------------------------------------------------------------------------------------------


def finished_rig(stand: Stand) -> Rig:
    rig = stand.rig("r")
    status, said = finish(rig.begin())
    assert status == 0, said
    return rig


@pytest.mark.nightly
def test_a_damaged_record_is_put_aside_and_its_cell_runs_again(stand: Stand) -> None:
    rig = finished_rig(stand)
    path = sorted((rig.run / "cells").glob("*.json"))[0]
    cut(path)
    content = path.read_bytes()
    said = stand.resume(rig)
    assert [line for line in said.splitlines() if line.startswith("note: ") and str(path) in line]
    assert said.count("(kept)") == CELLS - 1
    assert path.with_name(f"{path.name}.broken1").read_bytes() == content


@pytest.mark.nightly
def test_a_digit_of_a_score_is_damage_too(stand: Stand) -> None:
    rig = finished_rig(stand)
    path = next(it for it in (rig.run / "cells").glob("*.json") if b'"score":1.0' in it.read_bytes())
    path.write_bytes(path.read_bytes().replace(b'"score":1.0', b'"score":0.0', 1))
    assert "is not what was written here" in stand.resume(rig)


@pytest.mark.nightly
def test_a_damaged_plan_comes_back_from_its_copy(stand: Stand) -> None:
    rig = stand.rig("r")
    process = rig.begun()
    wait_for(lambda: victims(process.pid, "agent", rig.folder), process)
    process.send_signal(signal.SIGKILL)
    finish(process)
    flip(rig.run / "run.json")
    assert "restored from run.json.copy" in stand.resume(rig)
    assert (rig.run / "run.json").read_bytes() == (rig.run / "run.json.copy").read_bytes()


@pytest.mark.nightly
def test_a_plan_without_a_good_copy_is_one_line(stand: Stand) -> None:
    rig = finished_rig(stand)
    before = {path: path.read_bytes() for path in (rig.run / "cells").iterdir()}
    for name in ("run.json", "run.json.copy"):
        flip(rig.run / name)
    status, said = finish(rig.resume())
    assert status == 2
    assert "run.json: does not match its checksum in SHA256SUMS (start a new run)" in one_line(said)
    assert {path: path.read_bytes() for path in (rig.run / "cells").iterdir()} == before


@pytest.mark.nightly
def test_a_cassette_damaged_between_two_starts(stand: Stand) -> None:
    rig = stand.rig("r")
    process = rig.begun()
    wait_for(lambda: victims(process.pid, "agent", rig.folder), process)
    process.send_signal(signal.SIGKILL)
    finish(process)
    good = rig.cassette.read_bytes()
    cut(rig.cassette)
    status, said = finish(rig.resume())
    assert (status, "'first' has changed since the run began" in one_line(said)) == (2, True)
    rig.cassette.write_bytes(good)
    stand.resume(rig)


@pytest.mark.nightly
def test_a_cassette_damaged_under_a_run_spoils_no_verdict(stand: Stand) -> None:
    rig = stand.rig("r", jobs=2)
    rig.gate.touch()
    process = rig.begun()
    wait_for(lambda: len(victims(process.pid, "agent", rig.folder)) >= 2, process)
    good = rig.cassette.read_bytes()
    # What the model says is another text now, and the cassette as valid as before.
    rig.cassette.write_bytes(good.replace(b"return 2 * x", b"return 3 * x"))
    assert rig.cassette.read_bytes() != good
    rig.gate.unlink()
    status, _ = finish(process)
    assert status == 1
    lost = [record for record in rig.records() if record.outcome != "graded"]
    assert {(record.agent.id, record.outcome, record.cause) for record in lost} == {("first", "infra", "setup_error")}
    assert all(str(rig.folder / "agents" / "first") in record.error for record in lost)
    rig.cassette.write_bytes(good)
    stand.resume(rig)


def starts(rig: Rig) -> list[Path]:
    return sorted(path.parent for path in (rig.folder / "cache" / "starts").glob("*/complete"))


@pytest.mark.nightly
def test_a_damaged_cache_heals_by_itself(stand: Stand) -> None:
    rig = stand.rig("r")
    process = rig.begun()
    wait_for(lambda: len(starts(rig)) == TRIALS, process)
    process.send_signal(signal.SIGKILL)
    finish(process)
    before = {place: (place / "complete").read_bytes() for place in starts(rig)}
    one, other = starts(rig)
    flip(one / "workspace" / "seed.txt", 0)
    (other / "complete").unlink()
    stand.resume(rig)
    assert {place: (place / "complete").read_bytes() for place in starts(rig)} == before


# --- two at once -----------------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_two_runners_on_one_run_folder(stand: Stand) -> None:
    rig = stand.rig("r")
    rig.gate.touch()
    first = rig.begun()
    wait_for(lambda: len(victims(first.pid, "agent", rig.folder)) >= 3, first)
    for _ in range(3):
        status, said = finish(rig.resume())
        assert (status, "another runner works on this run" in one_line(said)) == (2, True)
    rig.gate.unlink()
    status, said = finish(first)
    assert status == 0, said
    assert all(record.tries == [] for record in rig.records())
    stand.require_same(rig)


@pytest.mark.nightly
def test_two_runs_begun_at_once_under_one_name(stand: Stand) -> None:
    rig = stand.rig("r")
    processes = [rig.begin("--name", "one") for _ in range(3)]
    ends = [finish(process) for process in processes]
    assert sorted(status for status, _ in ends) == [0, 2, 2]
    refused = [one_line(said) for status, said in ends if status == 2]
    assert all("holds a run already" in line or "another runner" in line for line in refused), refused
    stand.require_same(rig)


@pytest.mark.nightly
def test_two_runs_share_a_cache_that_neither_has_built(stand: Stand) -> None:
    rigs = [stand.rig(name) for name in ("r", "s")]
    for rig in rigs:
        rig.env["ML_DEV_BENCH_CACHE"] = str(stand.folder / "shared")
        (rig.folder / "cache").symlink_to(stand.folder / "shared")
    for process in [rig.begin() for rig in rigs]:
        status, said = finish(process)
        assert status == 0, said
    for rig in rigs:
        stand.require_same(rig)


@pytest.mark.nightly
def test_what_a_killed_runner_left_goes_with_the_next_start_of_any_run(stand: Stand) -> None:
    killed, other = stand.rig("r"), stand.rig("s")
    other.env["TMPDIR"] = str(killed.room)
    killed.gate.touch()
    process = killed.begun()
    wait_for(lambda: victims(process.pid, "agent", killed.folder), process)
    assert kill(process.pid, "runner")
    finish(process)
    assert [path.name for path in killed.room.iterdir() if path.name.startswith(f"mldb-{os.getuid()}.run.")]
    status, said = finish(other.begin())
    assert status == 0, said
    assert list(killed.room.iterdir()) == []
