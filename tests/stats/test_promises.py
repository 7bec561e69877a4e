"""The bars of the statistics, with few repetitions: `tests/benchmarks/verdicts.py` has the whole study."""

from __future__ import annotations

import pytest

from tests.benchmarks.difficulty import MIXTURES, Mixture
from tests.benchmarks.verdicts import Task, main, run
from tests.helpers.sampling import at_night

REPETITIONS = 250


@pytest.mark.slow
@pytest.mark.parametrize(
    "mixture", [at_night(MIXTURES[0]), MIXTURES[1], at_night(MIXTURES[2])], ids=lambda mixture: mixture.name
)
def test_verdicts_do_not_cry_wolf_and_see_a_ten_point_drop(mixture: Mixture) -> None:
    _, quiet = run(Task("compare", mixture, "none", 50, 3, REPETITIONS, 1))
    assert quiet.share(quiet.regression) <= 0.05 + 2 * 0.014, "at most 5%, and two Monte Carlo errors"
    _, fallen = run(Task("compare", mixture, "everywhere", 50, 5, REPETITIONS, 2))
    assert fallen.share(fallen.regression) >= 0.75
    for tally in (quiet, fallen):
        assert 0.91 <= tally.share(tally.covered) <= 0.99


@pytest.mark.parametrize("study", ["mean", "score"])
def test_intervals_of_means_cover(study: str) -> None:
    for number, mixture in enumerate(MIXTURES[:3]):
        _, tally = run(Task(study, mixture, "none", 20, 3, 4 * REPETITIONS, number))
        assert 0.93 <= tally.share(tally.covered) <= 0.99, mixture.name


def test_the_sample_of_the_study_meets_its_bars(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--sample", "--processes", "1"]) == 0, capsys.readouterr().out
