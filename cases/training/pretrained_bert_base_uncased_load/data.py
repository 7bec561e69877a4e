"""Two small BERTs in the layout of a hub, with sizes, words and weights of the seed."""

import json
import random
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from bench.casekit.data import stream

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    for kind in ("uncased", "cased"):
        rng = random.Random(stream(seed, kind))
        repository(rng, np.random.default_rng(stream(seed, f"weights {kind}")), hidden / kind, kind == "uncased")


def repository(rng: random.Random, drawn: np.random.Generator, folder: Path, lower: bool) -> None:
    folder.mkdir()
    heads = rng.choice([2, 3, 4])
    config = {
        "architectures": ["BertModel"], "model_type": "bert", "hidden_size": heads * rng.choice([8, 12, 16]),
        "num_attention_heads": heads, "num_hidden_layers": rng.choice([1, 2, 3, 5]),
        # Not what a library takes where they are missing.
        "hidden_act": rng.choice(["relu", "silu", "gelu_new"]), "layer_norm_eps": rng.choice([1e-5, 1e-6, 1e-7]),
        "intermediate_size": rng.choice([80, 96, 112]), "max_position_embeddings": 64, "type_vocab_size": 2,
        "pad_token_id": 0,
    }  # fmt: skip
    words = sorted({"".join(rng.choices(SYLLABLES, k=rng.randint(1, 3))) for _ in range(rng.randint(300, 400))})
    rng.shuffle(words)
    # Accents stay, as the settings say; and a line ends with \n alone, as in vocabularies of many languages.
    words[7:7] = ["b\u00e9da", "l\u00fc", "go\u2028do"]
    words = [*SPECIAL, *words, *(f"##{syllable}" for syllable in SYLLABLES)]
    # As in real models, there are more rows of embeddings than words.
    config["vocab_size"] = (len(words) + 16) // 8 * 8
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    tokenizer = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": lower,
        "strip_accents": False,
        "model_max_length": 64,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer, indent=2))
    (folder / "README.md").write_text(f"# A small BERT, {folder.name}\n")
    arrays = {name: (0.02 * drawn.standard_normal(shape)).astype(np.float32) for name, shape in shapes(config).items()}
    shards = {f"model-0000{number + 1}-of-00002.safetensors": sorted(arrays)[number::2] for number in (0, 1)}
    for file, names in shards.items():
        save_file({name: arrays[name] for name in names}, folder / file, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {name: file for file, names in shards.items() for name in names}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True))


def shapes(config: dict[str, int]) -> dict[str, tuple[int, ...]]:
    size, wide = config["hidden_size"], config["intermediate_size"]
    found: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], size),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], size),
        "embeddings.token_type_embeddings.weight": (2, size),
    }
    linear = {"pooler.dense": (size, size)}
    norms = ["embeddings.LayerNorm"]
    for number in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        linear |= {f"{layer}.attention.self.{part}": (size, size) for part in ("query", "key", "value")}
        linear |= {f"{layer}.attention.output.dense": (size, size), f"{layer}.intermediate.dense": (wide, size)}
        linear |= {f"{layer}.output.dense": (size, wide)}
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    for name, shape in linear.items():
        found |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    for name in norms:
        found |= {f"{name}.weight": (size,), f"{name}.bias": (size,)}
    return found
