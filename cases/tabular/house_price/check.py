"""Measures the mean absolute error of submission.csv, and of train.py on houses nobody has seen before.

The second is what a submission alone cannot show: that train.py is where the prices come from, and that it learns them
from the data it is given.
"""

import csv
from typing import Any

import numpy as np
from town import houses, other_town

from bench.casekit.metrics import mae
from bench.casekit.programs import learns_again
from bench.casekit.tables import to_csv
from bench.judge import Numbers, check, once, submission

BASELINE = 29_500  # a random forest on the starter's columns: 29480 +- 740 over twelve draws
BAR = 0.9 * BASELINE
BAR_SHARE = 0.17  # the same bar, as a share of the mean price
SAME = 0.06  # of the mean price: two unseeded forests of 100 trees are 2 to 3 % apart, unlike models 5 % and more
SEEDED = 0.02  # of the mean price, where a program leaves nothing to chance: the order of sums, on another machine
CHANCE = 10  # times as far as two runs are apart: a cent of noise is no reason for another submission
STRONG = 15_000
GROWN = ("LotArea", "1stFlrSF", "GrLivArea")  # which every house has
FRESH_TRAIN, FRESH_TEST = 1168, 1500
RUN_S, GUIDE = 60, "data_description.txt"


@check(weight=10, required=True)
def submission_is_complete(ws: Any) -> None:
    """submission.csv has the two columns, and one finite positive price for every test house."""
    _submitted(ws)


@check(weight=20)
def close_to_the_prices(ws: Any) -> float:
    """Credit for the error on the test houses: from 0 at the best constant to 1 at 15000 dollars."""
    error, constant = _test_error(ws)
    return float(ws.scale(error, floor=constant, target=STRONG))


@check(weight=30, required=True)
def ten_percent_better(ws: Any) -> None:
    """The error on the test houses is at least 10 % below a random forest on the starter's columns."""
    error, _ = _test_error(ws)
    assert error <= BAR, f"mean absolute error {error:.0f}, wanted at most {BAR:.0f}"


@check(weight=30, required=True)
def program_works_on_new_houses(ws: Any) -> None:
    """train.py, run on the houses of two other towns, gets below the same bar, as a share of the mean price."""
    rng = np.random.default_rng([ws.seed, 80])
    for side in (-1, 1):  # a bound in dollars is out of reach in one of the two
        share = _share_in(ws, rng, side)
        dear = "dearer" if side > 0 else "cheaper"
        ws.metric(f"mae_{dear}_town", 100 * share, "% of the mean price")
        told = f"mean absolute error {share:.1%} of the mean price in a {dear} town"
        assert share <= BAR_SHARE, f"{told}, wanted at most {BAR_SHARE:.0%}"


def _share_in(ws: Any, rng: Any, side: int) -> float:
    """The error of train.py in another town, as a share of the mean price there."""
    first, town = int(rng.integers(10_000, 90_000)), other_town(rng, side)
    table, prices = houses(rng, FRESH_TRAIN + FRESH_TEST, first, town)
    order = rng.permutation(FRESH_TEST) + FRESH_TRAIN  # the rows are not in the order of their ids
    test = {name: values[order] for name, values in table.items()}
    train = {name: values[:FRESH_TRAIN] for name, values in table.items()} | {
        "SalePrice": prices[:FRESH_TRAIN].astype(int)
    }
    ran = _run(ws, ["python", "train.py"], {"train.csv": to_csv(train), "test.csv": to_csv(test)})
    return mae(prices[order], _prices(ran, test["Id"])) / float(prices[order].mean())


@check(weight=5, required=True)
def submission_is_the_programs(ws: Any) -> None:
    """train.py, run once more on the houses it was given, writes the same prices, but for the luck of a draw."""
    once_more, submitted = _again(ws), _submitted(ws)
    mean = float(submitted.mean())
    apart, most = mae(submitted, once_more) / mean, SAME
    if SEEDED < apart <= SAME:
        most = max(SEEDED, min(SAME, CHANCE * mae(_again(ws), once_more) / mean))
    assert apart <= most, f"submission.csv is {apart:.1%} of the mean price off what train.py writes, not {most:.0%}"


def _again(ws: Any) -> Any:
    """The prices that train.py gives the test houses, which have exchanged their ids and grown by a square foot.

    No table of prices helps that is kept by id, or by what the columns hold.
    """
    ids, _ = _answers(ws)
    others = ids[np.random.default_rng([ws.seed, 81]).permutation(len(ids))]
    head, *rows = csv.reader(ws.original("test.csv").read_text().splitlines())
    table = dict(zip(head, zip(*rows, strict=True), strict=True)) | {"Id": others}
    table |= {name: [int(feet) + 1 for feet in table[name]] for name in GROWN}
    given = {"train.csv": ws.original("train.csv").read_bytes(), "test.csv": to_csv(table)}
    # A submission that lies there is no reason to write none, and tells nothing; nor is one to be written where the
    # program once lay.
    there = "cut -d, -f1 test.csv | sed 's/$/,1/; 1s/.*/Id,SalePrice/' > submission.csv && cp -R . /tmp/town"
    elsewhere = f"{there} && (cd /tmp/town && python train.py) && cp -Rf /tmp/town/. ."
    return _prices(_run(ws, ["sh", "-c", elsewhere], given), others)


def _run(ws: Any, argv: list[str], given: dict[str, Any]) -> Any:
    """What train.py left where only programs and these files are: what it found out elsewhere is not there."""
    return learns_again(ws, argv, given | {GUIDE: ws.original(GUIDE).read_bytes()}, RUN_S)


def _prices(folder: Any, ids: Any) -> Any:
    """The price of each of `ids`, in their order."""
    prices = submission(folder, "submission.csv", ids={"Id": ids}, columns={"SalePrice": Numbers()})["SalePrice"]
    odd = ids[(prices <= 0) | (prices >= 1e9)]
    assert not len(odd), f"the price of house {odd[0]} is not within 0 and 1e9 dollars"
    return prices


@once
def _answers(ws: Any) -> tuple[Any, Any]:
    with np.load(ws.hidden("answers.npz").path) as file:
        return file["ids"], file["prices"]


@once
def _submitted(ws: Any) -> Any:
    return _prices(ws, _answers(ws)[0])


def _test_error(ws: Any) -> tuple[float, float]:
    """The submission's error, and that of the best constant there is."""
    prices = _answers(ws)[1]
    error = mae(prices, _submitted(ws))
    ws.metric("mae", error, "dollars")
    return error, float(np.abs(prices - np.median(prices)).mean())
