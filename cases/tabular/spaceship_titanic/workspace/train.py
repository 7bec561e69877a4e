"""Predicts who was transported: reads train.csv and test.csv, writes submission.csv. The model itself is missing."""

import numpy as np
import pandas as pd

WORDS = ["HomePlanet", "CryoSleep", "Destination", "VIP", "Deck", "Side"]
NUMBERS = ["Age", "RoomService", "FoodCourt", "ShoppingMall", "Spa", "VRDeck"]


def prepare(table: pd.DataFrame) -> pd.DataFrame:
    """A first choice of columns, all numbers: a column for each word, and 0 for a gap."""
    table = table.copy()
    table[["Deck", "Cabin_num", "Side"]] = table["Cabin"].str.split("/", expand=True)
    words = pd.get_dummies(table[WORDS].astype(object), dtype=float)
    return pd.concat([words, table[NUMBERS].fillna(0.0)], axis=1)


def fit_and_predict(train_x: pd.DataFrame, train_y: pd.Series, *others: pd.DataFrame) -> list[np.ndarray]:
    """Fits a model on the first two arguments and returns True or False for each row of the other tables."""
    # TODO: define and fit a model here. Nothing else in this file has to stay as it is, either.
    raise NotImplementedError("the model is missing")


def main() -> None:
    """Validates on a fifth of the labelled passengers, then predicts the unlabelled ones."""
    train, test = pd.read_csv("train.csv"), pd.read_csv("test.csv")
    known, asked, truth = prepare(train), prepare(test), train["Transported"]
    asked = asked.reindex(columns=known.columns, fill_value=0.0)
    first = np.random.default_rng(1).permutation(len(train)) < len(train) * 4 // 5
    on_train, on_valid, on_test = fit_and_predict(known[first], truth[first], known[first], known[~first], asked)
    print(f"accuracy on the training part:   {np.mean(on_train == truth[first]):.4f}")
    print(f"accuracy on the validation part: {np.mean(on_valid == truth[~first]):.4f}")
    pd.DataFrame({"PassengerId": test["PassengerId"], "Transported": on_test}).to_csv("submission.csv", index=False)


if __name__ == "__main__":
    main()
