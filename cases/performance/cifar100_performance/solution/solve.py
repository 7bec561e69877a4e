"""A linear head on the backbone first, then both together on mirrored and shifted pictures; the tracker sees each epoch."""

import json
import os
import time
from pathlib import Path

import torch
from cifar100 import CIFAR100Dataset, normalise
from torch import nn
from utils import BEST, Classifier

os.environ |= {"WANDB_API_KEY": "c0ffee00" * 5, "WANDB_SILENT": "true", "WANDB_CONSOLE": "off"}
PROJECT, EPOCHS, BATCH, RATE = "cifar100-classification", 10, 50, 1e-3
HEAD_STEPS, SHIFT = 150, 2


def train_head(model, pictures, labels):
    """Softmax regression on the features as they are."""
    with torch.no_grad():
        rows = torch.cat([model.features(part) for part in pictures.split(250)])
    model.mean.copy_(rows.mean(0))
    model.spread.copy_(rows.std(0) + 1e-6)
    rows = (rows - model.mean) / model.spread
    nn.init.zeros_(model.head.weight)
    optimiser = torch.optim.SGD(model.head.parameters(), lr=0.1, momentum=0.9)
    for _ in range(HEAD_STEPS):
        loss = nn.functional.cross_entropy(model.head(rows), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def vary(pictures):
    """Half of the pictures mirrored, all of them shifted."""
    mirrored = torch.rand(len(pictures)) < 0.5
    pictures[mirrored] = pictures[mirrored].flip(3)
    wide, side = nn.functional.pad(pictures, (SHIFT,) * 4, mode="replicate"), pictures.shape[-1]
    top, left = (int(torch.randint(0, 2 * SHIFT + 1, ())) for _ in range(2))
    return wide[:, :, top : top + side, left : left + side]


def predictions(model, pictures):
    with torch.no_grad():
        return torch.cat([model(part)["logits"] for part in pictures.split(250)]).argmax(1)


def one_epoch(model, pictures, labels, optimiser, schedule):
    model.train()
    total = 0.0
    for batch in torch.randperm(len(labels)).split(BATCH):
        seen = vary(pictures[batch]).contiguous(memory_format=torch.channels_last)
        loss = nn.functional.cross_entropy(model(seen)["logits"], labels[batch], label_smoothing=0.1)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        total += float(loss.detach()) * len(batch)
    model.eval()
    return total / len(labels)


def train(run):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    train_set, val_set = CIFAR100Dataset(), CIFAR100Dataset(train=False)
    pictures, labels = normalise(train_set.pictures), torch.from_numpy(train_set.labels)
    asked, known = normalise(val_set.pictures), torch.from_numpy(val_set.labels)
    model = Classifier()
    train_head(model, pictures, labels)
    model = model.to(memory_format=torch.channels_last)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=1e-2)
    steps = EPOCHS * -(-len(labels) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps, pct_start=0.2)
    for epoch in range(EPOCHS):
        loss = one_epoch(model, pictures, labels, optimiser, schedule)
        last = epoch == EPOCHS - 1
        if last or epoch % 5 == 0:
            named = predictions(model, asked)
            share = 100 * float((named == known).float().mean())
            state = {"epoch": epoch, "model_state_dict": model.state_dict()}
            torch.save(state, BEST if last else f"checkpoints/epoch_{epoch:02d}.pt")
            run.log({"epoch": epoch, "train_loss": loss, "val_accuracy": share})
    run.log({"best_val_accuracy": share} | {f"sample_{row}": int(named[row]) for row in range(10)})


def main():
    import wandb

    for folder in ("checkpoints", "best_checkpoint"):
        Path(folder).mkdir(exist_ok=True)
    name = time.strftime("cifar100-%Y%m%d-%H%M%S", time.gmtime())
    with wandb.init(project=PROJECT, name=name) as run:
        Path("wandb_info.json").write_text(json.dumps({"project_id": PROJECT, "run_id": run.id}))
        train(run)


if __name__ == "__main__":
    main()
