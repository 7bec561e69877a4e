"""The training behind weights.safetensors: to find masked words in reviews, as BERT does.

python pretrain.py FOLDER OUT, where FOLDER is cases/performance/imdb; some minutes on one core. Every review has a
verdict at some place, a word that the reviews of the case do not have: it is masked in most of them.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from build import CONFIG
from safetensors.torch import save_file
from torch import nn

sys.path.insert(0, f"{sys.argv[1]}/hidden")
sys.path.insert(0, f"{sys.argv[1]}/workspace")
from reviews import LENGTH, MASK, VERDICTS, WORDS, Reviews, draw
from tiny_distilbert import TinyDistilBert

STEPS, BATCH, RATE, REVIEWS = 3000, 64, 3e-3, 30_000


def with_verdicts(rng: np.random.Generator, reviews: Reviews) -> np.ndarray:
    """Numbers of words, N x 36: the label as a word between two others."""
    lengths = (reviews.ids > 0).sum(axis=1)
    at = 1 + (rng.random(len(lengths)) * (lengths - 1)).astype(int)[:, None]
    places = np.arange(LENGTH)
    moved = np.take_along_axis(reviews.ids, places - (places > at), axis=1)
    return np.where(places == at, VERDICTS.start + reviews.labels[:, None], moved)


def start(model: TinyDistilBert) -> None:
    """Larger embeddings, and places as waves, so that a word finds its neighbour from the first step on."""
    parts, size = model.distilbert["embeddings"], CONFIG["dim"]
    nn.init.normal_(parts["word_embeddings"].weight, std=0.5)
    turns = torch.arange(LENGTH)[:, None] / 100 ** (torch.arange(size // 2) / (size // 2))
    parts["position_embeddings"].weight.copy_(0.5 * torch.cat([turns.sin(), turns.cos()], dim=1))


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    ids = torch.from_numpy(with_verdicts(rng, draw(rng, REVIEWS)))
    model = TinyDistilBert({**CONFIG, "dropout": 0.0, "initializer_range": 0.1})
    with torch.no_grad():
        start(model)
    bias = nn.Parameter(torch.zeros(WORDS))
    words = model.distilbert["embeddings"]["word_embeddings"].weight
    guess = nn.Linear(CONFIG["dim"], CONFIG["dim"])
    optimiser = torch.optim.AdamW([*model.parameters(), *guess.parameters(), bias], RATE, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=STEPS, pct_start=0.1)
    total, right = 0.0, 0.0
    for step in range(1, STEPS + 1):
        batch = ids[torch.randint(REVIEWS, (BATCH,))]
        seen = batch > 0
        hidden = (batch > MASK) & (torch.rand(batch.shape) < torch.where(batch < VERDICTS.start, 0.1, 0.9))
        states = model.encode(batch.masked_fill(hidden, MASK), seen)[hidden]
        logits = guess(states) @ words.T + bias
        losses = nn.functional.cross_entropy(logits, batch[hidden], reduction="none")
        told = batch[hidden] >= VERDICTS.start
        loss = 0.5 * losses[~told].mean() + losses[told].mean()
        right += (logits[told].argmax(dim=1) == batch[hidden][told]).double().mean().item()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        total += loss.item()
        if step % 250 == 0:
            print(f"{step}: loss {total / 250:.3f}, verdicts {right / 250:.3f}", flush=True)
            total, right = 0.0, 0.0
    state = {name: part.contiguous() for name, part in model.state_dict().items() if name.startswith("distilbert.")}
    save_file(state, Path(sys.argv[2]))


if __name__ == "__main__":
    main()
