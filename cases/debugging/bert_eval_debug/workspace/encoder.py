"""The encoder: embeddings of words, places and segments, one layer on each token, their mean, two classes."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn


class Encoder(nn.Module):
    """Scores of the answers no and yes, N x 2."""

    def __init__(self, vocab_size: int, max_length: int, hidden_size: int, inner_size: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, hidden_size)
        self.position_embeddings = nn.Embedding(max_length, hidden_size)
        self.token_type_embeddings = nn.Embedding(2, hidden_size)
        self.norm = nn.LayerNorm(hidden_size)
        self.inner = nn.Linear(hidden_size, inner_size)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(inner_size, 2)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.word_embeddings(input_ids) + self.position_embeddings(places)
        x = self.norm(x + self.token_type_embeddings(token_type_ids))
        x = self.dropout(torch.relu(self.inner(x)))
        mask = attention_mask[..., None].to(x.dtype)
        return self.classifier((x * mask).sum(dim=1) / mask.sum(dim=1))


def load_encoder(folder: str) -> Encoder:
    """The encoder of a checkpoint."""
    model = Encoder(**json.loads(Path(folder, "config.json").read_text()))
    model.load_state_dict(load_file(Path(folder, "model.safetensors")))
    return model
