"""Evaluates the best checkpoint on the validation split."""

import json
from pathlib import Path

import torch
from encoder import load_encoder
from torch.utils.data import DataLoader
from utils import Tokenizer, load_split

CHECKPOINT, BATCH = "best_checkpoint", 32


def evaluate() -> float:
    """Accuracy in per cent."""
    config = json.loads(Path(CHECKPOINT, "config.json").read_text())
    examples = load_split("data/val.jsonl", Tokenizer(CHECKPOINT), config["max_length"])
    model = load_encoder(CHECKPOINT)
    model.eval()
    right = count = 0
    with torch.no_grad():
        for batch in DataLoader(examples, batch_size=BATCH, shuffle=False):
            labels = batch.pop("labels")
            scores = model(**batch)
            right += (scores.argmax(dim=1) == labels).sum().item()
            count += len(labels)
    return 100 * right / count


def main() -> None:
    accuracy = evaluate()
    print(f"validation accuracy: {accuracy:.3f} %")
    Path("eval_metrics.json").write_text(json.dumps({"final_val_accuracy": accuracy}))


if __name__ == "__main__":
    main()
