"""Trains a small GPT from scratch on babylm_data/babylm_10M, prints its loss on babylm_dev, and saves it to output/."""

from pathlib import Path

import torch
from model import Gpt
from safetensors.torch import save_file
from text import blocks, read, vocabulary
from torch.nn import functional

LENGTH, BATCH, EPOCHS, RATE = 63, 16, 1, 5e-5


def loss_of(model: Gpt, rows: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy of the next word, in nats."""
    return functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    learn, dev = read("babylm_10M"), read("babylm_dev")
    model = Gpt(len(vocabulary()))
    starts = torch.arange(0, len(learn) - LENGTH, LENGTH)
    steps = EPOCHS * -(-len(starts) // BATCH)
    optimiser = torch.optim.AdamW(model.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, steps)
    for epoch in range(1, EPOCHS + 1):
        for part in starts[torch.randperm(len(starts))].split(BATCH):
            loss = loss_of(model, blocks(learn, part, LENGTH))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        with torch.no_grad():
            loss = loss_of(model, blocks(dev, torch.arange(0, len(dev) - LENGTH, LENGTH), LENGTH))
        print(f"epoch {epoch}: perplexity {loss.exp().item():.2f} on babylm_dev", flush=True)
    Path("output").mkdir(exist_ok=True)
    save_file(model.state_dict(), "output/model.safetensors")


if __name__ == "__main__":
    main()
