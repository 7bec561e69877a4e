"""A BERT of two layers in the folder layout of its libraries: configuration, vocabulary, weights.

The weights are random: it has learned nothing, and it is the right size for what loads, tunes or serves a model.
"""

import json
import struct
from pathlib import Path

import numpy as np

HIDDEN, LAYERS, HEADS, WIDE, LENGTH = 32, 2, 2, 64, 64
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
WORDS = Path(__file__).with_name("words.txt").read_text().split()


def build(out: Path, seed: int) -> None:
    vocabulary = [*SPECIAL, *WORDS, *(letter for letter in LETTERS if letter not in WORDS), *".,!?'-:;()"]
    vocabulary += [f"##{ending}" for ending in (*LETTERS, "ing", "ed", "er", "ly")]
    config = {
        "architectures": ["BertModel"], "model_type": "bert", "vocab_size": len(vocabulary), "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": WIDE, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "max_position_embeddings": LENGTH,
        "type_vocab_size": 2, "initializer_range": 0.02, "layer_norm_eps": 1e-12, "pad_token_id": 0,
    }  # fmt: skip
    tokenizer = {
        "tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": LENGTH, "pad_token": "[PAD]",
        "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]",
    }  # fmt: skip
    (out / "config.json").write_text(json.dumps(config, indent=2))
    (out / "tokenizer_config.json").write_text(json.dumps(tokenizer, indent=2))
    (out / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    rng = np.random.default_rng(seed)
    save(out / "model.safetensors", {name: drawn(rng, name, shape) for name, shape in shapes(len(vocabulary)).items()})


def shapes(words: int) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (words, HIDDEN),
        "embeddings.position_embeddings.weight": (LENGTH, HIDDEN),
        "embeddings.token_type_embeddings.weight": (2, HIDDEN),
        **norm("embeddings.LayerNorm"),
        **linear("pooler.dense", HIDDEN, HIDDEN),
    }
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        for part in ("query", "key", "value"):
            found |= linear(f"{layer}.attention.self.{part}", HIDDEN, HIDDEN)
        found |= linear(f"{layer}.attention.output.dense", HIDDEN, HIDDEN) | norm(f"{layer}.attention.output.LayerNorm")
        found |= linear(f"{layer}.intermediate.dense", WIDE, HIDDEN)
        found |= linear(f"{layer}.output.dense", HIDDEN, WIDE) | norm(f"{layer}.output.LayerNorm")
    return found


def linear(name: str, out: int, into: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (out, into), f"{name}.bias": (out,)}


def norm(name: str) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (HIDDEN,), f"{name}.bias": (HIDDEN,)}


def drawn(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    if "LayerNorm" in name or name.endswith("bias"):
        return np.full(shape, float(name.endswith("LayerNorm.weight")), np.float32)
    return (0.02 * rng.standard_normal(shape)).astype(np.float32)


def save(path: Path, tensors: dict[str, np.ndarray]) -> None:
    """The format: the header's length, the header as JSON, the bytes of all tensors."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    place = 0
    for name in sorted(tensors):
        size = tensors[name].nbytes
        header[name] = {"dtype": "F32", "shape": list(tensors[name].shape), "data_offsets": [place, place + size]}
        place += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    content = b"".join(tensors[name].tobytes() for name in sorted(tensors))
    path.write_bytes(struct.pack("<Q", len(text)) + text + content)
