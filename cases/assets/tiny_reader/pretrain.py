"""The training behind weights.safetensors: to find the words of a question that were exchanged, as ELECTRA does.

python pretrain.py FOLDER OUT, where FOLDER is cases/performance/boolq_performance; a quarter of a
minute on one core. Queries and keys of the first layer start as one, so that equal words find each other at once.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

sys.path.insert(0, f"{sys.argv[1]}/hidden")
sys.path.insert(0, f"{sys.argv[1]}/workspace")
from passages import ASKED, FACTS, KINDS, LENGTH, OPENINGS, RARE, WORDS, _distinct, assembled
from tiny_bert import TinyBert

STEPS, BATCH, RATE = 500, 64, 3e-3
CONFIG = {
    "hidden_size": 48, "intermediate_size": 96, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": WORDS,
    "max_position_embeddings": 32, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.0,
    "initializer_range": 0.1,
}  # fmt: skip


def start(model: TinyBert) -> None:
    """Larger embeddings, and queries that are keys."""
    parts = model.bert["embeddings"]
    for name, size in (("word", 0.5), ("position", 0.15), ("token_type", 0.2)):
        nn.init.normal_(parts[f"{name}_embeddings"].weight, std=size)
    attention = model.bert["encoder"]["layer"][0].attention["self"]
    nn.init.orthogonal_(attention["query"].weight, gain=1.6)
    attention["key"].load_state_dict(attention["query"].state_dict())


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    model, head = TinyBert(CONFIG), nn.Linear(48, 1)
    with torch.no_grad():
        start(model)
    optimiser = torch.optim.AdamW([*model.parameters(), *head.parameters()], RATE, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=STEPS, pct_start=0.1)
    rows, openings = np.arange(BATCH), np.array([*OPENINGS, *RARE])
    mask, types = torch.ones(BATCH, LENGTH), (torch.arange(LENGTH) >= 9).long().expand(BATCH, -1)
    for _ in range(STEPS):
        facts = np.stack([_distinct(rng, kind, BATCH) for kind in KINDS], axis=2)
        asked = rng.integers(FACTS, size=BATCH)
        question = facts[rows, asked]
        chance = np.stack([rng.choice(np.array(kind), BATCH) for kind in KINDS], axis=1)
        other = facts[rows, (asked + rng.integers(1, FACTS, BATCH)) % FACTS]
        hard = rng.random(question.shape) < 0.4
        new = np.where(hard, other, chance)
        new = np.where(rng.random(question.shape) < 0.3, new, question)
        follows = rng.random(BATCH) < 0.6
        away = np.stack([rng.choice(np.array(kind), BATCH) for kind in KINDS], axis=1)
        new = np.where(follows[:, None], new, away)
        ids = torch.from_numpy(assembled(rng.choice(openings, BATCH), new, facts))
        wanted = torch.from_numpy((new != question).astype(np.float32))
        states = model.encode(ids, mask, types)
        found = head(states[:, ASKED])[..., 0]
        loss = nn.functional.binary_cross_entropy_with_logits(found, wanted)
        told = model.classifier(torch.tanh(model.bert["pooler"]["dense"](states[:, 0])))
        loss = loss + 0.5 * nn.functional.cross_entropy(told, torch.from_numpy(follows.astype(np.int64)))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    state = {name: part.contiguous() for name, part in model.state_dict().items() if not name.startswith("classifier")}
    save_file(state, Path(sys.argv[2]))


if __name__ == "__main__":
    main()
