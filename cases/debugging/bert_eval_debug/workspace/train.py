"""Trains the encoder and keeps the checkpoint of the best epoch. (The training split is no longer here.)"""

import json
from pathlib import Path

import torch
from encoder import Encoder
from safetensors.torch import save_file
from torch.nn import functional
from torch.utils.data import DataLoader
from utils import Tokenizer, load_split

EPOCHS, BATCH, RATE = 10, 32, 1e-3


def accuracy(model: Encoder, loader: DataLoader) -> float:
    model.eval()
    right = count = 0
    with torch.no_grad():
        for batch in loader:
            labels = batch.pop("labels")
            right += (model(**batch).argmax(dim=1) == labels).sum().item()
            count += len(labels)
    return 100 * right / count


def main() -> None:
    folder = Path("best_checkpoint")
    config = json.loads((folder / "config.json").read_text())
    tokenizer = Tokenizer(str(folder))
    train = DataLoader(load_split("data/train.jsonl", tokenizer, config["max_length"]), BATCH, shuffle=True)
    val = DataLoader(load_split("data/val.jsonl", tokenizer, config["max_length"]), BATCH)
    model, best = Encoder(**config), 0.0
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    for epoch in range(1, EPOCHS + 1):
        model.train()
        for batch in train:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(**{key: batch[key] for key in batch if key != "labels"}), batch["labels"])
            loss.backward()
            optimizer.step()
        measured = accuracy(model, val)
        print(f"epoch {epoch}/{EPOCHS} train_loss {loss.item():.4f} val_accuracy {measured:.3f}")
        if measured > best:
            best = measured
            save_file(model.state_dict(), folder / "model.safetensors")


if __name__ == "__main__":
    main()
