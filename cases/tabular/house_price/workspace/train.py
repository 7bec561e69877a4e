"""Predicts house prices: reads train.csv and test.csv, writes submission.csv. The model itself is missing."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.metrics import mean_absolute_error
from sklearn.model_selection import train_test_split

# A first choice of columns that are numbers and never empty; data_description.txt explains all 79.
FEATURES = [
    "MSSubClass", "LotArea", "OverallQual", "OverallCond", "YearBuilt", "YearRemodAdd", "1stFlrSF", "2ndFlrSF",
    "LowQualFinSF", "GrLivArea", "FullBath", "HalfBath", "BedroomAbvGr", "KitchenAbvGr", "TotRmsAbvGrd", "Fireplaces",
    "WoodDeckSF", "OpenPorchSF", "EnclosedPorch", "3SsnPorch", "ScreenPorch", "PoolArea", "MiscVal", "MoSold", "YrSold",
]  # fmt: skip


def fit_and_predict(train_x: pd.DataFrame, train_y: ArrayLike, *others: pd.DataFrame) -> list[np.ndarray]:
    """Fits a model on the first two arguments and returns its predictions for each of the other tables."""
    # TODO: define and fit a model here. Nothing else in this file has to stay as it is, either.
    raise NotImplementedError("the model is missing")


def main() -> None:
    """Validates on a quarter of the labelled houses, then predicts the unlabelled ones."""
    train, test = pd.read_csv("train.csv"), pd.read_csv("test.csv")
    train_x, valid_x, train_y, valid_y = train_test_split(train[FEATURES], train["SalePrice"], random_state=1)
    on_train, on_valid, on_test = fit_and_predict(train_x, train_y, train_x, valid_x, test[FEATURES])
    print(f"MAE on the training part:   {mean_absolute_error(train_y, on_train):.0f}")
    print(f"MAE on the validation part: {mean_absolute_error(valid_y, on_valid):.0f}")
    pd.DataFrame({"Id": test["Id"], "SalePrice": on_test}).to_csv("submission.csv", index=False)


if __name__ == "__main__":
    main()
