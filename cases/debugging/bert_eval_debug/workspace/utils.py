"""Questions and passages as the encoder takes them."""

import json
from pathlib import Path

import torch


class Tokenizer:
    """Words to numbers, by the vocabulary of a checkpoint."""

    def __init__(self, folder: str) -> None:
        words = Path(folder, "vocab.txt").read_text().split()
        self.ids = {word: number for number, word in enumerate(words)}

    def words(self, text: str) -> list[int]:
        return [self.ids.get(word, self.ids["[UNK]"]) for word in text.lower().split()]

    def pair(self, question: str, passage: str, max_length: int) -> dict[str, list[int]]:
        """[CLS] question [SEP] passage [SEP], cut and padded to `max_length`."""
        first = [self.ids["[CLS]"], *self.words(question), self.ids["[SEP]"]]
        second = [*self.words(passage), self.ids["[SEP]"]]
        ids, types = (first + second)[:max_length], ([0] * len(first) + [1] * len(second))[:max_length]
        rest = max_length - len(ids)
        return {
            "input_ids": ids + [self.ids["[PAD]"]] * rest,
            "attention_mask": [1] * len(ids) + [0] * rest,
            "token_type_ids": types + [0] * rest,
        }


def load_split(path: str, tokenizer: Tokenizer, max_length: int) -> list[dict[str, torch.Tensor]]:
    """The rows of a .jsonl file: what the encoder takes, and `labels`."""
    rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    examples = []
    for row in rows:
        example = tokenizer.pair(row["question"], row["passage"], max_length)
        tensors = {name: torch.tensor(values) for name, values in example.items()}
        examples.append({**tensors, "labels": torch.tensor(int(row["label"]))})
    return examples
