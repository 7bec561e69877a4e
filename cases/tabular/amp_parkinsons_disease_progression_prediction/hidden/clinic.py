"""Invents patients in the tables of the competition: visits, four scores each, and proteins of which some tell.

A clinic holds which proteins follow how ill a patient is, and which how fast that grows. data.py draws one for the
agent and another one for the judge, so that what was learnt by heart of the first is of no use in the second.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Columns = dict[str, list[Any]]

MONTHS = (0, 3, 6, 12, 18, 24, 30, 36, 48, 60, 72, 84)
WAITS = (0, 6, 12, 24)
PARTS = (1, 2, 3, 4)
LAST_MONTH = 108
PROTEINS = ("O00391", "O00533", "P01034", "P02787", "P05060", "P10645", "P61278", "Q92823")
ACIDS = list("ACDEFGHIKLMNPQRSTVWY")
NO_SAMPLE = 0.08
"""Share of visits without a sample of proteins."""


class Clinic(NamedTuple):
    """How each protein follows severity and rate (in standard deviations of its logarithm), and its peptides."""

    severity: Float
    rate: Float
    level: Float
    peptides: list[list[tuple[str, float]]]
    """Of each protein: sequences, and the factor between abundance and NPX."""
    levels: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    """By which the means of the four scores are multiplied."""


class Patients(NamedTuple):
    """Four tables, as lists of equal length by column; scores are NaN where they were not taken."""

    clinical: Columns
    proteins: Columns
    peptides: Columns


def draw_clinic(rng: np.random.Generator, levels: Sequence[float] = (1.0,)) -> Clinic:
    """Deals the roles: two proteins follow severity, two the rate (one up, one down each), four follow nothing.

    levels: of the four scores, dealt as well.
    """
    roles = rng.permutation(len(PROTEINS))
    severity, rate = np.zeros(len(PROTEINS)), np.zeros(len(PROTEINS))
    severity[roles[:2]], rate[roles[2:4]] = (0.8, -0.6), (0.8, -0.6)
    peptides = [
        [("".join(rng.choice(ACIDS, int(rng.integers(8, 15)))), float(rng.uniform(5, 50))) for _ in range(2)]
        for _ in PROTEINS
    ]
    dealt = rng.permutation(np.resize(levels, len(PARTS)))
    return Clinic(severity, rate, rng.uniform(8, 12, len(PROTEINS)), peptides, tuple(dealt.tolist()))


def draw_patients(
    rng: np.random.Generator,
    clinic: Clinic,
    count: int,
    first_id: int,
    samples: bool = True,
    score_rng: np.random.Generator | None = None,
    last: int = MONTHS[-1],
    unsampled: tuple[int, ...] = (),
) -> Patients:
    """Draws `count` patients with 5 to 12 visits each; without `samples` there are clinical rows alone.

    score_rng: draws the noise of the scores, where these stay with the judge. last: no visit is later. unsampled:
    months in which no patient gives a sample.
    """
    made = Patients({}, {}, {})
    ids = first_id + np.cumsum(rng.integers(1, 60, count))
    for patient in rng.permutation(ids).tolist():
        severity, rate = rng.gamma(2.0), 0.5 * rng.gamma(1.5)
        medication = rng.random()
        for month in [it for it in MONTHS[: int(rng.integers(5, len(MONTHS) + 1))] if it <= last]:
            visit = {"visit_id": f"{patient}_{month}", "patient_id": patient, "visit_month": month}
            _add(
                made.clinical, visit | _scores(score_rng or rng, clinic.levels, severity, rate * month / 12, medication)
            )
            if samples and rng.random() >= NO_SAMPLE and month not in unsampled:
                _sample(rng, clinic, made, visit, np.log(severity + 0.3), np.log(rate + 0.15))
    return made


def _scores(
    rng: np.random.Generator, levels: tuple[float, ...], severity: float, grown: float, medication: float
) -> dict[str, Any]:
    means = (2 + 2.0 * severity + 0.8 * grown, 1 + 2.2 * severity + 1.4 * grown, 4 + 7 * severity + 4 * grown,
             -2.5 + 0.5 * severity + 1.2 * grown)  # fmt: skip
    noise = rng.normal(0, (1.0, 1.0, 2.0, 0.7))
    drawn = np.maximum(0, np.round(np.array(means) * levels + noise))
    gap = rng.random(4) < 0.01
    scores: dict[str, Any] = {
        f"updrs_{part}": None if lost else int(value) for part, value, lost in zip(PARTS, drawn, gap, strict=True)
    }
    state = "On" if rng.random() < medication else "Off"
    return scores | {"upd23b_clinical_state_on_medication": None if rng.random() < 0.4 else state}


def _sample(
    rng: np.random.Generator, clinic: Clinic, made: Patients, visit: dict[str, Any], severity: float, rate: float
) -> None:
    logs = clinic.level + clinic.severity * severity + clinic.rate * rate + rng.normal(0, 0.25, len(PROTEINS))
    for protein, log, peptides in zip(PROTEINS, logs, clinic.peptides, strict=True):
        _add(made.proteins, visit | {"UniProt": protein, "NPX": round(float(np.exp(log)), 2)})
        for sequence, factor in peptides:
            abundance = round(float(np.exp(log + rng.normal(0, 0.1))) * factor, 2)
            _add(made.peptides, visit | {"UniProt": protein, "Peptide": sequence, "PeptideAbundance": abundance})


def _add(columns: Columns, row: dict[str, Any]) -> None:
    for name, value in row.items():
        columns.setdefault(name, []).append(value)


def questions(clinical: Columns) -> tuple[Columns, Columns, list[float]]:
    """The test table, the sample submission, and what is right for its rows: NaN where the visit was not made.

    Rows are in the order of the visits' months, as the interface hands them out.
    """
    scores = {
        (patient, month, part): clinical[f"updrs_{part}"][row]
        for row, (patient, month) in enumerate(zip(clinical["patient_id"], clinical["visit_month"], strict=True))
        for part in PARTS
    }
    test: Columns = {}
    sample: Columns = {}
    right: list[float] = []
    for patient, month, part in sorted(scores, key=lambda it: it[1]):
        visit = f"{patient}_{month}"
        row = {"visit_id": visit, "visit_month": month, "patient_id": patient, "updrs_test": f"updrs_{part}"}
        _add(test, row | {"row_id": f"{visit}_updrs_{part}"})
        for wait in WAITS:
            if month + wait <= LAST_MONTH:
                asked = f"{visit}_updrs_{part}_plus_{wait}_months"
                _add(sample, {"visit_month": month, "prediction_id": asked, "rating": 0})
                found = scores.get((patient, month + wait, part))
                right.append(float("nan") if found is None else float(found))
    return test, sample, right


def of_month(columns: Columns, month: int) -> Columns:
    """The rows of one month."""
    rows = [row for row, at in enumerate(columns["visit_month"]) if at == month]
    return {name: [values[row] for row in rows] for name, values in columns.items()}


def other_numbers(rng: np.random.Generator, ids: list[str], tables: list[str]) -> dict[str, str]:
    """New numbers of the patients in `ids`, among those of the training tables, in an order of their own."""
    taken = {row["patient_id"] for text in tables for row in csv.DictReader(io.StringIO(text))}
    patients = sorted({name.split("_", 1)[0] for name in ids})
    free = sorted({str(number) for number in range(1, 3600)} - taken - set(patients))
    return dict(zip(patients, rng.choice(free, len(patients), replace=False).tolist(), strict=True))


def renumbered(name: str, numbers: dict[str, str]) -> str:
    """The number of a patient, or an id that begins with one, with the new one."""
    patient, *rest = name.split("_", 1)
    return "_".join([numbers[patient], *rest])


def altered(text: str, numbers: dict[str, str], month: int, rng: np.random.Generator) -> str:
    """A file of the example with other patients' numbers and, after `month`, amounts that are others.

    So stored ratings find no patient there, and a look ahead finds other samples.
    """
    rows = list(csv.DictReader(io.StringIO(text)))
    factors: dict[tuple[str, str], float] = {}
    for row in rows:
        for name in row.keys() & {"visit_id", "patient_id", "row_id", "prediction_id"}:
            row[name] = renumbered(row[name], numbers)
        for name in row.keys() & {"NPX", "PeptideAbundance"} if int(row["visit_month"]) > month else ():
            factor = factors.setdefault((row["patient_id"], row["UniProt"]), float(rng.choice([0.25, 4])))
            row[name] = f"{float(row[name]) * factor:.2f}"
    made = io.StringIO()
    writer = csv.DictWriter(made, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return made.getvalue()
