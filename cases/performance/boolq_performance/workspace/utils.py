"""Questions and passages as the network takes them."""

import json
from pathlib import Path

import torch


def load_split(path: str, folder: str) -> dict[str, torch.Tensor]:
    """The rows of a .jsonl file, by the vocabulary of a model's folder: N x length, and `labels`, N (1 is yes)."""
    words = Path(folder, "vocab.txt").read_text().split()
    numbers = {word: number for number, word in enumerate(words)}
    parts: dict[str, list] = {"input_ids": [], "attention_mask": [], "token_type_ids": [], "labels": []}
    for line in Path(path).read_text().splitlines():
        row = json.loads(line)
        question, passage = (
            [numbers.get(word, numbers["[UNK]"]) for word in row[name].lower().split()] for name in ("question", "passage")
        )
        first, second = [numbers["[CLS]"], *question, numbers["[SEP]"]], [*passage, numbers["[SEP]"]]
        parts["input_ids"].append(torch.tensor(first + second))
        parts["attention_mask"].append(torch.ones(len(first) + len(second), dtype=torch.long))
        parts["token_type_ids"].append(torch.tensor([0] * len(first) + [1] * len(second)))
        parts["labels"].append(torch.tensor(int(row["answer"])))
    pad = torch.nn.utils.rnn.pad_sequence
    labels = torch.stack(parts.pop("labels"))
    return {**{name: pad(rows, batch_first=True) for name, rows in parts.items()}, "labels": labels}
