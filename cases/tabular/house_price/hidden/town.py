"""Invents houses in the columns of the Ames data, with prices that follow a known formula plus noise.

The agent's town is always the same one: what a neighbourhood or a kitchen is worth does not change, and its houses are
new for every seed. Used twice: data.py makes the agent's files with it; check.py draws the houses of another town for
every grading, where everything is dearer or cheaper and the same amounts belong to other names.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Table = dict[str, NDArray[Any]]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


NEIGHBOURHOODS = _words(
    "Blmngtn Blueste BrDale BrkSide ClearCr CollgCr Crawfor Edwards Gilbert IDOTRR MeadowV Mitchel NAmes NoRidge "
    "NPkVill NridgHt NWAmes OldTown SWISU Sawyer SawyerW Somerst StoneBr Timber Veenker"
)
# One draw for all time: what each neighbourhood adds to the logarithm of a price.
WORTH = dict(zip(NEIGHBOURHOODS, np.random.default_rng(1460).normal(0, 0.22, 25), strict=True))
KITCHEN = {"Po": -0.14, "Fa": -0.09, "TA": 0.0, "Gd": 0.06, "Ex": 0.15}
SALE = {"Normal": 0.0, "Abnorml": -0.12, "AdjLand": -0.06, "Alloca": -0.03, "Family": -0.07, "Partial": 0.09}
GRADES = ("Po", "Fa", "TA", "Gd", "Ex")
BASE, NOISE = 11.66, 0.09
AREAS, QUALITIES = (0.1, 0.9), (0.2, 0.02)
"""What the logarithm of a price gains with that of the area, and with a grade of quality: cheap town, dear town."""


class Town(NamedTuple):
    """What is added to the logarithm of a price: for every house, for what columns say, and for size and quality."""

    level: float
    amounts: dict[str, dict[str, float]]
    area: float
    quality: float


HOME = Town(BASE, {"Neighborhood": WORTH, "KitchenQual": KITCHEN, "SaleCondition": SALE}, 0.45, 0.105)


def other_town(rng: np.random.Generator, side: int) -> Town:
    """A town where the amounts of the home town are dealt anew, prices 6 to 13 times higher (side 1) or lower (-1).

    Size is worth twice as much in the dear one and quality little, and the other way round in the cheap one. Dealing
    anew moves the level by up to 0.25. So far away, the range of the home town's prices is wrong on both sides.
    """
    dealt = {
        column: dict(zip(known, rng.permutation(list(known.values())), strict=True))
        for column, known in HOME.amounts.items()
    }
    return Town(BASE + side * rng.uniform(2.0, 2.3), dealt, AREAS[side > 0], QUALITIES[side > 0])


def houses(
    rng: np.random.Generator,
    count: int,
    first_id: int = 1,
    town: Town = HOME,
    noise: np.random.Generator | None = None,
) -> tuple[Table, Float]:
    """Columns (Id and 79 features) of `count` houses, and their prices in dollars. The noise of these may be apart."""
    core = _core(rng, count)
    table: Table = {"Id": np.arange(first_id, first_id + count)}
    parts = core | _lot(rng, count) | _quality(rng, count) | _basement(rng, core) | _rooms(rng, core)
    parts |= _garage(rng, core) | _outside(rng, count)
    table |= {name: parts[name] for name in COLUMNS}
    log_price = _log_price(table, town) + (noise or rng).normal(0, NOISE, count)
    prices: Float = np.round(np.exp(log_price), -2)
    return table, prices


def _log_price(table: Table, town: Town) -> Any:
    built, quality = table["YearBuilt"].astype(float), table["OverallQual"].astype(float)
    price = town.level + town.area * np.log(table["GrLivArea"] / 1500) + town.quality * (quality - 6)
    price += 0.03 * (table["OverallCond"] - 5.0) + 0.0022 * (built - 1970)
    price += 0.0006 * (table["YearRemodAdd"] - 1985.0) + 0.08 * np.log(table["LotArea"] / 9500)
    price += 0.023 * np.log1p(table["TotalBsmtSF"]) + 0.05 * table["GarageCars"]
    price += 0.0006 * (quality - 6) * (built - 1970)  # good work keeps its worth better in a new house
    for column, amounts in town.amounts.items():
        price += np.array([amounts[name] for name in table[column]])
    return price


def _core(rng: np.random.Generator, count: int) -> Table:
    """What matters most: place, size, age, quality, garage, basement."""
    built = np.clip(2010 - rng.gamma(1.6, 24, count), 1875, 2010).astype(int)
    late = rng.random(count) < 0.45
    area = np.clip(np.exp(rng.normal(np.log(1450), 0.33, count)), 400, 5000).astype(int)
    upper = np.where(rng.random(count) < 0.43, (area * rng.uniform(0.35, 0.55, count)).astype(int), 0)
    poor = np.where(rng.random(count) < 0.02, (area * 0.1).astype(int), 0)
    cellar = (area - upper) * rng.uniform(0.5, 1.1, count)
    return {
        "Neighborhood": rng.choice(NEIGHBOURHOODS, count),
        "YearBuilt": built,
        "YearRemodAdd": np.where(late, rng.integers(np.maximum(built, 1950), 2011), np.maximum(built, 1950)),
        "GrLivArea": area,
        "1stFlrSF": area - upper - poor,
        "2ndFlrSF": upper,
        "LowQualFinSF": poor,
        "LotArea": np.clip(np.exp(rng.normal(np.log(9400), 0.45, count)), 1300, 200_000).astype(int),
        "OverallQual": np.clip(np.round(rng.normal(6.1, 1.4, count)), 1, 10).astype(int),
        "OverallCond": np.clip(np.round(rng.normal(5.6, 1.1, count)), 1, 9).astype(int),
        "KitchenQual": rng.choice(GRADES, count, p=[0.01, 0.05, 0.49, 0.36, 0.09]),
        "SaleCondition": rng.choice(tuple(SALE), count, p=[0.80, 0.08, 0.01, 0.02, 0.02, 0.07]),
        "GarageCars": rng.choice(4, count, p=[0.06, 0.26, 0.55, 0.13]),
        "TotalBsmtSF": np.where(rng.random(count) < 0.04, 0, cellar).astype(int),
    }


def _pick(rng: np.random.Generator, count: int, names: str) -> NDArray[Any]:
    """Values that say nothing about the price; the first ones are the most frequent."""
    choices = names.split()
    shares = 0.35 ** np.arange(len(choices))
    return rng.choice(choices, count, p=shares / shares.sum())


def _lot(rng: np.random.Generator, count: int) -> Table:
    frontage = np.clip(rng.normal(70, 22, count), 21, 300).astype(int).astype(str).astype(object)
    frontage[rng.random(count) < 0.17] = "NA"
    return {
        "MSSubClass": rng.choice([20, 60, 50, 120, 30, 160, 70, 80, 90, 190], count),
        "MSZoning": _pick(rng, count, "RL RM FV RH C"), "LotFrontage": frontage,
        "Street": _pick(rng, count, "Pave Grvl"), "Alley": _pick(rng, count, "NA Grvl Pave"),
        "LotShape": _pick(rng, count, "Reg IR1 IR2 IR3"), "LandContour": _pick(rng, count, "Lvl Bnk HLS Low"),
        "Utilities": np.full(count, "AllPub"), "LotConfig": _pick(rng, count, "Inside Corner CulDSac FR2 FR3"),
        "LandSlope": _pick(rng, count, "Gtl Mod Sev"), "Condition1": _pick(rng, count, "Norm Feedr Artery RRAn PosN"),
        "Condition2": _pick(rng, count, "Norm Feedr Artery"),
        "BldgType": _pick(rng, count, "1Fam TwnhsE Duplex Twnhs 2fmCon"),
        "HouseStyle": _pick(rng, count, "1Story 2Story 1.5Fin SLvl SFoyer"),
        "RoofStyle": _pick(rng, count, "Gable Hip Flat Gambrel"), "RoofMatl": _pick(rng, count, "CompShg WdShngl"),
        "Exterior1st": _pick(rng, count, "VinylSd HdBoard MetalSd Wd-Sdng Plywood Stucco"),
        "Exterior2nd": _pick(rng, count, "VinylSd MetalSd HdBoard Wd-Sdng Plywood Stucco"),
    }  # fmt: skip


def _quality(rng: np.random.Generator, count: int) -> Table:
    brick = rng.random(count) < 0.4
    return {
        "MasVnrType": np.where(brick, _pick(rng, count, "BrkFace Stone BrkCmn"), "None"),
        "MasVnrArea": np.where(brick, rng.integers(20, 700, count), 0),
        "ExterQual": _pick(rng, count, "TA Gd Ex Fa"), "ExterCond": _pick(rng, count, "TA Gd Fa Ex Po"),
        "Foundation": _pick(rng, count, "PConc CBlock BrkTil Slab"), "Heating": _pick(rng, count, "GasA GasW Grav"),
        "HeatingQC": _pick(rng, count, "Ex TA Gd Fa Po"), "CentralAir": _pick(rng, count, "Y N"),
        "Electrical": _pick(rng, count, "SBrkr FuseA FuseF"), "Functional": _pick(rng, count, "Typ Min2 Min1 Mod Maj1"),
    }  # fmt: skip


def _basement(rng: np.random.Generator, core: Table) -> Table:
    total, count = core["TotalBsmtSF"], len(core["TotalBsmtSF"])
    none = total == 0
    finished = (total * rng.uniform(0, 0.7, count)).astype(int)
    second = (total * rng.uniform(0, 0.1, count)).astype(int)
    words = {
        "BsmtQual": "TA Gd Ex Fa", "BsmtCond": "TA Gd Fa", "BsmtExposure": "No Av Gd Mn",
        "BsmtFinType1": "Unf GLQ ALQ BLQ Rec LwQ", "BsmtFinType2": "Unf Rec LwQ BLQ",
    }  # fmt: skip
    parts: Table = {name: np.where(none, "NA", _pick(rng, count, choice)) for name, choice in words.items()}
    return parts | {"BsmtFinSF1": finished, "BsmtFinSF2": second, "BsmtUnfSF": total - finished - second}


def _rooms(rng: np.random.Generator, core: Table) -> Table:
    area, count = core["GrLivArea"], len(core["GrLivArea"])
    fires = rng.choice(4, count, p=[0.47, 0.44, 0.08, 0.01])
    return {
        "BsmtFullBath": rng.choice(3, count, p=[0.58, 0.40, 0.02]),
        "BsmtHalfBath": rng.choice(2, count, p=[0.94, 0.06]),
        "FullBath": rng.choice([1, 2, 3], count, p=[0.45, 0.52, 0.03]),
        "HalfBath": rng.choice(3, count, p=[0.62, 0.36, 0.02]),
        "BedroomAbvGr": rng.choice([1, 2, 3, 4, 5], count, p=[0.04, 0.25, 0.55, 0.14, 0.02]),
        "KitchenAbvGr": rng.choice([1, 2], count, p=[0.96, 0.04]),
        "TotRmsAbvGrd": np.clip(np.round(area / 230 + rng.normal(0, 1.2, count)), 2, 14).astype(int),
        "Fireplaces": fires, "FireplaceQu": np.where(fires == 0, "NA", _pick(rng, count, "Gd TA Fa Ex Po")),
    }  # fmt: skip


def _garage(rng: np.random.Generator, core: Table) -> Table:
    cars, count = core["GarageCars"], len(core["GarageCars"])
    none = cars == 0
    year = np.minimum(2010, core["YearBuilt"] + np.where(rng.random(count) < 0.75, 0, rng.integers(1, 30, count)))
    words = {"GarageType": "Attchd Detchd BuiltIn", "GarageFinish": "Unf RFn Fin", "GarageQual": "TA Fa Gd",
             "GarageCond": "TA Fa Gd"}  # fmt: skip
    parts: Table = {name: np.where(none, "NA", _pick(rng, count, choice)) for name, choice in words.items()}
    area = np.where(none, 0, cars * 255 + rng.integers(-60, 120, count))
    return parts | {"GarageYrBlt": np.where(none, "NA", year.astype(str)), "GarageArea": area}


def _outside(rng: np.random.Generator, count: int) -> Table:
    def sometimes(share: float, low: int, high: int) -> NDArray[Any]:
        return np.where(rng.random(count) < share, rng.integers(low, high, count), 0)

    pool, extra = sometimes(0.01, 300, 800), rng.random(count) < 0.04
    return {
        "PavedDrive": _pick(rng, count, "Y N P"), "WoodDeckSF": sometimes(0.48, 40, 500),
        "OpenPorchSF": sometimes(0.55, 10, 250), "EnclosedPorch": sometimes(0.14, 20, 300),
        "3SsnPorch": sometimes(0.02, 80, 400), "ScreenPorch": sometimes(0.08, 60, 400), "PoolArea": pool,
        "PoolQC": np.where(pool == 0, "NA", _pick(rng, count, "Gd Ex Fa")),
        "Fence": _pick(rng, count, "NA MnPrv GdPrv GdWo"),
        "MiscFeature": np.where(extra, "Shed", "NA"), "MiscVal": np.where(extra, rng.integers(100, 3000, count), 0),
        "MoSold": rng.integers(1, 13, count), "YrSold": rng.integers(2006, 2011, count),
        "SaleType": _pick(rng, count, "WD New COD ConLD"),
    }  # fmt: skip


COLUMNS = _words(
    "MSSubClass MSZoning LotFrontage LotArea Street Alley LotShape LandContour Utilities LotConfig LandSlope "
    "Neighborhood Condition1 Condition2 BldgType HouseStyle OverallQual OverallCond YearBuilt YearRemodAdd "
    "RoofStyle RoofMatl Exterior1st Exterior2nd MasVnrType MasVnrArea ExterQual ExterCond Foundation BsmtQual "
    "BsmtCond BsmtExposure BsmtFinType1 BsmtFinSF1 BsmtFinType2 BsmtFinSF2 BsmtUnfSF TotalBsmtSF Heating "
    "HeatingQC CentralAir Electrical 1stFlrSF 2ndFlrSF LowQualFinSF GrLivArea BsmtFullBath BsmtHalfBath FullBath "
    "HalfBath BedroomAbvGr KitchenAbvGr KitchenQual TotRmsAbvGrd Functional Fireplaces FireplaceQu GarageType "
    "GarageYrBlt GarageFinish GarageCars GarageArea GarageQual GarageCond PavedDrive WoodDeckSF OpenPorchSF "
    "EnclosedPorch 3SsnPorch ScreenPorch PoolArea PoolQC Fence MiscFeature MiscVal MoSold YrSold SaleType "
    "SaleCondition"
)
