"""A DistilBERT of two layers that was pretrained to find masked words in reviews, without its vocabulary.

A case makes the model's folder of it: the numbers of words have roles, which the case knows. The weights are
of a run of pretrain.py; another machine gets others.
"""

import json
import shutil
from pathlib import Path

CONFIG = {
    "architectures": ["DistilBertModel"], "model_type": "distilbert", "vocab_size": 183, "dim": 48, "hidden_dim": 96,
    "n_layers": 2, "n_heads": 4, "activation": "gelu", "dropout": 0.1, "attention_dropout": 0.0,
    "max_position_embeddings": 36, "initializer_range": 0.02, "pad_token_id": 0,
}  # fmt: skip


def build(out: Path, seed: int) -> None:
    shutil.copyfile(Path(__file__).with_name("weights.safetensors"), out / "model.safetensors")
    (out / "facts.json").write_text(json.dumps({"config": CONFIG}))
