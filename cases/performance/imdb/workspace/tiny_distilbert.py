"""A small DistilBERT with a head for two classes, with the parameter names of the libraries of Hugging Face.

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
        size, wide = config["dim"], config["hidden_dim"]
        self.heads, self.drop = config["n_heads"], config["dropout"]
        self.attention = nn.ModuleDict({name: nn.Linear(size, size) for name in ("q_lin", "k_lin", "v_lin", "out_lin")})
        self.sa_layer_norm = nn.LayerNorm(size, eps=1e-12)
        self.ffn = nn.ModuleDict({"lin1": nn.Linear(size, wide), "lin2": nn.Linear(wide, size)})
        self.output_layer_norm = nn.LayerNorm(size, eps=1e-12)

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            self.attention[name](x).unflatten(2, (self.heads, -1)).transpose(1, 2) for name in ("q_lin", "k_lin", "v_lin")
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen[:, None, None])
        x = self.sa_layer_norm(x + self.attention["out_lin"](mixed.transpose(1, 2).flatten(2)))
        inner = self.ffn["lin2"](functional.gelu(self.ffn["lin1"](x)))
        return self.output_layer_norm(x + functional.dropout(inner, self.drop, self.training))


class TinyDistilBert(nn.Module):
    """Scores of the classes negative (0) and positive (1), N x 2."""

    def __init__(self, config: dict) -> None:
        super().__init__()
        size = config["dim"]
        embeddings = {
            "word_embeddings": nn.Embedding(config["vocab_size"], size),
            "position_embeddings": nn.Embedding(config["max_position_embeddings"], size),
            "LayerNorm": nn.LayerNorm(size, eps=1e-12),
        }
        layers = nn.ModuleList([Layer(config) for _ in range(config["n_layers"])])
        self.distilbert = nn.ModuleDict(
            {"embeddings": nn.ModuleDict(embeddings), "transformer": nn.ModuleDict({"layer": layers})}
        )
        self.pre_classifier, self.classifier = nn.Linear(size, size), nn.Linear(size, 2)
        self.drop = config["dropout"]
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=config["initializer_range"])
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def encode(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The last layer, N x length x size. Both are N x length: numbers of words, and 1 for words, 0 for padding."""
        parts = self.distilbert["embeddings"]
        x = parts["word_embeddings"](ids) + parts["position_embeddings"](torch.arange(ids.shape[1]))
        x = functional.dropout(parts["LayerNorm"](x), self.drop, self.training)
        for layer in self.distilbert["transformer"]["layer"]:
            x = layer(x, mask.bool())
        return x

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        first = torch.relu(self.pre_classifier(self.encode(ids, mask)[:, 0]))
        return self.classifier(functional.dropout(first, self.drop, self.training))


def load(folder: str) -> TinyDistilBert:
    """The model of a folder."""
    model = TinyDistilBert(json.loads(Path(folder, "config.json").read_text()))
    model.load_state_dict(load_file(Path(folder, "model.safetensors")), strict=False)
    return model
