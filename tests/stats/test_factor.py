"""What one setting does: effects by case, with difficulty and by kind; formulas against statsmodels and scipy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import pearsonr, ttest_ind
from statsmodels.regression.linear_model import OLS, WLS
from statsmodels.stats.proportion import confint_proportions_2indep

from bench.base.install import find_data_folders
from bench.formats.agent import Agent, differences, load_agent
from bench.formats.record import Arm, Record
from bench.stats.comparable import pair
from bench.stats.effects import FactorEffects
from bench.stats.factor import by_arms, by_others, factor_effects, factor_faults
from bench.stats.intervals import Floats, between, contrast, correlation, wilson
from bench.stats.tests import fit_slope
from tests.benchmarks.difficulty import MIXTURES, Mixture
from tests.helpers.command import mldb
from tests.helpers.records import make_check, make_record

ON = load_agent(find_data_folders().agents / "mlab_research")
OFF = load_agent(find_data_folders().agents / "mlab_research" / "nolog.yaml")


def of_agent(
    successes: Sequence[int], *, trials: int = 4, agent: Agent | str = "other", which: Arm = "", run: str = "log"
) -> list[Record]:
    """`successes` of `trials` on each case."""
    found = []
    for number, count in enumerate(successes):
        for trial in range(1, trials + 1):
            record = make_record(
                agent=agent if isinstance(agent, str) else agent.id,
                case=f"case_{number:02}",
                trial=trial,
                checks=None if trial <= count else [make_check(value=0.0)],
                run=run,
            )
            if isinstance(agent, Agent):
                own = record.agent.model_copy(update={"digest": agent.digest})
                record = record.model_copy(update={"agent": own})
            changes = {"arm": which, "cell": f"{record.cell}/{which}"} if which else {}
            found.append(record.model_copy(update=changes))
    return found


HARD = list(range(12))
BASE = of_agent([4 - min(4, n // 2) for n in HARD], agent=ON, which="base")
HEAD = of_agent([4] * 12, agent=OFF, which="head")
OTHERS = of_agent([4 - min(4, n // 3) for n in HARD], run="other-run")


def effects(others: Sequence[Record] = (), kinds: dict[str, str] | None = None) -> FactorEffects:
    found = factor_effects(pair(BASE, HEAD), others, kinds or {}, 0.05)
    assert found is not None
    return found


# --- formulas --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("base", "head"), [((3, 5), (5, 5)), ((0, 4), (4, 4)), ((2, 7), (1, 3)), ((56, 70), (48, 80))])
def test_the_interval_of_a_case_is_newcombes(base: tuple[int, int], head: tuple[int, int]) -> None:
    low, high = confint_proportions_2indep(*head, *base, method="newcomb", compare="diff")
    rates = [(count / n, wilson(count / n, n)) for count, n in (base, head)]
    found = between(*rates[0], *rates[1])
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9)


def test_a_slope_with_one_row_a_case_is_that_of_statsmodels_with_hc3() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.random(15), rng.normal(size=15)
    reference = OLS(y, np.column_stack([np.ones(15), x])).fit(cov_type="HC3", use_t=True)
    found = fit_slope([np.array([it]) for it in x], [np.array([it]) for it in y])
    assert found is not None
    assert found.slope == pytest.approx(reference.params[1])
    assert found.error == pytest.approx(reference.bse[1])
    assert found.p == pytest.approx(reference.pvalues[1])


def test_a_slope_with_several_rows_a_case_is_the_jackknife_of_weighted_least_squares() -> None:
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 5, 12)
    x, y = ([rng.random(n) for n in sizes] for _ in range(2))

    def slope(cases: Sequence[int]) -> float:
        rows = [np.concatenate([side[n] for n in cases]) for side in (x, y)]
        weights = np.concatenate([np.full(sizes[n], 1 / sizes[n]) for n in cases])
        return float(WLS(rows[1], np.column_stack([np.ones(len(rows[0])), rows[0]]), weights).fit().params[1])

    whole = slope(range(12))
    left_out = np.array([slope([n for n in range(12) if n != out]) for out in range(12)])
    found = fit_slope(x, y)
    assert found is not None
    assert (found.slope, found.error) == pytest.approx((whole, np.sqrt(((left_out - whole) ** 2).sum())))


def test_kinds_are_told_apart_by_welch_and_correlated_by_pearson() -> None:
    rng = np.random.default_rng(6)
    one, other = rng.normal(size=9), rng.normal(0.5, 2, size=6)
    found, reference = contrast(one, other), ttest_ind(other, one, equal_var=False)
    assert found is not None
    assert found.p == pytest.approx(reference.pvalue)
    interval = reference.confidence_interval()
    # Of differences of shares, so that no interval leaves what they can be.
    bounded = (max(-2.0, interval.low), min(2.0, interval.high))
    assert (found.interval.low, found.interval.high) == pytest.approx(bounded)
    linked = correlation(other, one[:6])
    expected = pearsonr(other, one[:6])
    assert linked is not None
    assert linked.interval is not None
    assert linked.r == pytest.approx(expected.statistic)
    span = expected.confidence_interval()
    assert (linked.interval.low, linked.interval.high) == pytest.approx((span.low, span.high), rel=1e-6)
    assert correlation(one[:3], other[:3]) is None
    assert contrast(one, other[:1]) is None


# --- interaction -----------------------------------------------------------------------------------------------------


def drawn(rng: np.random.Generator, chances: Floats, trials: int) -> list[Floats]:
    return [(rng.random(trials) < chance).astype(float) for chance in chances]


@pytest.mark.parametrize("exchanged", [False, True], ids=["nothing changed", "a fifth of cases redrawn on each side"])
@pytest.mark.parametrize("mixture", MIXTURES[::3], ids=lambda it: it.name)
def test_regression_to_the_mean_makes_no_interaction(exchanged: bool, mixture: Mixture) -> None:
    rng = np.random.default_rng(7)
    shown = {"others": 0, "arms": 0, "circular": 0}
    repetitions = 100
    for _ in range(repetitions):
        p = mixture.draw(rng, 40)
        chances = [np.where(rng.random(40) < 0.2 * exchanged, mixture.draw(rng, 40), p) for _ in range(2)]
        base, head = drawn(rng, chances[0], 3), drawn(rng, chances[1], 3)
        change = np.array([h.mean() - b.mean() for b, h in zip(base, head, strict=True)])
        hard = 1 - np.array([it.mean() for it in drawn(rng, p, 6)])
        for name, found in (
            ("others", by_others(change, hard, None, 0.05)),
            ("arms", by_arms(base, head, 0.05)),
            ("circular", by_others(change, 1 - np.array([it.mean() for it in base]), None, 0.05)),
        ):
            shown[name] += found.verdict.startswith("more")
    assert shown["others"] <= 11, shown
    assert shown["arms"] <= 5, shown
    assert shown["circular"] > 20, "what this must avoid"


def test_what_helps_hard_cases_is_seen() -> None:
    rng = np.random.default_rng(8)
    found = {"others": 0, "arms": 0}
    for _ in range(40):
        p = MIXTURES[0].draw(rng, 50)
        base, head = drawn(rng, p, 5), drawn(rng, p + 0.5 * (1 - p), 5)
        change = np.array([h.mean() - b.mean() for b, h in zip(base, head, strict=True)])
        hard = 1 - np.array([it.mean() for it in drawn(rng, p, 6)])
        found["others"] += by_others(change, hard, None, 0.05).verdict == "more on hard cases"
        found["arms"] += by_arms(base, head, 0.05).verdict == "more on hard cases"
    assert found["others"] >= 38
    assert found["arms"] >= 20


def test_few_cases_single_trials_and_equal_difficulty_are_not_tested() -> None:
    one = [np.array([1.0])] * 12
    assert by_arms(one, one, 0.05).reason == "0 cases with two trials of base; 10 are the least"
    nine = by_others(np.zeros(9), np.linspace(0, 1, 9), None, 0.05)
    assert (nine.verdict, nine.reason) == ("not tested", "9 cases; 10 are the least")
    alone = by_others(np.linspace(0, 1, 12), np.array([1.0, *[0.0] * 11]), None, 0.05)
    assert alone.verdict == "not tested", "one case decides"
    assert by_others(np.zeros(12), np.linspace(0, 1, 12), None, 0.05).verdict == "not tested"


# --- records ---------------------------------------------------------------------------------------------------------


def test_effects_are_told_by_case_with_the_difficulty_of_other_agents() -> None:
    found = effects(OTHERS)
    assert len(found.agents) == 1
    hardest = found.cases[-1]
    assert (hardest.base, hardest.head, hardest.success, hardest.difficulty) == ((0, 4), (4, 4), 1.0, 0.75)
    assert hardest.success_interval.low > 0
    interaction = found.measures[0].interaction
    assert (interaction.verdict, [it.by for it in interaction.slopes]) == ("more on hard cases", ["other agents"])
    assert interaction.slopes[0].reliability is not None


def test_the_arms_own_records_never_are_the_others() -> None:
    found = effects([*BASE, *HEAD])
    assert found.agents == []
    assert found.notes == ["difficulty: records of the compared agents are left out"]
    assert [it.by for it in found.measures[0].interaction.slopes] in ([], ["base", "head"])
    partial = effects(OTHERS[:40])
    assert partial.agents == []
    assert "was not graded on every case, and is left out" in partial.notes[0]


def test_kinds_of_cases_have_effects_and_are_correlated_over_agents() -> None:
    kinds = {f"case_{n:02}": "open-ended" if n % 2 else "canonical" for n in HARD}
    others = [
        record
        for k in range(4)
        for record in of_agent([max(0, 4 - (n + k) // 3) for n in HARD], agent=f"other_{k}", run="other-run")
    ]
    found = effects(others, kinds).measures[0]
    assert [(it.kind, it.cases) for it in found.kinds] == [("canonical", 6), ("open-ended", 6)]
    assert found.contrast is not None
    assert found.kind_and_difficulty is not None
    assert found.kind_and_difficulty.n == 12
    assert found.canonical_and_open_ended is not None
    assert found.canonical_and_open_ended.n == 5
    assert effects(OTHERS, kinds).measures[0].canonical_and_open_ended is None, "two agents"


def test_more_than_the_factor_must_not_differ() -> None:
    assert factor_faults(BASE, HEAD) == []
    other_run = of_agent([4] * 12, agent=OFF, run="later")
    assert factor_faults(BASE, other_run) == [
        "factor: base and head are of different runs; run both as arms of one (run --base)"
    ]
    unlike = [
        it.model_copy(update={"provenance": it.provenance.model_copy(update={"sandbox": "docker"})}) for it in HEAD
    ]
    assert factor_faults(BASE, unlike) == ["factor: sandbox is not the same for base and head"]
    assert factor_faults(BASE, [*HEAD, *of_agent([4] * 12, agent="third")]) == [
        "factor: head holds several versions of its agent"
    ]


def test_agents_that_differ_in_one_variable_differ_in_nothing_else(tmp_path: Path) -> None:
    assert differences(ON, OFF, without="MLAB_LOG") == []
    assert differences(ON, OFF, without="MLAB_STEPS") == ["environment"]
    for name, code in (("one", "a"), ("other", "b")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "agent.yaml").write_text(f"id: {name}\ncommand: [python, main.py]\n")
        (folder / "main.py").write_text(code)
    agents = [load_agent(tmp_path / name) for name in ("one", "other")]
    assert differences(*agents, without="X") == ["a file"]


def test_the_command_shows_the_factor_and_refuses_what_it_cannot_show(tmp_path: Path) -> None:
    for name, records in (("base", BASE), ("head", HEAD), ("others", OTHERS)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(it.to_line() for it in records))
    pair = (tmp_path / "base.jsonl", tmp_path / "head.jsonl")
    shown = mldb("compare", *pair, "--factor", "MLAB_LOG=on,off", "--difficulty", tmp_path / "others.jsonl")
    assert "factor MLAB_LOG: base on, head off" in shown.stdout, shown.stderr
    assert "success: interaction with difficulty: more on hard cases" in shown.stdout
    plain = mldb("compare", *pair, "--factor", "MLAB_LOG=on,off", "--json")
    answer = json.loads(plain.stdout)
    assert (answer["factor"]["variable"], len(answer["factor"]["cases"])) == ("MLAB_LOG", 12)
    wrong = mldb("compare", *pair, "--factor", "MLAB_LOG=off,on")
    assert wrong.returncode == 4
    assert "factor: base: no agent.yaml here is mlab_research" in wrong.stdout
    bad = mldb("compare", *pair, "--factor", "MLAB_LOG")
    assert (bad.returncode, "write NAME=BASE,HEAD" in bad.stderr) == (2, True)
