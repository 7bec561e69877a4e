"""The noise floor: what A/A runs measure, and which changes are then not called."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from bench.formats.record import Arm, Record
from bench.stats.compare import Compared, Comparison, compare_records
from bench.stats.intervals import Floats
from bench.stats.noise_floor import LEAST_CASES, MeasureNoise, losses_of, measure_noise, noise_floor, shift_chance
from bench.stats.pairing import make_sample
from bench.store.branch import ResultsBranch
from bench.store.bundle import Bundle
from tests.helpers.command import mldb
from tests.helpers.records import MACHINE, START, make_check, make_record


def arm(
    which: Arm,
    seconds: Sequence[float],
    *,
    run: str = "aa",
    version: int = 1,
    trials: int = 2,
    passed: bool = True,
    day: int = 0,
    agent: str = "react",
    **changes: object,
) -> list[Record]:
    """One arm: the seconds of each case's trials."""
    found = []
    for number, value in enumerate(seconds):
        for trial in range(1, trials + 1):
            record = make_record(
                agent=agent,
                case=f"case_{number:02}",
                trial=trial,
                agent_version=version,
                agent_seconds=value,
                checks=None if passed else [make_check(value=0.0)],
                run=run,
                started=START + timedelta(days=day, minutes=number),
                **changes,  # type: ignore[arg-type]
            )
            found.append(record.model_copy(update={"arm": which, "cell": f"{record.cell}/{which}"}))
    return found


def same(shift: float, run: str = "aa", cases: int = 20, **changes: object) -> list[Record]:
    """An A/A run whose head took `shift` as long as its base."""
    seconds = [60.0 + 5 * n for n in range(cases)]
    slower = [value * shift * (1 + 0.02 * (-1) ** n) for n, value in enumerate(seconds)]
    return [*arm("base", seconds, run=run, **changes), *arm("head", slower, run=run, **changes)]  # type: ignore[arg-type]


def compared(shift: float, others: Sequence[Record], **changes: object) -> Comparison:
    """Of two versions, head taking `shift` as long."""
    seconds = [60.0 + 5 * n for n in range(20)]
    base = arm("base", seconds, run="ab", **changes)  # type: ignore[arg-type]
    head = arm("head", [shift * it for it in seconds], run="ab", version=2, **changes)  # type: ignore[arg-type]
    return compare_records(base, head, gates=("time",), others=others)


def time_of(answer: Comparison) -> Compared:
    return next(it for it in answer.measures if it.measure == "time")


def test_a_difference_that_equal_agents_show_as_well_is_not_called() -> None:
    assert compared(1.2, []).verdict == "regression"
    answer = compared(1.2, same(1.2))
    assert answer.verdict == "below the noise floor"
    found = time_of(answer)
    assert found.floor is not None
    assert found.floor == pytest.approx(1.645 * math.log(1.2), rel=0.05)
    assert compared(0.85, same(1.2)).verdict == "below the noise floor", "the direction of the shift is chance"
    assert compared(2.0, same(1.2)).verdict == "regression", "what is far beyond the floor is called"


def test_no_change_cannot_be_said_where_the_floor_hides_the_margin() -> None:
    assert compared(1.0, same(1.0)).verdict == "no difference seen"
    nearly = [60.0 + 5 * n for n in range(20)]
    base = arm("base", nearly, run="ab")
    head = arm("head", [it * (1 + 0.001 * (-1) ** n) for n, it in enumerate(nearly)], run="ab", version=2)
    assert compare_records(base, head, gates=("time",)).verdict == "no change"
    assert compare_records(base, head, gates=("time",), others=same(1.2)).verdict == "below the noise floor"


def test_arms_that_agree_leave_every_verdict_as_it_is() -> None:
    answer = compared(1.2, same(1.0))
    assert answer.verdict == "regression"
    assert answer.noise is not None
    assert answer.noise.measures["time"].shift == 0
    assert {it.measure: it.floor for it in answer.measures}["success"] == 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"machine": MACHINE.model_copy(update={"fingerprint": "other"})}, None),
        ({"cost_status": "exact"}, "its calls are paid, those of the comparison replayed"),
        ({"profile": "full"}, "another profile"),
        ({"cases": LEAST_CASES - 1}, "has 4 cases, 5 are the least"),
    ],
)
def test_an_a_a_run_of_other_conditions_does_not_count(changes: dict[str, object], reason: str | None) -> None:
    answer = compared(1.2, same(1.2, **changes))  # type: ignore[arg-type]
    assert answer.verdict == "regression"
    assert answer.noise is not None
    assert (answer.noise.runs, answer.noise.left_out) == ([], [] if reason is None else [f"aa: {reason}"])


def test_one_digest_with_two_ids_is_not_one_agent() -> None:
    """Two descriptions in one folder: the digest is of the folder."""
    records = [
        it.model_copy(update={"agent": it.agent.model_copy(update={"id": "react_nolog"})}) if it.arm == "head" else it
        for it in same(1.2)
    ]
    assert compared(1.2, records).verdict == "regression"
    versions = [it for it in same(1.2) if it.arm == "base"] + arm("head", [72.0] * 20, run="aa", version=3)
    assert compared(1.2, versions).verdict == "regression"


