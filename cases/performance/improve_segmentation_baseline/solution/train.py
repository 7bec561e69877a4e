"""Fine-tunes the pretrained network on the trial's own scenes, mirrored at random, at a rate that rises and falls."""

import argparse
import json
import math
import time

import numpy as np
import torch
from safetensors.torch import save_file
from small_fcn import CLASSES, load_pretrained, prepare
from torch import nn

BATCH, RATE, IGNORED = 25, 4e-3, 255


def load(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    with np.load(f"data/VOC2012/{name}.npz") as file:
        return prepare(torch.from_numpy(file["images"])), torch.from_numpy(file["masks"]).long()


def vary(pictures: torch.Tensor, masks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The scenes mirrored left to right, top to bottom, both or not at all."""
    turned = [axis for axis in (-1, -2) if torch.rand(()) < 0.5]
    return pictures.flip(turned), masks.flip(turned)


def train(model: nn.Module, pictures: torch.Tensor, masks: torch.Tensor, epochs: int) -> None:
    model.to(memory_format=torch.channels_last)
    parameters = model.parameters()
    optimiser = torch.optim.AdamW(parameters, lr=RATE, weight_decay=1e-3)
    steps = epochs * math.ceil(len(masks) / BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps, pct_start=0.2)
    for _ in range(epochs):
        for rows in torch.randperm(len(masks)).split(BATCH):
            seen, wanted = vary(pictures[rows], masks[rows])
            seen = seen.contiguous(memory_format=torch.channels_last)
            loss = nn.functional.cross_entropy(model(seen), wanted, ignore_index=IGNORED)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()


@torch.no_grad()
def mean_iou(model: nn.Module, pictures: torch.Tensor, masks: torch.Tensor) -> float:
    """Over all pixels that count, then over the classes that occur."""
    predicted = torch.cat([model(part).argmax(1) for part in pictures.split(100)])
    counted = masks != IGNORED
    table = torch.bincount(masks[counted] * CLASSES + predicted[counted], minlength=CLASSES**2).view(CLASSES, CLASSES)
    both, there = table.diagonal(), table.sum(1)
    either = there + table.sum(0) - both
    return (both[there > 0] / either[there > 0]).mean().item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=9)
    epochs = parser.parse_args().epochs
    torch.manual_seed(0)
    torch.set_num_threads(1)
    start = time.monotonic()
    model = load_pretrained()
    train(model, *load("train"), epochs)
    seconds = time.monotonic() - start
    save_file({name: part.contiguous() for name, part in model.state_dict().items()}, "best_model.safetensors")
    report = {
        "model_name": "small_fcn.SmallFCN",
        "mean_iou": mean_iou(model, *load("val")),
        "training_time": seconds,
        "dataset_info": {"year": "2012", "image_set": "val", "num_classes": CLASSES},
    }
    with open("output_info.json", "w") as file:
        json.dump(report, file, indent=2)


if __name__ == "__main__":
    main()
