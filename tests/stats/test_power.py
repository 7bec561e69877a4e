"""The planner: variance components from history, and whether its promises hold for the real test."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bench.formats.record import Record
from bench.stats.pairing import MEASURES, make_sample
from bench.stats.power import Components, Question, cases_needed, components, designs, power, price, trials_needed
from bench.stats.tests import Rules
from bench.stats.verdict import judge
from tests.helpers.command import mldb
from tests.helpers.records import MACHINE, make_check, make_record

FAIL = [make_check(value=0.0)]
SUCCESS = MEASURES["success"]
PARTS = Components(mean=0.5, between=0.18, within=0.07, cases=50, trials=150, repeated=True)


def history(successes: list[int], trials: int, *, version: int = 1, **changes: object) -> list[Record]:
    return [
        make_record(
            case=f"case_{number:02}",
            trial=trial,
            checks=None if trial <= count else FAIL,
            agent_version=version,
            run=f"night-{version}",
            **changes,  # type: ignore[arg-type]
        )
        for number, count in enumerate(successes)
        for trial in range(1, trials + 1)
    ]


def test_components_are_those_of_the_analysis_of_variance() -> None:
    parts = components(history([4, 2, 0], 4), SUCCESS)
    assert parts is not None
    # Within: 0, 1/3 and 0. Between: the variance 1/4 of the means 1, 1/2 and 0, less 1/9 for 4 trials.
    assert parts.within == pytest.approx(1 / 9)
    assert parts.between == pytest.approx(1 / 4 - 1 / 36)
    assert (parts.mean, parts.cases, parts.trials, parts.repeated) == (0.5, 3, 12, True)


def test_another_version_is_no_second_trial() -> None:
    parts = components([*history([1, 1, 0], 1), *history([0, 1, 1], 1, version=2)], SUCCESS)
    assert parts is not None
    assert not parts.repeated
    assert parts.between == 0
    assert components(history([1], 1), SUCCESS) is None
    both = components([*history([2, 2, 0], 2), *history([0, 2, 2], 2, version=2)], SUCCESS)
    assert both is not None
    assert both.within == 0, "what changes with the version is not noise"


def test_components_of_drawn_results_are_near_the_truth() -> None:
    rng = np.random.default_rng(3)
    chances = rng.beta(0.5, 0.5, size=60)
    successes = [int(rng.binomial(4, chance)) for chance in chances]
    parts = components(history(successes, 4), SUCCESS)
    assert parts is not None
    assert parts.within == pytest.approx(float((chances * (1 - chances)).mean()), abs=0.03)
    assert parts.between == pytest.approx(float(chances.var()), abs=0.03)


@pytest.mark.parametrize(("cases", "trials"), [(20, 3), (50, 3)])
def test_the_promised_chance_is_that_of_the_real_comparison(cases: int, trials: int) -> None:
    promised = power(Question(PARTS, 0.1, True), cases, trials)
    rng = np.random.default_rng(1)
    weight = 0.25 / PARTS.between - 1
    found = 0
    for _ in range(300):
        p = rng.beta(weight / 2, weight / 2, size=cases)[:, None]
        base, head = ((rng.random((cases, trials)) < chance).astype(float) for chance in (p, 0.8 * p))
        it = make_sample([str(n) for n in range(cases)], list(base), list(head), ratio=False)
        found += judge(it.differences, 0.05, 0.05, lower_is_worse=True).verdict == "regression"
    assert promised == pytest.approx(found / 300, abs=0.09)


def test_plans_are_enough_and_not_more() -> None:
    question = Question(PARTS, 0.1, True)
    trials, cases = trials_needed(question, 50), cases_needed(question, 3)
    assert trials is not None
    assert cases is not None
    assert 2 <= trials <= 5
    assert power(question, 50, trials) >= 0.8 > power(question, 50, trials - 1)
    assert power(question, cases, 3) >= 0.8
    assert power(question, cases // 2, 3) < 0.8
    assert trials_needed(question, 4) is None, "no number of trials makes four cases speak"
    smaller = cases_needed(Question(PARTS, 0.02, True, Rules(margin=0.01)), 3)
    assert smaller is not None
    assert smaller > 10 * cases
    scores = trials_needed(Question(PARTS, 0.1, False), 50)
    assert scores is not None
    assert scores <= trials + 3


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("cases", [3, 40, 400])
def test_a_history_of_nothing_but_successes_can_drop(cases: int) -> None:
    parts = components(history([2] * 3, 2), SUCCESS)
    assert parts is not None
    assert (parts.mean, parts.between, parts.within) == (1.0, 0.0, 0.0)
    question = Question(parts, 0.1, True)
    assert power(question, cases, 3) == pytest.approx({3: 0, 40: 1, 400: 1}[cases], abs=0.02)


def test_plans_have_a_price() -> None:
    gpu = MACHINE.model_copy(update={"gpu": "NVIDIA L4"})
    records = history([3, 2, 1], 3, agent_seconds=3594.5, cost_usd=0.5, cost_status="exact", machine=gpu)
    cost = price([*records, make_record(outcome="infra")])
    assert cost is not None
    assert cost.machine_hours == cost.gpu_hours == pytest.approx(1.0)
    assert cost.cost.mean_usd == 0.5
    five = next(it for it in designs(Question(PARTS, 0.1, True), cost, 4) if it.trials == 5)
    assert (five.cells, five.usd) == (500, 250.0)
    assert five.gpu_hours == pytest.approx(500.0)
    alone = next(it for it in designs(Question(PARTS, 0.1, True), cost, 4, sides=1) if it.trials == 5)
    assert alone.usd == 125.0
    assert price([make_record(outcome="infra")]) is None


def test_the_command_plans_from_a_file_of_records(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    successes = [3, 3, 3, 2, 1, 0, 0, 3, 2, 1] * 3
    file.write_text("".join(f"{record.to_line()}\n" for record in history(successes, 3)))
    done = mldb("power", file)
    assert done.returncode == 0, done.stderr
    assert "<- enough" in done.stdout
    assert "cases like these" in done.stdout
    assert "replayed" in done.stdout, "no money was paid for this history"
    answer = json.loads(mldb("power", file, "--drop", "0.2", "--json").stdout)
    assert answer["history"]["components"]["cases"] == 30
    assert answer["trials"] >= 1
    refused = mldb("power", file, "--drop", "0.9")
    assert (refused.returncode, "choose a smaller drop" in refused.stderr) == (2, True)
    file.write_text("".join(f"{record.to_line()}\n" for record in history([3, 0, 1], 3)))
    few = mldb("power", file)
    assert few.returncode == 1, "three cases are never enough"
    assert "no result of fewer than 5 cases is significant" in few.stdout
    file.write_text("".join(f"{record.to_line()}\n" for record in history([3] * 30, 3)))
    sure = mldb("power", file)
    assert (sure.returncode, sure.stderr) == (0, "")
    assert "<- enough" in sure.stdout
