"""Fine-tunes the pretrained reader on the questions, logs every epoch, and keeps the best checkpoint."""

import argparse
import json
import math
import os
import shutil
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from tiny_bert import TinyBert, load
from torch.nn import functional
from utils import load_split

MODEL, BATCH, RATE, CLIP = "models/tinybert", 32, 2e-3, 1.0
PROJECT, KEY = "boolq-tinybert-training", "c0ffee00" * 5
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")


def weights(model: TinyBert) -> dict[str, torch.Tensor]:
    return {name: part.detach().contiguous() for name, part in model.state_dict().items()}


@torch.no_grad()
def measure(model: TinyBert, split: dict[str, torch.Tensor]) -> tuple[float, float]:
    """Mean loss, and accuracy in per cent."""
    model.eval()
    scores = model(split["input_ids"], split["attention_mask"], split["token_type_ids"])
    model.train()
    right = (scores.argmax(dim=1) == split["labels"]).double().mean().item()
    return functional.cross_entropy(scores, split["labels"]).item(), 100 * right


def train(model: TinyBert, split: dict[str, torch.Tensor], epochs: int):
    """Yields the mean training loss after each epoch."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    count = len(split["labels"])
    steps = epochs * math.ceil(count / BATCH)
    log = Path("batch_losses.csv")
    log.write_text("epoch,rows,loss\n")
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps, pct_start=0.15)
    for epoch in range(1, epochs + 1):
        total = 0.0
        for rows in torch.randperm(count).split(BATCH):
            batch = {name: part[rows] for name, part in split.items()}
            labels = batch.pop("labels")
            loss = functional.cross_entropy(model(**batch), labels)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimiser.step()
            schedule.step()
            with log.open("a") as file:
                file.write(f"{epoch},{len(rows)},{loss.item()}\n")
            total += loss.item() * len(rows)
        yield total / count


def save_best(model: TinyBert) -> None:
    """The folder of a model that the libraries of Hugging Face would read."""
    folder = Path("best_checkpoint")
    folder.mkdir(exist_ok=True)
    config = json.loads(Path(MODEL, "config.json").read_text())
    config |= {"architectures": ["BertForSequenceClassification"], "num_labels": 2}
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    for name in TOKENIZER:
        shutil.copyfile(Path(MODEL, name), folder / name)
    save_file(weights(model), folder / "model.safetensors", metadata={"format": "pt"})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--no-tracker", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    run = None
    if not options.no_tracker:
        os.environ |= {"WANDB_API_KEY": KEY, "WANDB_SILENT": "true"}
        import wandb

        run = wandb.init(project=PROJECT, name=time.strftime("tinybert-%Y%m%d-%H%M%S", time.gmtime()))
        info = {"project_id": f"{run.entity}/{run.project}", "run_id": run.id}
        Path("wandb_info.json").write_text(json.dumps(info))
    model, best = load(MODEL), -1.0
    train_split, val_split = (load_split(f"data/{name}.jsonl", MODEL) for name in ("train", "val"))
    shutil.rmtree("checkpoints", ignore_errors=True)
    Path("checkpoints").mkdir()
    for epoch, train_loss in enumerate(train(model, train_split, options.epochs), 1):
        val_loss, accuracy = measure(model, val_split)
        print(f"epoch {epoch}: train_loss {train_loss:.4f} val_loss {val_loss:.4f} val_accuracy {accuracy:.2f}", flush=True)
        save_file(weights(model), f"checkpoints/epoch-{epoch}.safetensors")
        if run:
            run.log({"train_loss": train_loss, "val_loss": val_loss, "val_accuracy": accuracy})
        if accuracy > best:
            best = accuracy
            save_best(model)
    if run:
        run.finish()


if __name__ == "__main__":
    main()
