"""Reads train.csv and test.csv; writes submission.csv."""

import csv


def read(path: str) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    raise NotImplementedError(f"learn from {len(read('train.csv'))} customers")
