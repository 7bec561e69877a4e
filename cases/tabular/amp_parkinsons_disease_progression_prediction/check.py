"""Runs train.py on the tables of another clinic, whose test months a service hands out one at a time.

What counts is what the service had been told of each month before it gave the next: nothing that is worked out later,
and nothing that a file says, is looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from clinic import altered, other_numbers, renumbered

from bench.casekit.programs import left_alone
from bench.judge import Numbers, check, number, once, submission

TABLES = ("train_clinical_data.csv", "supplemental_clinical_data.csv", "train_proteins.csv", "train_peptides.csv")
EXAMPLES = ("test", "test_proteins", "test_peptides", "sample_submission")
STAY = ("public_timeseries_testing_util.py", *(f"example_test_files/{name}.csv" for name in EXAMPLES))
PROGRAM = ["python", "train.py"]
BAR, STRONG = 0.9, 0.55  # shares of what starter or medians reach on the same patients
WAITS = (0, 6, 12, 24)
RUN_S = 60
UP_TO = 24  # the month after which the example's samples are others, when train.py runs on it again
SAME = 10  # by the measure itself, in per cent: two unseeded forests are 3 apart, unlike models 7 to 40
SEEDED, LUCK = 0.5, 5  # in per cent where nothing is left to chance; times as far as two runs are apart
COLUMNS = {"visit_month": Numbers(low=0, whole=True), "rating": Numbers(low=0, high=1e6)}


def smape_plus_1(truth: Any, predicted: Any) -> float:
    """100 times the mean of |p - y| / ((y + p) / 2 + 1), where the score is known."""
    known = np.isfinite(truth)
    y, p = truth[known], predicted[known]
    return 100 * float(np.mean(np.abs(p - y) / ((y + p) / 2 + 1)))


@check(weight=10, required=True)
def submission_is_complete(ws: Any) -> None:
    """submission.csv has one rating, 0 or more, for every row of the example's sample submission."""
    _written(ws, ws)


@check(guard=True)
def every_month_is_predicted(ws: Any) -> None:
    """train.py, run on another clinic, gives each row of each month one rating of 0 or more before the next month."""
    _ratings(ws)


@check(weight=40)
def error_is_low(ws: Any) -> float:
    """Credit for the error on the judge's patients: from 0 at the bar to 1 at 55 % of the baseline."""
    error, baseline = _errors(ws)
    return float(ws.scale(error, floor=BAR * baseline, target=STRONG * baseline))


@check(weight=50, required=True)
def ten_percent_better(ws: Any) -> None:
    """The error on the judge's patients is more than 10 % below that of the starter or of medians on them.

    And scores grow: what is said of two years later is not below what is said of six months later.
    """
    error, baseline = _errors(ws)
    assert error < BAR * baseline, f"SMAPE+1 is {error:.2f}, wanted less than {BAR * baseline:.2f}"
    soon, late = (float(np.mean(_of_wait(ws, wait))) for wait in WAITS[1::2])
    assert late >= soon - 0.1, f"ratings 24 months later are {late:.2f} in the mean, and 6 months later {soon:.2f}"


@check(weight=5, required=True)
def submission_is_the_programs(ws: Any) -> None:
    """train.py, run again, writes the same ratings of early visits whatever numbers and later samples patients have.

    How much is left to chance, two runs tell.
    """
    early = np.array([int(asked.split("_")[1]) <= UP_TO for asked in _example_ids(ws)])
    again, most = _on_the_example(ws), float(SAME)
    apart = smape_plus_1(_written(ws, ws)[early], again[early])
    if SEEDED < apart <= SAME:
        most = max(SEEDED, min(SAME, LUCK * smape_plus_1(_on_the_example(ws)[early], again[early])))
    assert apart <= most, f"submission.csv is {apart:.1f} % off what train.py writes, not {most:.1f} % at most"


def _on_the_example(ws: Any) -> Any:
    """The ratings that train.py writes where the example's patients have other numbers and other late samples."""
    rng = ws.numpy_rng("other patients")
    numbers = other_numbers(rng, _example_ids(ws), [ws.original(name).read_text("utf-8") for name in TABLES[:2]])
    given = {name: ws.original(name).read_text("utf-8") for name in STAY[1:]}
    changed = {name: altered(text, numbers, UP_TO, rng) for name, text in given.items()}
    ran = ws.run(PROGRAM, timeout=RUN_S, env={"TIME_SERIES_URL": ""}, inputs=changed, remove=["submission.csv"]).ok()
    left_alone(ran, {name: ws.original(name) for name in (*TABLES, *STAY)} | changed)
    return _written(ran, ws, numbers)


@check(guard=True)
def tables_and_submission_as_left(ws: Any) -> None:
    """A run of train.py changes no table, and leaves the submission.csv that the interface has written."""
    told, ran = _ratings(ws), _ran(ws)
    written = submission(ran, "submission.csv", ids={"prediction_id": _answers(ws)[0]}, columns=COLUMNS)
    odd = int((~np.isclose(written["rating"], told)).sum())
    assert not odd, f"{odd} ratings of submission.csv are not those that the interface was given"
    months = [int(asked.split("_")[1]) for asked in _answers(ws)[0]]
    assert written["visit_month"].tolist() == months, "visit_month of submission.csv is not that of the rows' visits"
    rows = [row["prediction_id"] for row in ran.csv("submission.csv")]
    assert rows == list(_predicted(ws)), (
        "the rows of submission.csv are not in the order in which the interface got them"
    )


