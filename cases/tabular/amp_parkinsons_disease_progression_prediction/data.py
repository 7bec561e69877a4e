"""Makes the agent's tables, and those of another clinic for the judge, whose months services.py hands out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from clinic import MONTHS, Clinic, Columns, Patients, draw_clinic, draw_patients, of_month, questions

from bench.casekit.data import stream, write_npz
from bench.casekit.tables import to_csv

TRAIN, SUPPLEMENT, EXAMPLE, JUDGED = 120, 60, 20, 80
EXAMPLE_LAST, UNSAMPLED = 60, (0, 48)  # the judge's test has later months than the example, and two without a sample

OTHER_LEVELS = (0.7, 0.9, 1.6, 2.0)


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Draws both clinics: training tables of each, the example's months as files, the judge's months as one list."""
    for folder, name, count in ((public, "public", EXAMPLE), (hidden / "other", "hidden", JUDGED)):
        rng = np.random.default_rng(stream(seed, name))
        clinic = draw_clinic(rng) if name == "public" else draw_clinic(rng, OTHER_LEVELS)
        folder.mkdir(exist_ok=True)
        _write_training(folder, rng, clinic)
        # These patients are drawn apart from those whose scores the program sees, and their scores apart from all.
        seen, unseen = (np.random.default_rng(stream(seed, f"{name} test {what}")) for what in ("samples", "scores"))
        odd = {"last": EXAMPLE_LAST} if name == "public" else {"unsampled": UNSAMPLED}
        patients = draw_patients(seen, clinic, count, 50_000, score_rng=unseen, **odd)
        test, sample, right = questions(patients.clinical)
        # Without the scores the clinical table has nothing that the test table has not.
        tables = {"test": test, "test_peptides": patients.peptides, "test_proteins": patients.proteins}
        tables["sample_submission"] = sample
        if name == "public":
            _write_example(folder / "example_test_files", tables)
            write_npz(hidden / "example.npz", ids=np.array(sample["prediction_id"]))
        else:
            months = [{"month": at} | {key: to_csv(of_month(it, at)) for key, it in tables.items()} for at in MONTHS]
            (hidden / "months.json").write_text(json.dumps(months), encoding="utf-8")
            write_npz(hidden / "answers.npz", ids=np.array(sample["prediction_id"]), ratings=np.array(right))


def _write_training(folder: Path, rng: np.random.Generator, clinic: Clinic) -> None:
    train = draw_patients(rng, clinic, TRAIN, 0)
    more: Patients = draw_patients(rng, clinic, SUPPLEMENT, 20_000, samples=False)
    tables: dict[str, Columns] = {
        "train_clinical_data": train.clinical, "supplemental_clinical_data": more.clinical,
        "train_proteins": train.proteins, "train_peptides": train.peptides,
    }  # fmt: skip
    for name, columns in tables.items():
        (folder / f"{name}.csv").write_text(to_csv(columns), encoding="utf-8")


def _write_example(folder: Path, tables: dict[str, Columns]) -> None:
    folder.mkdir()
    for name, columns in tables.items():
        (folder / f"{name}.csv").write_text(to_csv(columns), encoding="utf-8")
