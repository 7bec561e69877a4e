"""Fine-tunes the pretrained encoder on the reviews, and writes the model and its probabilities for the test reviews."""

from pathlib import Path

import pandas as pd
import torch
from safetensors.torch import save_file
from tiny_distilbert import TinyDistilBert, load
from torch.nn import functional

MODEL, OUT = Path("models/distilbert"), Path("output")
EPOCHS, BATCH, RATE, VALIDATION = 2, 32, 1.5e-3, 200


def numbers(texts: pd.Series) -> torch.Tensor:
    """Numbers of words, N x length, with [CLS] in front, [SEP] behind, and padding."""
    known = {word: number for number, word in enumerate((MODEL / "vocab.txt").read_text().split())}
    rows = [
        torch.tensor([known[word] for word in ["[CLS]", *text.split(), "[SEP]"]]) for text in texts
    ]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=known["[PAD]"])


@torch.no_grad()
def predict(model: TinyDistilBert, ids: torch.Tensor) -> torch.Tensor:
    """Probabilities of negative and positive, N x 2."""
    model.eval()
    return torch.cat([model(part, part > 0).softmax(dim=1) for part in ids.split(250)])


def train(model: TinyDistilBert, ids: torch.Tensor, labels: torch.Tensor) -> None:
    """All weights, by AdamW with a warm-up."""
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.01)
    steps = EPOCHS * -(-len(ids) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps, pct_start=0.15)
    for epoch in range(1, EPOCHS + 1):
        total = 0.0
        for rows in torch.randperm(len(ids)).split(BATCH):
            loss = functional.cross_entropy(model(ids[rows], ids[rows] > 0), labels[rows])
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            total += loss.item() * len(rows)
        print(f"epoch {epoch}: loss {total / len(ids):.3f}", flush=True)


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    known, test = pd.read_csv("train.csv"), pd.read_csv("test.csv")
    ids, labels = numbers(known["text"]), torch.tensor(known["label"].to_numpy())
    model = load(str(MODEL))
    train(model, ids[VALIDATION:], labels[VALIDATION:])
    right = predict(model, ids[:VALIDATION]).argmax(dim=1) == labels[:VALIDATION]
    print(f"validation accuracy: {right.double().mean().item():.3f}")
    OUT.mkdir(exist_ok=True)
    (OUT / "config.json").write_text((MODEL / "config.json").read_text())
    save_file({name: part.contiguous() for name, part in model.state_dict().items()}, OUT / "model.safetensors")
    chances = predict(model, numbers(test["text"])).numpy()
    pd.DataFrame({"idx": test["idx"], "0": chances[:, 0], "1": chances[:, 1]}).to_csv("submission.csv", index=False)


if __name__ == "__main__":
    main()
