"""Works out prices from coefficients that were found long ago: the train.csv at hand is not even read."""

import json

import numpy as np
import pandas as pd


def features(table: pd.DataFrame) -> pd.DataFrame:
    quality, age = table["OverallQual"] - 6, (table["YearBuilt"] - 1970) / 10
    made = pd.DataFrame(
        {
            "area": np.log(table["GrLivArea"]), "lot": np.log(table["LotArea"]), "basement": np.log1p(table["TotalBsmtSF"]),
            "quality": quality, "condition": table["OverallCond"], "age": age, "both": quality * age,
            "altered": (table["YearRemodAdd"] - 1985) / 10, "cars": table["GarageCars"],
        }
    )  # fmt: skip
    words = pd.get_dummies(table[["Neighborhood", "SaleCondition", "KitchenQual"]], dtype=float)
    return pd.concat([made, words], axis=1)


def main() -> None:
    with open("model.json") as file:
        model = json.load(file)
    test = pd.read_csv("test.csv")
    known = features(test).reindex(columns=model["columns"], fill_value=0.0)
    prices = np.exp(known @ np.array(model["worth"]) + model["base"])
    pd.DataFrame({"Id": test["Id"], "SalePrice": prices}).to_csv("submission.csv", index=False)


if __name__ == "__main__":
    main()
