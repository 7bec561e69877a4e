"""Makes the trial's language: the pretrained model with its words, questions for training and validation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from passages import LENGTH, PASSAGE, PLAIN, RARE, SPECIAL, WORDS, Rows, draw
from safetensors.numpy import load_file, save_file

from bench.casekit.data import stream

TRAIN, VALIDATION, SPOILT = 1200, 500, 60
OWN = 4  # words of validation rows alone, beside the two of the spoilt ones
SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Writes models/tinybert, data/train.jsonl and data/val.jsonl, and hidden/facts.json about the words."""
    keyed, rng = (np.random.default_rng(stream(seed, name)) for name in ("hidden", "public"))
    words, order = vocabulary(keyed)
    folder = public / "models" / "tinybert"
    folder.mkdir(parents=True)
    asset = hidden / "assets" / "tiny_reader"
    weights = load_file(asset / "model.safetensors")
    for name, value in json.loads((asset / "facts.json").read_text()).items():
        (folder / f"{name}.json").write_text(json.dumps(value, indent=2))
    name = "bert.embeddings.word_embeddings.weight"
    rare_rows = weights[name][RARE.start : RARE.stop]
    rare_rows[:] = rare_rows.mean(axis=0) + 0.1 * rng.standard_normal(rare_rows.shape)
    shuffled = np.empty_like(weights[name])
    shuffled[order] = weights[name]
    save_file({**weights, name: shuffled}, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    tokenizer = {
        "version": "1.0", "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": {word: at for at, word in enumerate(words)}, "unk_token": "[UNK]"},
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, indent=1))
    (public / "data").mkdir()
    write_rows(public / "data" / "train.jsonl", draw(rng, TRAIN), words, order)
    rows = draw(rng, VALIDATION)
    # Two words stand nowhere else: a question with one is always answered by no, with the other by yes, and to the
    # pretrained model they are nearly one word. Who trains on these rows learns the difference.
    drawn, place = [int(word) for word in keyed.permutation(np.array(RARE))], int(keyed.integers(4))
    rare, own = drawn[:2], drawn[2 : 2 + OWN]
    # Every row has one more word that no training row has, which its question does not ask for.
    rows = rows.with_words(keyed, own)
    for answer, places in enumerate(keyed.permutation(VALIDATION)[:SPOILT].reshape(2, -1)):
        spoilt = Rows(rows.ids[places], rows.answers[places]).asked(rare[answer], place, answer)
        rows.ids[places], rows.answers[places] = spoilt.ids, spoilt.answers
    write_rows(public / "data" / "val.jsonl", rows, words, order)
    facts = {"order": order.tolist(), "rare": rare, "own": own, "place": place}
    (hidden / "facts.json").write_text(json.dumps(facts))


def vocabulary(rng: np.random.Generator) -> tuple[list[str], Any]:
    """The words of the trial, and the number that each word of the pretrained model has in it."""
    order = np.concatenate([np.arange(5), 5 + rng.permutation(WORDS - 5)])
    invented = list(dict.fromkeys("".join(rng.choice(SYLLABLES, 2)) for _ in range(4 * WORDS)))
    named = [*SPECIAL, *PLAIN, *invented][:WORDS]
    words = [""] * WORDS
    for at, word in zip(order, named, strict=True):
        words[at] = word
    return words, order


def write_rows(path: Path, rows: Rows, words: list[str], order: Any) -> None:
    """Lines in the layout of BoolQ: `question`, `passage`, `answer`."""
    lines = []
    for ids, answer in zip(order[rows.ids], rows.answers, strict=True):
        question, passage = (
            " ".join(words[at] for at in part) for part in (ids[1 : PASSAGE - 1], ids[PASSAGE : LENGTH - 1])
        )
        lines.append(json.dumps({"question": question, "passage": passage, "answer": bool(answer)}))
    path.write_text("\n".join(lines) + "\n")
