"""The interface to the months of the test: one month is handed out when that before it has been predicted.

    env = make_env()
    for test, test_peptides, test_proteins, sample_submission in env.iter_test():
        sample_submission["rating"] = ...
        env.predict(sample_submission)

Its months are those in `example_test_files`, or those of the server that TIME_SERIES_URL names. The program that uses it
need not know which. At the end submission.csv holds all predictions.
"""

import io
import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

TABLES = ("test", "test_peptides", "test_proteins", "sample_submission")
COLUMNS = ["prediction_id", "rating"]
# A table without rows has no other types than one with rows.
TYPES = dict.fromkeys(["visit_month", "patient_id"], "int64") | dict.fromkeys(["NPX", "PeptideAbundance"], "float64")
TYPES |= dict.fromkeys(["visit_id", "UniProt", "Peptide", "updrs_test", "row_id", "prediction_id"], "str")


class ExampleMonths:
    """The months of a folder with four files."""

    def __init__(self, folder: str) -> None:
        self.tables = [pd.read_csv(Path(folder) / f"{name}.csv") for name in TABLES]
        self.months = iter(self.tables[0]["visit_month"].unique())

    def next(self) -> list[pd.DataFrame] | None:
        month = next(self.months, None)
        if month is None:
            return None
        return [table[table["visit_month"] == month].reset_index(drop=True) for table in self.tables]

    def take(self, frame: pd.DataFrame) -> None:
        """Nobody but submission.csv wants the predictions."""


class ServedMonths:
    """The months of a server, which keeps what is predicted."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def next(self) -> list[pd.DataFrame] | None:
        answer = self._ask("/month")
        if answer.get("done"):
            return None
        return [pd.read_csv(io.StringIO(answer[name]), dtype=TYPES) for name in TABLES]

    def take(self, frame: pd.DataFrame) -> None:
        rows = [[str(asked), float(rating)] for asked, rating in frame[COLUMNS].itertuples(index=False)]
        self._ask("/predictions", json.dumps({"predictions": rows}).encode())

    def _ask(self, path: str, body: bytes | None = None) -> dict:
        request = urllib.request.Request(self.url + path, data=body, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


class Environment:
    """Hands out the months in their order, and takes a frame of predictions for each."""

    def __init__(self, months: ExampleMonths | ServedMonths) -> None:
        self._months = months
        self._open = False
        self._predicted: list[pd.DataFrame] = []

    def iter_test(self) -> Iterator[tuple[pd.DataFrame, ...]]:
        """Four frames a month: test, test_peptides, test_proteins, sample_submission."""
        while (tables := self._months.next()) is not None:
            self._open = True
            yield tuple(tables)
            if self._open:
                raise RuntimeError("call predict() with the predictions of this month before asking for the next")
        if self._predicted:
            pd.concat(self._predicted, ignore_index=True).to_csv("submission.csv", index=False)

    def predict(self, frame: pd.DataFrame) -> None:
        """Takes the predictions of the month that was handed out: the sample submission with ratings."""
        if not self._open:
            raise RuntimeError("predict() takes one frame a month, after the month was handed out")
        if not isinstance(frame, pd.DataFrame) or not set(COLUMNS) <= set(frame.columns):
            raise TypeError(f"predict() takes a data frame with the columns {COLUMNS}")
        self._months.take(frame)
        self._predicted.append(frame)
        self._open = False


def make_env(folder: str = "example_test_files") -> Environment:
    url = os.environ.get("TIME_SERIES_URL")
    return Environment(ServedMonths(url) if url else ExampleMonths(folder))