def _written(folder: Any, ws: Any, numbers: dict[str, str] | None = None) -> Any:
    """The ratings of a folder's submission.csv, in the order of the example's ids; its patients may have `numbers`."""
    ids = [renumbered(asked, numbers) if numbers else asked for asked in _example_ids(ws)]
    return submission(folder, "submission.csv", ids={"prediction_id": ids}, columns=COLUMNS)["rating"]


@once
def _example_ids(ws: Any) -> list[str]:
    with np.load(ws.hidden("example.npz").path) as file:
        return [str(asked) for asked in file["ids"]]


@once
def _ran(ws: Any) -> Any:
    """train.py among the tables of the other clinic."""
    inputs = {name: ws.hidden(f"other/{name}") for name in TABLES}
    ran = ws.run(PROGRAM, timeout=RUN_S, inputs=inputs, remove=["submission.csv"]).ok()
    left_alone(ran, inputs | {name: ws.original(name) for name in STAY})
    return ran


@once
def _predicted(ws: Any) -> dict[str, float]:
    """What the service was told, in the order in which it was."""
    _ran(ws)
    found: dict[str, float] = {}
    for event in ws.journal("months", during="judging"):
        for asked, rating in event.get("predictions", []):
            # Of another month: rows that wait for what later months tell, while nothing is predicted for theirs.
            assert asked.split("_")[1:2] == [str(event["month"])], f"{asked} was predicted in month {event['month']}"
            assert asked not in found, f"{asked} was predicted twice"
            found[asked] = _rating(asked, rating)
    return found


@once
def _ratings(ws: Any) -> Any:
    """What the service was told, in the order of the hidden ids."""
    ids, found = _answers(ws)[0], _predicted(ws)
    missing = [asked for asked in ids if asked not in found]
    assert not missing, f"{len(missing)} of {len(ids)} rows were never predicted, {missing[0]} among them"
    assert len(found) == len(ids), f"there is no row {next(iter(found.keys() - set(ids)))}"
    return np.array([found[asked] for asked in ids])


def _rating(asked: str, rating: Any) -> float:
    assert isinstance(rating, float | int) and not isinstance(rating, bool), f"the rating of {asked} is {rating!r}"
    assert rating >= 0, f"the rating of {asked} is negative: {rating}"
    return number(rating, high=1e6)


def _of_wait(ws: Any, wait: int) -> Any:
    """The ratings so many months after visits that have one for 24 months later, too."""
    ids, told = _answers(ws)[0], dict(zip(_answers(ws)[0], _ratings(ws), strict=True))
    visits = [asked.removesuffix(f"_{WAITS[-1]}_months") for asked in ids if asked.endswith(f"_{WAITS[-1]}_months")]
    return [told[f"{visit}_{wait}_months"] for visit in visits]


@once
def _answers(ws: Any) -> tuple[list[str], Any]:
    with np.load(ws.hidden("answers.npz").path) as file:
        return file["ids"].tolist(), file["ratings"]


def _errors(ws: Any) -> tuple[float, float]:
    """SMAPE+1 of the answer, and of the starter's method on the same tables and patients."""
    ids, truth = _answers(ws)
    error = smape_plus_1(truth, _ratings(ws))
    baseline = min(smape_plus_1(truth, predicted) for predicted in _plain(ws, ids))
    ws.metric("smape", error, "%")
    ws.metric("smape_baseline", baseline, "%")
    return error, baseline


def _plain(ws: Any, ids: list[str]) -> tuple[Any, Any]:
    """The starter without its forest, and medians: what can be said without a look at a patient.

    The starter: mean scores of the visits of a month that have all later ones, rounded. A forest knows only the month,
    so that it can say nothing else; the two measure the same to 0.2 %.
    """
    scores = [_scores(ws, f"updrs_{part}") for part in (1, 2, 3, 4)]
    means, medians = [_means(it) for it in scores], [np.median(list(it.values())) for it in scores]
    by_month, by_part = [], []
    for asked in ids:
        _, month, _, part, _, wait, _ = asked.split("_")
        known = means[int(part) - 1]
        nearest = min(known, key=lambda at: abs(at - int(month)))
        by_month.append(known[nearest][WAITS.index(int(wait))])
        by_part.append(medians[int(part) - 1])
    return np.array(by_month), np.array(by_part)


def _scores(ws: Any, part: str) -> dict[tuple[str, int], float]:
    """By patient and month."""
    scores: dict[tuple[str, int], float] = {}
    for name in TABLES[:2]:
        lines = ws.hidden(f"other/{name}").path.read_text("utf-8").splitlines()
        header = lines[0].split(",")
        for line in lines[1:]:
            row = dict(zip(header, line.split(","), strict=True))
            if row[part]:
                scores[row["patient_id"], int(row["visit_month"])] = float(row[part])
    return scores


def _means(scores: dict[tuple[str, int], float]) -> dict[int, Any]:
    rows: dict[int, list[Any]] = {}
    for patient, month in scores:
        later = [scores.get((patient, month + wait)) for wait in WAITS]
        if None not in later:
            rows.setdefault(month, []).append(later)
    return {month: np.round(np.mean(found, axis=0)) for month, found in sorted(rows.items())}
