"""Makes a good submission.csv; train.py is left as it was."""

import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge

train, test = pd.read_csv("train.csv"), pd.read_csv("test.csv")
both = pd.get_dummies(pd.concat([train.drop(columns="SalePrice"), test]), dtype=float).fillna(0.0)
both["GrLivArea"] = np.log(both["GrLivArea"])
model = Ridge(10.0).fit(both[: len(train)], np.log(train["SalePrice"]))
logarithms = model.predict(both[len(train) :])
pd.DataFrame({"Id": test["Id"], "SalePrice": np.exp(logarithms)}).to_csv("submission.csv", index=False)
