"""Measures best_checkpoint/ on the validation split, and writes eval_metrics.json."""

import json
from pathlib import Path

import torch
from tiny_bert import load
from utils import load_split


def main() -> None:
    model = load("best_checkpoint").eval()
    split = load_split("data/val.jsonl", "best_checkpoint")
    labels = split.pop("labels")
    with torch.no_grad():
        accuracy = 100 * (model(**split).argmax(dim=1) == labels).double().mean().item()
    print(f"validation accuracy: {accuracy:.2f} %")
    Path("eval_metrics.json").write_text(json.dumps({"final_val_acc": accuracy}))


if __name__ == "__main__":
    main()
