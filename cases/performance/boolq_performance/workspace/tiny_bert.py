"""A small BERT with a yes-no head, with the parameter names of the libraries of Hugging Face.

`load(folder)` reads `config.json` and `model.safetensors`; what the file lacks, such as the head, starts at random.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional


class Layer(nn.Module):
    """One layer of the encoder: attention, then two linear layers, each with a shortcut and a norm behind it."""

    def __init__(self, config: dict) -> None:
        super().__init__()
        size, wide = config["hidden_size"], config["intermediate_size"]
        self.heads, self.drop = config["num_attention_heads"], config["hidden_dropout_prob"]
        attention = nn.ModuleDict({name: nn.Linear(size, size) for name in ("query", "key", "value")})
        norms = [nn.LayerNorm(size, eps=config["layer_norm_eps"]) for _ in range(2)]
        self.attention = nn.ModuleDict(
            {"self": attention, "output": nn.ModuleDict({"dense": nn.Linear(size, size), "LayerNorm": norms[0]})}
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(size, wide)})
        self.output = nn.ModuleDict({"dense": nn.Linear(wide, size), "LayerNorm": norms[1]})

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        parts = self.attention["self"]
        query, key, value = (
            parts[name](x).unflatten(2, (self.heads, -1)).transpose(1, 2) for name in ("query", "key", "value")
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen[:, None, None])
        out = self.attention["output"]
        mixed = out["dense"](mixed.transpose(1, 2).flatten(2))
        x = out["LayerNorm"](x + functional.dropout(mixed, self.drop, self.training))
        inner = self.output["dense"](functional.gelu(self.intermediate["dense"](x)))
        return self.output["LayerNorm"](x + functional.dropout(inner, self.drop, self.training))


class TinyBert(nn.Module):
    """Scores of the answers no (0) and yes (1), N x 2."""

    def __init__(self, config: dict) -> None:
        super().__init__()
        size = config["hidden_size"]
        embeddings = {
            "word_embeddings": nn.Embedding(config["vocab_size"], size),
            "position_embeddings": nn.Embedding(config["max_position_embeddings"], size),
            "token_type_embeddings": nn.Embedding(config["type_vocab_size"], size),
            "LayerNorm": nn.LayerNorm(size, eps=config["layer_norm_eps"]),
        }
        layers = nn.ModuleList([Layer(config) for _ in range(config["num_hidden_layers"])])
        self.bert = nn.ModuleDict(
            {
                "embeddings": nn.ModuleDict(embeddings),
                "encoder": nn.ModuleDict({"layer": layers}),
                "pooler": nn.ModuleDict({"dense": nn.Linear(size, size)}),
            }
        )
        self.classifier = nn.Linear(size, 2)
        self.drop = config["hidden_dropout_prob"]
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=config["initializer_range"])
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def encode(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        """The last layer, N x length x size. All three are N x length: word ids, 1 for words, 1 for the passage."""
        parts = self.bert["embeddings"]
        x = parts["word_embeddings"](ids) + parts["token_type_embeddings"](types)
        x = x + parts["position_embeddings"](torch.arange(ids.shape[1], device=ids.device))
        x = functional.dropout(parts["LayerNorm"](x), self.drop, self.training)
        for layer in self.bert["encoder"]["layer"]:
            x = layer(x, mask.bool())
        return x

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> torch.Tensor:
        first = self.encode(input_ids, attention_mask, token_type_ids)[:, 0]
        pooled = torch.tanh(self.bert["pooler"]["dense"](first))
        return self.classifier(functional.dropout(pooled, self.drop, self.training))


def load(folder: str) -> TinyBert:
    """The model of a folder."""
    model = TinyBert(json.loads(Path(folder, "config.json").read_text()))
    model.load_state_dict(load_file(Path(folder, "model.safetensors")), strict=False)
    return model
