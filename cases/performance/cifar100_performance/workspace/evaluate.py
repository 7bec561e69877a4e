"""Accuracy on the validation pictures, on the CPU. Do not modify this file: the judge restores it."""

import json

import torch
from cifar100 import CIFAR100Dataset, normalise
from utils import get_best_model

BATCH = 64


def main():
    torch.set_num_threads(4)
    model, data = get_best_model(), CIFAR100Dataset(train=False)
    with torch.no_grad():
        parts = [model(normalise(data.pictures[at : at + BATCH]))["logits"] for at in range(0, len(data), BATCH)]
    right = torch.cat(parts).argmax(1).numpy() == data.labels
    numbers = sum(part.numel() for part in model.state_dict().values())
    result = {"accuracy": 100 * float(right.mean()), "num_parameters": numbers}
    with open("eval_metrics.json", "w") as file:
        json.dump(result, file)
    print(result)


if __name__ == "__main__":
    main()