def test_a_run_is_not_its_own_floor() -> None:
    records = same(1.2)
    base, head = ([it for it in records if it.arm == which] for which in ("base", "head"))
    answer = compare_records(base, head, gates=("time",), others=records)
    assert answer.noise is not None
    assert answer.noise.runs == []


def test_a_small_a_a_run_does_not_blind_a_large_comparison() -> None:
    """Its trials' error is counted at the size of the comparison, and a shift only where it is shown."""
    rng = np.random.default_rng(3)
    floors = []
    for _ in range(40):
        base, head = ([rng.binomial(1, 0.5, 1).astype(float) for _ in range(8)] for _ in range(2))
        small = make_sample([str(n) for n in range(8)], base, head, ratio=False)
        floors.append(measure_noise([small]).floor(50, 2 / 5, 0.05))
    assert np.median(floors) < 0.08
    assert np.mean(np.array(floors) > 0.15) < 0.1


def test_shifts_are_shown_by_the_t_test_of_one_run_and_by_all_together() -> None:
    differences = np.random.default_rng(1).normal(0.1, 0.3, 20)
    reference = ttest_1samp(differences, 0)
    assert shift_chance([(float(reference.statistic), 19)]) == pytest.approx(float(reference.pvalue))
    assert shift_chance([(1.5, 19)] * 6) < shift_chance([(1.5, 19)])
    assert shift_chance([(math.inf, 4)]) < 1e-100


def test_the_floor_is_passed_by_equal_agents_about_as_often_as_it_says() -> None:
    """Runs of 20 cases whose arms differ by a shift of sd 0.1; the more runs, the better it is known."""
    rng = np.random.default_rng(11)

    def run(n: int) -> list[tuple[Floats, Floats]]:
        return [(rng.lognormal(0, 0.1, (20, 2)), rng.lognormal(rng.normal(0, 0.1), 0.1, (20, 2))) for _ in range(n)]

    passed = {1: 0, 5: 0}
    repetitions = 200
    for _ in range(repetitions):
        for count in passed:
            noise = measure_noise(
                [make_sample([str(n) for n in range(20)], list(b), list(h), ratio=True) for b, h in run(count)]
            )
            base, head = run(1)[0]
            difference = float((np.log(head.mean(axis=1)) - np.log(base.mean(axis=1))).mean())
            passed[count] += difference > noise.floor(20, 1.0, 0.05)
    shares = {count: found / repetitions for count, found in passed.items()}
    assert shares[5] < 0.13
    assert shares[1] < 0.25, "one run is a rough measure, and better than none (half of the shifts)"


def test_the_floor_without_a_shift_is_that_of_the_trials() -> None:
    noise = MeasureNoise(1, 0.0, 0.25)
    assert noise.floor(50, 2 / 5, 0.05) == pytest.approx(1.6449 * math.sqrt(0.25 * 0.4 / 50), rel=1e-4)


def test_losses_are_counted_once_and_over_cases() -> None:
    records = arm("base", [60.0] * 4)
    lost = make_record(case="case_00", trial=3, outcome="infra", run="aa")
    found = losses_of([*records, *records, lost])
    assert (found.lost, found.cells) == (1, 9)
    assert found.rate is not None
    assert found.rate.mean == pytest.approx(1 / 12)


def test_several_classes_of_machines_have_no_floor() -> None:
    base = arm("base", [60.0] * 6, machine=MACHINE.model_copy(update={"fingerprint": "other"}))
    assert noise_floor(base, arm("head", [60.0] * 6), same(1.2)).machine == ""


def test_the_command_names_the_floor_or_says_that_there_is_none(tmp_path: Path) -> None:
    repository = tmp_path / "results.git"
    branch = ResultsBranch(repository)
    branch.ensure()
    branch.commit(Bundle("aa", 1, same(1.2), START))
    seconds = [60.0 + 5 * n for n in range(20)]
    for which, shift, version in (("base", 1.0, 1), ("head", 1.2, 2)):
        records = arm(which, [shift * it for it in seconds], run="ab", version=version, day=9)  # type: ignore[arg-type]
        (tmp_path / f"{which}.jsonl").write_text("\n".join(it.to_line() for it in records))
    pair = (tmp_path / "base.jsonl", tmp_path / "head.jsonl", "--gate", "time")
    alone = mldb("compare", *pair)
    assert alone.returncode == 1, alone.stderr
    assert "noise floor: no A/A run of machine class linux-x86_64-2c-8g is known" in alone.stdout
    stored = mldb("compare", *pair, "--results", repository)
    assert stored.returncode == 3, stored.stderr
    assert stored.stdout.startswith("BELOW THE NOISE FLOOR (by time")
    assert "noise floor of machine class linux-x86_64-2c-8g, by 1 A/A run (aa): success 0.0 points" in stored.stdout
    assert "lost to infrastructure: base 0 of 40 cells; head 0 of 40 cells; A/A 0 of 80 cells" in stored.stdout
    (tmp_path / "aa.jsonl").write_text("\n".join(it.to_line() for it in same(1.2)))
    named = mldb("compare", *pair, "--noise", tmp_path / "aa.jsonl", "--json")
    assert named.returncode == 3, named.stderr
    answer = json.loads(named.stdout)
    assert (answer["verdict"], answer["noise"]["runs"]) == ("below the noise floor", ["aa"])
