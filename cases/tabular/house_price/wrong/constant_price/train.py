"""The middle price for every house."""

import pandas as pd

train, test = pd.read_csv("train.csv"), pd.read_csv("test.csv")
pd.DataFrame({"Id": test["Id"], "SalePrice": train["SalePrice"].median()}).to_csv("submission.csv", index=False)
