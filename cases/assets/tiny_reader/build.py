"""A BERT of two layers that was pretrained to find exchanged words in questions, without its vocabulary.

A case makes the model's folder of it: the numbers of words have roles, which the case knows. The weights are
of a run of pretrain.py; another machine gets others.
"""

import json
import shutil
from pathlib import Path

CONFIG = {
    "architectures": ["BertModel"], "model_type": "bert", "vocab_size": 105, "hidden_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 96, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.0, "max_position_embeddings": 32, "type_vocab_size": 2,
    "initializer_range": 0.02, "layer_norm_eps": 1e-12, "pad_token_id": 0,
}  # fmt: skip
SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
TOKENIZER = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 32, **SPECIAL}


def build(out: Path, seed: int) -> None:
    shutil.copyfile(Path(__file__).with_name("weights.safetensors"), out / "model.safetensors")
    facts = {"config": CONFIG, "tokenizer_config": TOKENIZER, "special_tokens_map": SPECIAL}
    (out / "facts.json").write_text(json.dumps(facts))
