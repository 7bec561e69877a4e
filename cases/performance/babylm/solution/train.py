"""Trains a small language model from scratch on babylm_data/babylm_10M, prints its loss on babylm_dev, and saves it to output/."""

import sys
from pathlib import Path

import torch
from model import Gpt
from safetensors.torch import save_file
from text import blocks, read, vocabulary
from torch.nn import functional

LENGTH, BATCH, STEPS, RATE = 63, 16, 250, 1e-2


def loss_of(model: Gpt, rows: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy of the next word, in nats."""
    return functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


def main() -> None:
    torch.manual_seed(0)
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else STEPS
    torch.set_num_threads(1)
    learn, dev = read("babylm_10M"), read("babylm_dev")
    model = Gpt(len(vocabulary()))
    optimiser = torch.optim.AdamW(model.parameters(), RATE, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps, pct_start=0.1)
    for _ in range(steps):
        loss = loss_of(model, blocks(learn, torch.randint(len(learn) - LENGTH, (BATCH,)), LENGTH))
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    with torch.no_grad():
        loss = loss_of(model, blocks(dev, torch.arange(0, len(dev) - LENGTH, LENGTH), LENGTH))
    print(f"perplexity {loss.exp().item():.2f} on babylm_dev", flush=True)
    Path("output").mkdir(exist_ok=True)
    save_file(model.state_dict(), "output/model.safetensors")


if __name__ == "__main__":
    main()
