"""The frame with its hole filled in the first way that comes to mind."""

import pandas as pd
from sklearn.ensemble import RandomForestRegressor

FEATURES = [
    "MSSubClass", "LotArea", "OverallQual", "OverallCond", "YearBuilt", "YearRemodAdd", "1stFlrSF", "2ndFlrSF",
    "LowQualFinSF", "GrLivArea", "FullBath", "HalfBath", "BedroomAbvGr", "KitchenAbvGr", "TotRmsAbvGrd", "Fireplaces",
    "WoodDeckSF", "OpenPorchSF", "EnclosedPorch", "3SsnPorch", "ScreenPorch", "PoolArea", "MiscVal", "MoSold", "YrSold",
]  # fmt: skip

train, test = pd.read_csv("train.csv"), pd.read_csv("test.csv")
model = RandomForestRegressor(random_state=1).fit(train[FEATURES], train["SalePrice"])
prices = model.predict(test[FEATURES])
pd.DataFrame({"Id": test["Id"], "SalePrice": prices}).to_csv("submission.csv", index=False)
