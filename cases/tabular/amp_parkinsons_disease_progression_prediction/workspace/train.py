"""Predicts the four scores of each test visit, now and 6, 12 and 24 months later, from the month of the visit alone."""

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import GroupKFold

from public_timeseries_testing_util import make_env

WAITS = [0, 6, 12, 24]


def smape_plus_1(truth: np.ndarray, predicted: np.ndarray) -> float:
    """The measure: see evaluation_details.txt."""
    known = np.isfinite(truth)
    truth, predicted = truth[known], predicted[known]
    return 100 * float(np.mean(np.abs(predicted - truth) / ((truth + predicted) / 2 + 1)))


def examples(clinical: pd.DataFrame, part: str) -> pd.DataFrame:
    """One row for each visit whose patient was seen again after 6, 12 and 24 months, with the four scores."""
    scores = clinical.set_index(["patient_id", "visit_month"])[part].dropna()
    rows = []
    for patient, month in scores.index:
        later = [scores.get((patient, month + wait)) for wait in WAITS]
        if all(score is not None for score in later):
            rows.append([patient, month, *later])
    return pd.DataFrame(rows, columns=["patient_id", "visit_month", *WAITS])


def main() -> None:
    clinical = pd.concat([pd.read_csv("train_clinical_data.csv"), pd.read_csv("supplemental_clinical_data.csv")])
    # TODO: clean the tables; make features of train_proteins.csv and train_peptides.csv, too.
    models, errors = {}, []
    for part in ["updrs_1", "updrs_2", "updrs_3", "updrs_4"]:
        table = examples(clinical, part)
        x, y = table[["visit_month"]], table[WAITS].to_numpy()
        for train, valid in GroupKFold(8).split(x, y, table["patient_id"]):
            model = RandomForestRegressor(n_estimators=30, random_state=0).fit(x.iloc[train], y[train])
            errors.append(smape_plus_1(y[valid], model.predict(x.iloc[valid]).round()))
        models[part] = RandomForestRegressor(random_state=0).fit(x, y)
    print(f"SMAPE+1 in cross-validation: {np.mean(errors):.2f}")

    env = make_env()
    for test, _, _, sample_submission in env.iter_test():
        ratings = {}
        for part, model in models.items():
            visits = test[test["updrs_test"] == part]
            predicted = model.predict(visits[["visit_month"]]).round()
            for row_id, scores in zip(visits["row_id"], predicted):
                for wait, score in zip(WAITS, scores):
                    ratings[f"{row_id}_plus_{wait}_months"] = score
        sample_submission["rating"] = sample_submission["prediction_id"].map(ratings)
        env.predict(sample_submission)


if __name__ == "__main__":
    main()
