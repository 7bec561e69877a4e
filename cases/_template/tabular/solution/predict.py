"""Reads train.csv and test.csv; writes submission.csv."""

import csv

import numpy as np

NUMBERS = ("visits", "spent", "age", "distance", "rating", "delay")
CATEGORIES = ("region", "channel")
STEPS, RATE, DECAY = 300, 0.5, 0.01


def read(path: str) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def numbers(rows: list[dict[str, str]], name: str) -> np.ndarray:
    return np.array([float(row[name]) if row[name] else np.nan for row in rows])


def features(rows: list[dict[str, str]], known: list[dict[str, str]]) -> np.ndarray:
    """Numbers with mean 0 and spread 1 of the known rows, gaps at the mean; a column for each known category."""
    parts = []
    for name in NUMBERS:
        seen = numbers(known, name)
        parts.append(np.nan_to_num((numbers(rows, name) - np.nanmean(seen)) / np.nanstd(seen)))
    for name in CATEGORIES:
        parts += [np.array([row[name] == level for row in rows], float) for level in sorted({it[name] for it in known})]
    return np.column_stack(parts)


def fit(table: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Logistic regression by descent."""
    weights = np.zeros(table.shape[1])
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-(table @ weights)))
        weights -= RATE * (table.T @ (chance - target) / len(table) + DECAY * weights)
    return weights


def main() -> None:
    train, test = read("train.csv"), read("test.csv")
    weights = fit(features(train, train), np.array([float(row["again"]) for row in train]))
    chance = 1 / (1 + np.exp(-(features(test, train) @ weights)))
    with open("submission.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "again"])
        writer.writerows([row["id"], f"{value:.6f}"] for row, value in zip(test, chance))


if __name__ == "__main__":
    main()
