"""A quick check of train.py: `python run_training.py`. The judge uses other data and looks at more than this."""

import json
from pathlib import Path

from train import run_training


def main() -> None:
    run_training(epochs=2)
    metrics = json.loads(Path("train_metrics.json").read_text())
    history = metrics["metrics_history"]
    for entry in history:
        print(
            f"epoch {entry['epoch']}: training loss {entry['train_loss']:.3f}, accuracy {entry['train_acc']:.1f} %; "
            f"validation loss {entry['val_loss']:.3f}, accuracy {entry['val_acc']:.1f} %"
        )
    assert len(history) == 2, "expected two epochs in train_metrics.json"
    assert metrics["best_val_acc"] > 60, f"validation gets no further than {metrics['best_val_acc']:.1f} %"
    print("Validation improves with training")


if __name__ == "__main__":
    main()
