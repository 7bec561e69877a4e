"""Trains a small network on the papers' word vectors and predicts the fields of the test papers."""

import csv

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

FOLDER = "networks/ogbn_arxiv"
WIDTH, RATE, EPOCHS, BATCH = 16, 0.05, 4, 128


def read(name: str, dtype: type) -> np.ndarray:
    """One of OGB's raw tables: numbers without a header."""
    return np.loadtxt(f"{FOLDER}/{name}.csv.gz", dtype=dtype, delimiter=",")


def main() -> None:
    torch.manual_seed(0)
    words = torch.from_numpy(read("raw/node-feat", np.float32))
    fields = torch.from_numpy(read("raw/node-label", np.int64))  # -1 for test papers
    train, valid, test = (torch.from_numpy(read(f"split/time/{part}", np.int64)) for part in ("train", "valid", "test"))
    classes = int(fields.max()) + 1
    model = nn.Sequential(nn.Linear(words.shape[1], WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, classes))
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    for epoch in range(EPOCHS):
        model.train()
        for batch in train[torch.randperm(len(train))].split(BATCH):
            optimiser.zero_grad()
            F.cross_entropy(model(words[batch]), fields[batch]).backward()
            optimiser.step()
        model.eval()
        with torch.no_grad():
            named = model(words).argmax(dim=1)
        shares = [(named[part] == fields[part]).float().mean().item() for part in (train, valid)]
        print(f"epoch {epoch + 1}: accuracy {shares[0]:.4f} in training, {shares[1]:.4f} in validation")
    with open("submission.csv", "w", newline="") as file:
        csv.writer(file).writerows([("node", "field"), *zip(test.tolist(), named[test].tolist())])


if __name__ == "__main__":
    main()
