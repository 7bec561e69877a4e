"""Balanced accuracy on the validation pictures, on the CPU. Do not modify this file: the judge restores it."""

import numpy as np
import torch
from dataset import Cifar10Imbanlance, normalise
from utils import get_best_model

BATCH = 128


def main():
    model, data = get_best_model().eval(), Cifar10Imbanlance(train=False)
    with torch.no_grad():
        parts = [model(normalise(data.pictures[at : at + BATCH])) for at in range(0, len(data), BATCH)]
    right = torch.cat(parts).argmax(1).numpy() == data.labels
    value = 100 * np.mean([right[data.labels == label].mean() for label in range(10)])
    with open("balanced_accuracy.txt", "w") as file:
        file.write(f"Balanced accuracy: {value:.4f}\n")
    print(f"{value:.2f} %")


if __name__ == "__main__":
    main()
