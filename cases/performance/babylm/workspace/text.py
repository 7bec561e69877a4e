"""The text as numbers, by the fixed words of vocab.txt: one word a line, the first line is number 0, `<s>`."""

from pathlib import Path

import torch


def vocabulary() -> dict[str, int]:
    """The number of each word."""
    return {word: number for number, word in enumerate(Path("vocab.txt").read_text().split())}


def read(folder: str) -> torch.Tensor:
    """All words of all sources of `babylm_data/<folder>`, one after the other."""
    known = vocabulary()
    files = sorted(Path("babylm_data", folder).iterdir())
    return torch.tensor([known[word] for file in files for word in file.read_text().split()])


def blocks(numbers: torch.Tensor, starts: torch.Tensor, length: int) -> torch.Tensor:
    """Pieces of the text that begin at `starts`, N x (length + 1), each with `<s>` in front."""
    pieces = numbers[starts[:, None] + torch.arange(length)]
    return torch.cat([torch.zeros(len(starts), 1, dtype=torch.long), pieces], dim=1)
