"""Trains a small network that looks at neighbourhoods and writes the masks of the test scenes."""

import csv
from pathlib import Path

import numpy as np
import torch
from encode import encode
from torch import nn
from torch.nn import functional

FRAME, EPOCHS, BATCH, RATE, WIDTH = 1, 12, 8, 1e-2, 16


def channels(folder):
    """Both differences of bands in the labelled frame, in kelvin."""
    b11, b14, b15 = (np.load(folder / f"band_{number}.npy")[:, :, FRAME] / 100 for number in (11, 14, 15))
    return np.stack([b15 - b14, b14 - b11]).astype(np.float32)


def read(part):
    folders = sorted(Path(part).iterdir())
    return [folder.name for folder in folders], torch.from_numpy(np.stack([channels(it) for it in folders]))


def network(width=WIDTH):
    layers, before = [nn.PixelUnshuffle(2)], 8
    for dilation in (1, 1, 2, 2):
        layers += [nn.Conv2d(before, width, 3, padding=dilation, dilation=dilation, bias=False)]
        layers += [nn.BatchNorm2d(width), nn.ReLU()]
        before = width
    return nn.Sequential(*layers, nn.Conv2d(width, 4, 3, padding=1), nn.PixelShuffle(2))


def varied(pictures, masks):
    """All scenes of a batch mirrored or turned alike."""
    turns, mirrored = int(torch.randint(4, ())), bool(torch.randint(2, ()))
    pictures, masks = (torch.rot90(it, turns, (-2, -1)) for it in (pictures, masks))
    return (pictures.flip(-1), masks.flip(-1)) if mirrored else (pictures, masks)


def lost(logits, masks):
    """Cross entropy and what is missing of the Dice of the batch."""
    shares = logits.sigmoid()
    overlap = 2 * (shares * masks).sum() / (shares.sum() + masks.sum() + 1)
    return functional.binary_cross_entropy_with_logits(logits, masks) + 1 - overlap


def main():
    names, pictures = read("train")
    masks = np.stack([np.load(f"train/{name}/human_pixel_masks.npy")[:, :, 0] for name in names])
    masks, mean, spread = torch.from_numpy(masks).float(), pictures.mean((0, 2, 3)), pictures.std((0, 2, 3))
    pictures = (pictures - mean.view(2, 1, 1)) / spread.view(2, 1, 1)
    model = network()
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE)
    steps = EPOCHS * -(-len(names) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps)
    for number in range(EPOCHS):
        for rows in torch.randperm(len(names)).split(BATCH):
            seen, wanted = varied(pictures[rows], masks[rows])
            loss = lost(model(seen)[:, 0], wanted)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        print(f"epoch {number + 1}: loss {loss.item():.3f}")
    names, pictures = read("test")
    pictures = (pictures - mean.view(2, 1, 1)) / spread.view(2, 1, 1)
    with torch.no_grad():
        found = model.eval()(pictures)[:, 0].numpy() > 0
    with open("submission.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["record_id", "encoded_pixels"])
        table.writerows([name, encode(mask)] for name, mask in zip(names, found))


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    main()
