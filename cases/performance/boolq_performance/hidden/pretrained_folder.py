"""What best_checkpoint/ has beside the weights: the files of the pretrained model, as the libraries would read them."""

from __future__ import annotations

import json
from typing import Any

from bench.judge import Workspace, integer, mapping, number

SIZES = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
    "max_position_embeddings", "type_vocab_size",
)  # fmt: skip
READ = ("hidden_dropout_prob", "layer_norm_eps", "initializer_range")  # what tiny_bert.load cannot do without


def assert_as_pretrained(ws: Workspace, folder: str, model: str) -> None:
    """AssertionError where `folder` lacks what evaluate.py needs, or has another tokenizer than `model`."""
    _config(mapping(ws.json(f"{folder}/config.json")), _given(ws, f"{model}/config.json"))
    found = mapping(mapping(ws.json(f"{folder}/tokenizer.json"), keys=["model"])["model"], keys=["vocab"])["vocab"]
    wanted = _given(ws, f"{model}/tokenizer.json")["model"]["vocab"]
    assert found == wanted, "the words of tokenizer.json are not those of the pretrained model"
    words = ws.original(f"{model}/vocab.txt").read_text().split()
    assert ws.text(f"{folder}/vocab.txt").split() == words, "vocab.txt is not that of the pretrained model"
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        there = mapping(ws.json(f"{folder}/{name}"))
        odd = [key for key, value in _given(ws, f"{model}/{name}").items() if _plain(there.get(key)) != value]
        assert not odd, f"{name} differs from the pretrained model's in {odd}"


def _config(config: dict[str, Any], given: dict[str, Any]) -> None:
    odd = [name for name in ("model_type", *SIZES) if config.get(name) != given[name]]
    assert not odd, f"config.json differs from the pretrained model's in {odd}"
    assert integer(config.get("num_labels", 2)) == 2, f"config.json says num_labels {config['num_labels']}"
    lost = [name for name in READ if name not in config]
    assert not lost, f"config.json lacks {lost}, which the pretrained model's has and tiny_bert.py reads"
    for name in READ:
        number(config[name], low=0)


def _given(ws: Workspace, path: str) -> dict[str, Any]:
    return dict(json.loads(ws.original(path).read_text()))


def _plain(value: object) -> object:
    """A special token may be written as an object, too."""
    return value.get("content") if isinstance(value, dict) else value
